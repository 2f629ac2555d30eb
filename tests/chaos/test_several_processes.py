"""Several processes on one database: projectors killed, stopped and waking up again, servers that share a log."""

import random
import signal
from functools import partial

import anyio
import pytest

from tests.chaos.api import api, entry
from tests.chaos.form import timeout_s, times
from tests.chaos.installations import LEASE_MS, Installation
from tests.chaos.load import Load
from tests.chaos.parameters import BOTH_EXTERNAL
from tests.chaos.racing import race
from tests.chaos.waiting import until
from tests.counts import Report
from tests.turnlog_process import TurnlogProcess

KILLS = times(4)
TURNS_BETWEEN = 20
TAKEOVER_S = 30 * LEASE_MS / 1000
"""Far above the lease, far below what a person would wait: a process start on a busy machine fits in."""


@pytest.mark.needs_kafka
@pytest.mark.timeout(timeout_s(240))
async def test_projectors_killed_at_random_leave_reads_right_and_streams_whole(
    on_kafka: Installation, report: Report
) -> None:
    server = on_kafka.process(no_projector="true")
    projectors = [on_kafka.process("project"), on_kafka.process("project")]
    for projector in projectors:
        await projector.launch()
    await server.start()
    load = Load([server.url], streams=4)
    slowest_s = await _killed_in_turn(load, projectors)
    await load.check()
    for projector in projectors:
        await until(partial(projector.says, '"projecting"'), "it projects")
    for process in (server, *projectors):
        assert await process.stop() == 0, process.output()[-2000:]
    await on_kafka.verify()
    report(f"{KILLS} SIGKILLs of two projectors, the slowest takeover {slowest_s:.1f} s; {load.counts()}")


@pytest.mark.timeout(timeout_s(240))
async def test_two_servers_share_one_postgres_log_while_either_is_killed(
    on_postgres: Installation, report: Report
) -> None:
    servers = [on_postgres.process(), on_postgres.process()]
    for server in servers:
        await server.start()
    load = Load([server.url for server in servers], streams=3)
    slowest_s = await _killed_in_turn(load, servers)
    for server in servers:
        await server.ready()
    await load.check()
    for server in servers:
        assert await server.stop() == 0, server.output()[-2000:]
    await on_postgres.verify()
    report(f"{KILLS} SIGKILLs of two servers, the slowest takeover {slowest_s:.1f} s; {load.counts()}")


@pytest.mark.parametrize("installation", BOTH_EXTERNAL, indirect=True)
async def test_a_request_that_waits_for_its_verdict_gets_it_from_whoever_takes_over(
    installation: Installation, report: Report
) -> None:
    """The projector stands still instead of dying, so it wakes up as a zombie afterwards."""
    server = installation.process(no_projector="true", read_wait_ms="20000")
    first = installation.process("project")
    await first.launch()
    await server.start()
    key = "agent:a1:native"
    async with api(server.url) as client:
        assert (await client.save(key, entry("e1"), Idempotency_Key="k1")).status == 200
        first.send(signal.SIGSTOP)
        second = installation.process("project")
        await second.launch()
        answers = await race(
            client.save(key, entry("e2"), Idempotency_Key="k2"),
            client.reset(key, Idempotency_Key="k3"),
            client.save_resume_point(key, "r1"),
        )
        assert [answer.status for answer in answers] == [200, 200, 200], answers
        took_s = max(answer.took_s for answer in answers)
        shown = await client.entry_ids(key)
        assert shown is not None
        assert len(shown) == 3
        assert shown[0] == "e1"
        first.send(signal.SIGCONT)
        for number in range(10):
            assert (await client.save(key, entry(f"later-{number}"), Idempotency_Key=f"l{number}")).status == 200
        assert await client.entry_ids(key) == [*shown, *(f"later-{number}" for number in range(10))]
    for process in (server, first, second):
        assert await process.stop() == 0, process.output()[-2000:]
    await installation.verify()
    report(f"verdicts after a takeover came within {took_s:.1f} s, start of the second projector included")


async def _killed_in_turn(load: Load, processes: list[TurnlogProcess]) -> float:
    """Kill one at random, wait until everything is applied by the other, start it again; the slowest takeover."""
    slowest_s = 0.0
    async with load.running():
        await load.more(TURNS_BETWEEN)
        for _ in range(KILLS):
            victim = random.choice(processes)
            await anyio.sleep(random.uniform(0, 0.2))
            await victim.kill()
            started = anyio.current_time()
            await load.applied(within_s=TAKEOVER_S)
            slowest_s = max(slowest_s, anyio.current_time() - started)
            await victim.launch()
            await load.more(TURNS_BETWEEN)
    return slowest_s
