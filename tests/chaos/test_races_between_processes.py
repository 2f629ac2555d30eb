"""Two servers on one log: what one appends while the other ends the session, and what is asked for twice."""

from collections import Counter
from uuid import uuid4

import msgspec
import pytest

from tests.chaos.api import Answer, entry
from tests.chaos.form import timeout_s, times
from tests.chaos.installations import Pair, log_of
from tests.chaos.parameters import BOTH_PAIRS
from tests.chaos.racing import race
from tests.counts import Report
from tests.log_settings import raw_event, turn
from turnlog.domain.event_data import TurnAppended
from turnlog.domain.event_json import encode_data

ROUNDS = times(30)

pytestmark = [
    pytest.mark.parametrize("pair", BOTH_PAIRS, indirect=True, scope="module"),
    pytest.mark.timeout(timeout_s(120)),
]


def new_key() -> str:
    """A session key that no other test uses."""
    return f"agent:{uuid4().hex}:native"


async def test_a_save_racing_a_delete_stays_exactly_if_it_came_later(pair: Pair, report: Report) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(ROUNDS):
        key, keyed = new_key(), number % 2 == 1
        assert (await pair.one.save(key, entry("old"))).status == 200
        headers = {"Idempotency-Key": key} if keyed else {}
        saved, deleted = await race(pair.one.save(key, entry("new"), **headers), pair.other.delete(key))
        assert deleted.status == 200, deleted
        if saved.status == 410:
            assert keyed
            outcomes["refused"] += 1
            assert await _on_both(pair, key, deleted.position) == []
            continue
        assert saved.status == 200, saved
        later = saved.offset > deleted.offset
        outcomes["later" if later else "earlier"] += 1
        shown = await _on_both(pair, key, f"{saved.position},{deleted.position}")
        assert shown == (["new"] if later else []), (saved, deleted)
    assert outcomes["earlier"] and outcomes["later"], outcomes
    report(f"{ROUNDS} saves racing another process's delete: {dict(outcomes)}")


async def test_work_begun_before_a_delete_never_comes_back_whichever_came_first(pair: Pair, report: Report) -> None:
    outcomes: Counter[str] = Counter()
    async with log_of(pair.installation) as log:
        for _ in range(ROUNDS):
            key = new_key()
            first = await pair.one.save(key, entry("old"))
            assert (await pair.one.reset(key)).status == 200
            epoch = await pair.one.epoch(key)
            assert epoch > first.offset
            data = TurnAppended(session_key=key, entries=[msgspec.Raw(b'{"entryId":"late"}')], epoch=epoch)
            resumed, deleted, _ = await race(
                pair.one.save_resume_point(key, "r1", epoch),
                pair.other.delete(key),
                log.append(raw_event(encode_data(data), key)),
            )
            assert deleted.status == 200
            assert resumed.status in (200, 410), resumed
            assert resumed.status == 410 or resumed.offset < deleted.offset
            outcomes[f"resume point {resumed.status}"] += 1
            partition = int(deleted.position.partition("-")[0])
            assert await _on_both(pair, key, f"{partition}-{await log.end(partition) - 1}") == []
            assert await pair.one.resume_point(key) is None
            stale = await pair.one.save_resume_point(key, "r2", epoch)
            assert stale.status == 410, stale
    report(f"{ROUNDS} turns and resume points of an old epoch racing a delete: {dict(outcomes)}")


async def test_a_retry_across_a_delete_is_gone_and_brings_nothing_back(pair: Pair) -> None:
    key = new_key()
    assert (await pair.one.save(key, entry("e1"), Idempotency_Key="k1")).status == 200
    deleted = await pair.other.delete(key)
    for client in (pair.one, pair.other):
        retried = await client.save(key, entry("e1"), Idempotency_Key="k1")
        assert retried.status == 410, retried
    assert await _on_both(pair, key, deleted.position) == []
    again = await pair.one.save(key, entry("e1"))
    assert await _on_both(pair, key, again.position) == ["e1"]


async def test_a_record_sent_again_across_a_delete_is_ignored_and_one_first_sent_after_it_counts(pair: Pair) -> None:
    key = new_key()
    async with log_of(pair.installation) as log:
        original = turn(key, "first")
        place, _ = await log.append(original)
        deleted = await pair.other.delete(key)
        assert deleted.offset > place.offset
        # As the successor of a dead producer sends it: the next attempt, with the end when it was first sent.
        await log.append(turn(key, "resend", id=original.id, attempt=2, sent_after=place.offset))
        await log.append(turn(key, "resend of one that never landed", attempt=2, sent_after=deleted.offset))
        counts, _ = await log.append(turn(key, "new", attempt=2, sent_after=deleted.offset + 1))
    page = await pair.one.page(key, Turnlog_After=str(counts))
    assert [item["text"] for item in page.body["entries"]] == ["new"]


async def test_a_retried_clear_answers_as_the_first_did_and_clears_nothing_more(pair: Pair) -> None:
    team = uuid4().hex
    general, room = f"agent:a1:team:{team}", f"agent:a1:team:{team}:room:r1"
    assert (await pair.one.save(general, entry("old"))).status == 200
    assert (await pair.one.save(room, entry("kept"))).status == 200
    clears = [client.clear(team, Idempotency_Key="c1") for client in (pair.one, pair.other) * 3]
    answers: list[Answer] = list(await race(*clears))
    after = await pair.one.save(general, entry("after"))
    later = await pair.other.save(f"agent:a2:team:{team}", entry("teammate"))
    answers += [await pair.one.clear(team, Idempotency_Key="c1"), await pair.other.clear(team, Idempotency_Key="c1")]
    assert {answer.status for answer in answers} == {200}, answers
    assert {answer.position for answer in answers} == {answers[0].position}
    assert [answer.body for answer in answers] == [answers[0].body] * len(answers)
    assert answers[0].body["sessionKeys"] == [general]
    assert await _on_both(pair, general, after.position) == ["after"]
    assert await _on_both(pair, room, later.position) == ["kept"]
    assert await _on_both(pair, f"agent:a2:team:{team}", later.position) == ["teammate"]


async def test_a_clear_racing_a_teammates_first_message_sets_it_aside_exactly_if_the_clear_came_later(
    pair: Pair, report: Report
) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(ROUNDS):
        team = uuid4().hex
        key = f"agent:newcomer:team:{team}" if number % 2 else f"agent:newcomer:team:{team}:room:r1"
        saved, cleared = await race(pair.one.save(key, entry("first")), pair.other.clear(team, "*"))
        assert saved.status == cleared.status == 200, (saved, cleared)
        first = saved.offset < cleared.offset
        outcomes["message first" if first else "clear first"] += 1
        assert cleared.body["sessionKeys"] == ([key] if first else [])
        shown = await _on_both(pair, key, f"{saved.position},{cleared.position}")
        assert shown == ([] if first else ["first"]), (saved, cleared)
        if first:
            # A cleared message never comes back by a re-save.
            again = await pair.other.save(key, entry("first"))
            assert await _on_both(pair, key, again.position) == []
    assert outcomes["message first"] and outcomes["clear first"], outcomes
    report(f"{ROUNDS} clears racing a first message: {dict(outcomes)}")


async def _on_both(pair: Pair, key: str, after: str) -> list[str]:
    """The session's entry ids, the same on both servers."""
    one = await pair.one.entry_ids(key, Turnlog_After=after)
    other = await pair.other.entry_ids(key, Turnlog_After=after)
    assert one is not None
    assert one == other
    return one
