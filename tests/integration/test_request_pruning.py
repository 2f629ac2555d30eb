"""Verdicts on requests without a key go after a while, those with one never."""

from dataclasses import replace
from random import Random

import pytest

from tests.integration.erasing import append_all, postgres_log, project_all
from tests.integration.story_events import event
from turnlog.domain import event_data as d
from turnlog.infra.postgres import Database
from turnlog.services import request_pruning
from turnlog.services.request_pruning import RequestPruning

K = "agent:a:native"


async def test_unkeyed_verdicts_go_when_they_are_old_and_keyed_ones_never(
    tables: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_pruning, "BATCH", 20)
    random = Random(1)
    count = 50
    unkeyed = [event(random, d.ResumePointSaved(K, "codex", f"r{number}"), K) for number in range(count)]
    keyed = [replace(item, idempotency_key=random.randbytes(32)) for item in unkeyed[:5]]
    keyed = [replace(item, id=event(random, d.Tick(), "tick", "tick").id) for item in keyed]
    async with postgres_log(tables) as log:
        await append_all(log, [*keyed, *unkeyed[: count - 5]])
        await project_all(tables, log)
    async with tables.connection() as connection:
        await connection.execute("UPDATE requests SET applied_at = applied_at - interval '25 h'")
    async with postgres_log(tables) as log:
        await append_all(log, unkeyed[count - 5 :])
        await project_all(tables, log)
    assert await RequestPruning(tables, kept_s=24 * 3600).prune_once() == count - 5
    assert await RequestPruning(tables, kept_s=24 * 3600).prune_once() == 0
    async with tables.connection() as connection:
        left = await connection.fetch("SELECT key_hash IS NOT NULL, count(*) FROM requests GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in left] == [(False, 5), (True, 5)]
