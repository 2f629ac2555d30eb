"""A context kept open by a task of its own: fixtures begin and end in different tasks, task groups must not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def in_own_task(context: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """What the context gives, while it is open."""
    opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    finished = asyncio.Event()

    async def keep_open() -> None:
        async with context as value:
            opened.set_result(value)
            await finished.wait()

    keeping = asyncio.ensure_future(keep_open())
    waiting: list[asyncio.Future[T] | asyncio.Future[None]] = [opened, keeping]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if not opened.done():
        opened.cancel()
        await keeping
    try:
        yield opened.result()
    finally:
        finished.set()
        await keeping
