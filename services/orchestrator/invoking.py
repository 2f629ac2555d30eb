"""Calling what users hand in: async functions on the event loop, sync ones in a thread."""

import inspect
from collections.abc import Callable
from typing import Any

import anyio.to_thread


async def invoke(function: Callable[..., Any], *arguments: object) -> None:
    """Call it and wait for what it does. Raises what it raises. A thread is left behind on cancellation."""
    if _is_async(function):
        await function(*arguments)
        return
    result = await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
    if inspect.isawaitable(result):
        await result


def _is_async(function: Callable[..., Any]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - is it async, not: is it there
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
