"""The one word that goes from the server to its open streams: end now."""

import anyio


class Draining:
    """Set once, when the process is asked to end. Belongs to one event loop."""

    def __init__(self) -> None:
        self._started = anyio.Event()

    def start(self) -> None:
        """Ask every open stream to end."""
        self._started.set()

    @property
    def started(self) -> bool:
        """True once the process was asked to end."""
        return self._started.is_set()

    async def wait(self) -> None:
        """Return once the process is asked to end."""
        await self._started.wait()
