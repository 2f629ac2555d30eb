"""A server process on stand-ins, for tests that end it by a signal. Prints its port."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.http.stand_ins import Commands, Tables, parts
from turnlog.domain.entries import Entry
from turnlog.services.conversations import Saved
from turnlog.services.event_factory import ANONYMOUS, Origin
from turnlog.services.http.app import create_app
from turnlog.services.http.options import HttpOptions
from turnlog.services.http.server import new_server


class SlowCommands(Commands):
    """A save to `slow` takes a second, to `stuck` for ever."""

    async def save_entries(
        self, session_key: str, entries: Sequence[Entry], *, gateway_url: str = "", origin: Origin = ANONYMOUS
    ) -> Saved:
        print(f"saving {session_key}", flush=True)  # noqa: T201 - the test waits for it
        await asyncio.sleep({"slow": 1, "stuck": 3600}.get(session_key, 0))
        return await super().save_entries(session_key, entries, gateway_url=gateway_url, origin=origin)


async def _ready() -> tuple[bool, dict[str, Any]]:
    return True, {}


async def main() -> None:
    """Serve until a signal."""
    options = HttpOptions(port=0, rate_limit=0, shutdown_s=3)
    tables = Tables()
    app = create_app(parts(SlowCommands(), tables, _ready, options))

    def listening(port: int) -> None:
        print(port, flush=True)  # noqa: T201 - the test reads it

    await new_server(app, options, on_listening=listening).serve()


if __name__ == "__main__":
    asyncio.run(main())
