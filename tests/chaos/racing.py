"""Calls that are made at nearly the same time, in an order that chance decides."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

JITTER_S = 0.02


async def race(*calls: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """All calls' results, in the order of the arguments; each call begins within `JITTER_S`."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_after_a_moment(call)) for call in calls]
    return tuple(task.result() for task in running)


async def _after_a_moment(call: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - any call's result
    await asyncio.sleep(random.uniform(0, JITTER_S))
    return await call
