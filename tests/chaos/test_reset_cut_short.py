"""A reset over sessions of three streams, its server killed in the middle, finished by a retry with the same key."""

import asyncpg
import pytest

from tests.chaos.api import Answer, Api, api, entry
from tests.chaos.form import LONG, timeout_s
from tests.chaos.installations import Installation
from tests.chaos.parameters import BOTH_EXTERNAL
from tests.counts import Report

CUTS = ("after-commit:1", "after-fold:2")
MORE_CUTS = ("after-fold:1", "after-commit:2", "after-fold:3", "after-commit:3") if LONG else ()
"""Every reset is a batch of its own, for the next one is appended once it is applied."""


@pytest.mark.timeout(timeout_s(180))
@pytest.mark.parametrize("installation", BOTH_EXTERNAL, indirect=True)
async def test_a_reset_over_three_streams_that_was_cut_is_finished_by_its_retry(
    installation: Installation, report: Report
) -> None:
    server = installation.process()
    await server.start()
    done_before: list[int] = []
    async with api(server.url) as client:
        for number, cut in enumerate(CUTS + MORE_CUTS):
            keys = [f"agent:n{number}-{stream}:native" for stream in ("notice", "second", "third")]
            for key in keys:
                assert (await client.save(key, entry("before", key))).status == 200
                assert (await client.save_resume_point(key, "r1")).status == 200
            assert await server.stop() == 0
            await server.start(failpoint=cut)
            assert (await client.reset(*keys, Idempotency_Key="once")).status == 0
            assert await server.finished() == -9
            await server.start()

            ended_before = [key for key in keys if await client.epoch(key)]
            done_before.append(len(ended_before))
            finished = await client.reset(*keys, Idempotency_Key="once")
            assert finished.status == 200, finished
            again = await client.reset(*keys, Idempotency_Key="once")
            assert again.body == finished.body
            assert again.position == finished.position
            await _ended_once(client, keys, finished)
            assert await _resets(installation, keys) == dict.fromkeys(keys, 1)
    assert await server.stop() == 0
    await installation.verify()
    assert set(done_before) >= {1, 2}, done_before
    report(f"{len(done_before)} SIGKILLs; streams already reset when the retry came: {done_before}")


async def _ended_once(client: Api, keys: list[str], finished: Answer) -> None:
    divider = finished.body["entry"]
    for key in keys:
        page = await client.page(key, Turnlog_After=finished.position)
        shown = page.body["entries"]
        assert [item["entryId"] for item in shown] == ["before"] + [divider["entryId"]] * (key == keys[0])
        assert key != keys[0] or shown[-1] == divider
        assert await client.resume_point(key) is None


async def _resets(installation: Installation, keys: list[str]) -> dict[str, int]:
    """How many resets each session has in the tables."""
    connection = await asyncpg.connect(installation.settings["database_url"])
    try:
        rows = await connection.fetch(
            """
            SELECT s.session_key, count(e.position) FROM turnlog_g1.sessions s
            LEFT JOIN turnlog_g1.endings e ON e.session_id = s.session_id
            WHERE s.session_key = ANY($1::text[]) GROUP BY 1
            """,
            keys,
        )
    finally:
        await connection.close()
    return {row[0]: row[1] for row in rows}
