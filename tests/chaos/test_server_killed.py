"""SIGKILL of the server, again and again, while clients post, read and follow live streams."""

import random

import anyio
import pytest

from tests.chaos.form import timeout_s, times
from tests.chaos.installations import Installation, kill_with_children
from tests.chaos.load import Load
from tests.chaos.parameters import BOTH_LOGS
from tests.counts import Report

KILLS = times(20)
TURNS_BETWEEN = 8


@pytest.mark.timeout(timeout_s(240))
@pytest.mark.parametrize("installation", BOTH_LOGS, indirect=True)
async def test_whatever_was_acknowledged_before_a_kill_is_there_once_and_in_order(
    installation: Installation, report: Report
) -> None:
    server = installation.process()
    load = Load([server.url], streams=3)
    with_postgres = 0
    await server.start()
    async with load.running():
        for number in range(KILLS):
            await load.more(TURNS_BETWEEN)
            await anyio.sleep(random.uniform(0, 0.1))
            if installation.name == "embedded" and number % 4 == 3:
                with_postgres += 1
                kill_with_children(server.pid)
                await server.finished()
            else:
                await server.kill()
            await server.start()
    await load.check()
    assert await server.stop() == 0
    await installation.verify()
    postgres = f", {with_postgres} of them with its PostgreSQL" if with_postgres else ""
    report(f"{KILLS} SIGKILLs of the server{postgres}; {load.counts()}")
