"""`turnlog serve` without a setting: one data directory, one process, an orderly end."""

import contextlib
import json
import random
import re
import signal
import socket

import anyio
import pytest

from tests.chaos.api import Answer, Api, api, entry
from tests.chaos.form import timeout_s, times
from tests.chaos.installations import Installation, kill_with_children, postgres_below
from tests.chaos.load import Load
from tests.chaos.waiting import until
from tests.counts import Report

END_S = 10.0
IN_FLIGHT = 24


async def test_a_second_start_on_the_same_data_directory_says_that_it_is_in_use(embedded: Installation) -> None:
    first, second = embedded.process(), embedded.process()
    await first.start()
    await second.launch()
    assert await second.finished() == 1
    said = second.output()
    assert re.search(rf"^turnlog: .*in use.*{first.pid}", said, re.MULTILINE), said
    assert embedded.settings["data_dir"] in said
    async with api(first.url) as client:
        assert (await client.save("agent:a1:native", entry("e1"))).status == 200
        assert await client.entry_ids("agent:a1:native") == ["e1"]


async def test_killed_with_its_postgres_it_starts_again_with_everything_acknowledged(embedded: Installation) -> None:
    server = embedded.process()
    await server.start()
    async with api(server.url) as client:
        acknowledged = [f"e{number}" for number in range(20)]
        for entry_id in acknowledged:
            assert (await client.save("agent:a1:native", entry(entry_id))).status == 200
        assert kill_with_children(server.pid) > 5
        await server.finished()
        await server.start()
        assert await client.entry_ids("agent:a1:native") == acknowledged


@pytest.mark.timeout(timeout_s(120))
async def test_sigterm_under_load_ends_in_time_and_loses_nothing(embedded: Installation, report: Report) -> None:
    server = embedded.process()
    load = Load([server.url], streams=2)
    slowest_s = 0.0
    rounds = times(2)
    await server.start()
    async with load.running():
        for _ in range(rounds):
            with contextlib.ExitStack() as stack:
                for stalled in (_stream_that_is_not_read(server.port), _post_that_stops_half_way(server.port)):
                    stack.enter_context(stalled)
                await load.more(20)
                await anyio.sleep(random.uniform(0, 0.1))
                started = anyio.current_time()
                assert await server.stop() == 0, server.output()[-2000:]
                slowest_s = max(slowest_s, anyio.current_time() - started)
            await server.start()
    assert slowest_s < END_S
    await load.check()
    report(f"{rounds} SIGTERMs under load, the slowest end took {slowest_s:.1f} s; {load.counts()}")


async def test_requests_in_flight_at_sigterm_are_answered_and_what_they_say_is_true(
    embedded: Installation, report: Report
) -> None:
    """They are held in flight by a PostgreSQL that stands still."""
    server = embedded.process()
    await server.start()
    key = "agent:a1:native"
    answers: dict[str, Answer] = {}
    async with api(server.url) as client:
        assert (await client.save(key, entry("before"))).status == 200
        frozen = postgres_below(server.pid)
        assert frozen
        for process in frozen:
            process.suspend()
        try:
            async with anyio.create_task_group() as tasks:
                for number in range(IN_FLIGHT):
                    tasks.start_soon(_save_into, answers, client, key, f"in-flight-{number}", number % 2 == 1)
                await anyio.sleep(0.5)
                assert not answers
                started = anyio.current_time()
                server.send(signal.SIGTERM)
                await until(lambda: _refuses(server.port), "nothing is accepted any more")
                for process in frozen:
                    process.resume()
            assert await server.finished() == 0, server.output()[-2000:]
        finally:
            for process in frozen:
                with contextlib.suppress(Exception):
                    process.resume()
        took_s = anyio.current_time() - started
        assert took_s < END_S
        assert len(answers) == IN_FLIGHT
        assert {answer.status for answer in answers.values()} <= {200, 500, 503}, answers
        await server.start()
        shown = await client.entry_ids(key)
    assert shown is not None
    assert len(shown) == len(set(shown))
    finished = {entry_id for entry_id, answer in answers.items() if answer.status == 200}
    assert finished <= set(shown)
    assert set(shown) <= {"before", *answers}
    report(f"{IN_FLIGHT} requests in flight at SIGTERM, {len(finished)} finished, the others refused; {took_s:.1f} s")


async def test_after_a_kill_the_server_is_soon_ready_again(embedded: Installation) -> None:
    """Nobody else can have the tables of its data directory, so it waits for no lease of the dead one."""
    server = embedded.process(lease_ms="60000")
    await server.start()
    async with api(server.url) as client:
        assert (await client.save("agent:a1:native", entry("e1"))).status == 200
        await server.kill()
        await server.launch()
        await server.ready(within_s=40)
        assert (await client.save("agent:a1:native", entry("e2"))).status == 200
        assert await client.entry_ids("agent:a1:native") == ["e1", "e2"]


async def _save_into(answers: dict[str, Answer], client: Api, key: str, entry_id: str, keyed: bool) -> None:
    headers = {"Idempotency-Key": entry_id} if keyed else {}
    answers[entry_id] = await client.save(key, entry(entry_id), **headers)


def _stream_that_is_not_read(port: int) -> socket.socket:
    """An open live stream whose client never reads a byte."""
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(f"GET /api/teams/t0/chat/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return client


def _post_that_stops_half_way(port: int) -> socket.socket:
    """A POST whose body doesn't come to its end."""
    body = json.dumps({"sessionKey": "agent:half:native", "entries": [entry("half")]}).encode()
    client = socket.create_connection(("127.0.0.1", port))
    head = f"POST /api/chat-history HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:20])
    return client


def _refuses(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return False
    except OSError:
        return True
