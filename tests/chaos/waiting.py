"""Waiting for a condition with a deadline."""

from collections.abc import Awaitable, Callable

import anyio

POLL_S = 0.02


async def until(condition: Callable[[], bool], what: str, *, within_s: float = 30) -> None:
    """Wait until the condition holds; fail naming `what` was waited for."""
    with anyio.move_on_after(within_s):
        while not condition():
            await anyio.sleep(POLL_S)
        return
    raise AssertionError(f"not within {within_s:.0f} s: {what}")


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, *, within_s: float = 30) -> None:
    """The same for a condition that has to be asked for."""
    with anyio.move_on_after(within_s):
        while not await condition():
            await anyio.sleep(POLL_S)
        return
    raise AssertionError(f"not within {within_s:.0f} s: {what}")
