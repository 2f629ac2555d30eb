"""Work that goes on for a while after its caller was cancelled."""

from collections.abc import Awaitable, Callable

import anyio

GRACE_S = 5.0
"""How long recording and telling listeners may take once a prompt is cancelled, in seconds."""


async def with_grace(work: Callable[[], Awaitable[None]], grace_s: float = GRACE_S) -> None:
    """Run `work` to its end. If the caller is cancelled meanwhile, it has `grace_s` seconds left; then the cancellation
    goes on, whatever came of the work. Raises what the work raises.
    """
    shield = anyio.CancelScope(shield=True)
    done = anyio.Event()
    failures: list[Exception] = []

    async def run() -> None:
        try:
            with shield:
                await work()
        except Exception as error:  # noqa: BLE001 - raised below, without a group around it
            failures.append(error)
        finally:
            done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        try:
            await done.wait()
        except anyio.get_cancelled_exc_class():
            shield.deadline = anyio.current_time() + grace_s
            raise
    if failures:
        raise failures[0]
