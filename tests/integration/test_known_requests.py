"""Looking a request up by its idempotency key, when that key is in the log several times."""

from dataclasses import replace
from random import Random

from tests.integration.erasing import append_all, postgres_log, project_all
from tests.integration.story_events import event, turn
from turnlog.domain import event_data as d
from turnlog.domain.session_key import Scope, team_stream
from turnlog.infra.postgres import Database
from turnlog.projections import known_requests

KEY_HASH = bytes(range(32))


async def test_of_requests_with_one_key_the_first_answers_wherever_its_row_lies(tables: Database) -> None:
    random = Random(3)
    cleared = d.ChatCleared("t1", "general", 7)
    clears = [event(random, cleared, Scope("t1", "general").subject(), team_stream("t1")) for _ in range(3)]
    keyed = [replace(clear, idempotency_key=KEY_HASH, request_hash=KEY_HASH) for clear in clears]
    async with postgres_log(tables) as log:
        offsets = await append_all(log, [turn(random, "agent:a:team:t1", "e1"), *keyed])
        await project_all(tables, log)
    async with tables.connection() as connection:
        # Written anew, the first one's row stands behind those of its duplicates.
        await connection.execute("UPDATE requests SET applied_at = applied_at WHERE first_event_id IS NULL")
        await connection.execute("VACUUM requests")
        await connection.execute("SET enable_indexscan = off; SET enable_seqscan = on")
        checkpoint, known = await known_requests.by_key(connection, KEY_HASH, 0)
        await connection.execute("RESET enable_indexscan; RESET enable_seqscan")
    assert checkpoint == offsets[-1] + 1
    assert known is not None
    assert known.event_id == keyed[0].id
    assert known.position == offsets[1]
    assert known.session_keys == ("agent:a:team:t1",)
