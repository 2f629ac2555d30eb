"""Duplicates, verdicts and index rows (fold.md, rules 3 and 5)."""

from uuid import UUID

from tests.domain.story import GENERAL_A, K, Story
from turnlog.domain.event_data import ErasureCompleted, QuarantineDecided
from turnlog.domain.events import EventType, RecordKey
from turnlog.domain.fold.effects import IndexRow
from turnlog.domain.session_key import Scope, session_id

HASH = b"h" * 32


def test_a_judged_record_has_an_index_row_without_content(story: Story) -> None:
    p = story.turn(K, "e1", idempotency_key=HASH)
    row = story.tables.index[p]
    assert row == IndexRow(session_id(K), p, RecordKey(story.event(p).id, 1), HASH, EventType.TURN_APPENDED, 200)


def test_a_refused_record_has_an_index_row_with_its_status(story: Story) -> None:
    p = story.turn(K, "e1", if_position=5)
    assert story.tables.index[p].status == 409


def test_a_resend_is_a_duplicate_and_moves_nothing(story: Story) -> None:
    p = story.turn(K, "e1", messages=[], sent_after=0)
    before = story.state(K)
    q = story.resend(p)
    verdict = story.verdict(q)
    assert (verdict.status, verdict.first, verdict.offset, verdict.stored) == (200, story.event(p).id, p, 0)
    assert story.state(K) == before
    assert story.tables.index[q] == story.tables.index[p]._replace(offset=q, key=RecordKey(story.event(p).id, 2))


def test_a_duplicate_of_a_refused_record_is_refused_even_if_it_could_be_applied_now(story: Story) -> None:
    p = story.turn(K, "e1", if_position=2)
    q = story.turn(K, "e2")
    assert q == 2
    assert story.status(story.resend(p)) == 409
    assert len(story.entries(K)) == 1


def test_the_first_of_two_events_with_one_key_wins(story: Story) -> None:
    p = story.turn(K, "e1", idempotency_key=HASH)
    q = story.turn(K, "e2", idempotency_key=HASH)
    verdict = story.verdict(q)
    assert (verdict.status, verdict.first, verdict.offset, verdict.key_hash) == (200, story.event(p).id, p, HASH)
    assert story.tables.index[q].key_hash is None
    assert len(story.entries(K)) == 1


def test_the_event_id_of_a_duplicate_is_judged_from_then_on(story: Story) -> None:
    story.turn(K, "e1", idempotency_key=HASH)
    q = story.turn(K, "e2", idempotency_key=HASH)
    r = story.resend(q, idempotency_key=None)
    assert story.verdict(r).first == story.event(q).id
    assert story.verdict(r).offset == q
    assert len(story.entries(K)) == 1


def test_the_key_of_a_duplicate_is_not_taken(story: Story) -> None:
    p = story.turn(K, "e1")
    story.resend(p, idempotency_key=HASH)
    q = story.turn(K, "e2", idempotency_key=HASH)
    assert story.verdict(q).first is None
    assert len(story.entries(K)) == 2


def test_the_event_id_counts_before_the_key(story: Story) -> None:
    p = story.turn(K, "e1")
    story.turn(K, "e2", idempotency_key=HASH)
    assert story.verdict(story.resend(p, idempotency_key=HASH)).offset == p


def test_event_ids_and_keys_are_known_per_session_and_type(story: Story) -> None:
    shared = UUID(int=7)
    story.turn(K, "e1", id=shared, idempotency_key=HASH)
    assert story.verdict(story.turn(GENERAL_A, "e1", id=shared, idempotency_key=HASH)).first is None
    assert story.verdict(story.saved(K, id=shared, idempotency_key=HASH)).first is None
    assert story.verdict(story.reset(K, id=shared, idempotency_key=HASH)).first is None


def test_a_retried_clear_ends_nothing_a_second_time(story: Story) -> None:
    story.turn(GENERAL_A, "e1")
    p = story.clear(idempotency_key=HASH)
    q = story.turn(GENERAL_A, "e2")
    r = story.clear(idempotency_key=HASH)
    assert (story.verdict(r).first, story.verdict(r).offset, story.verdict(r).epoch) == (story.event(p).id, p, p)
    assert story.state(GENERAL_A).last == q
    assert story.tables.clears == {Scope("t1", "general"): p}
    assert len(story.tables.endings) == 1


def test_a_resent_delete_does_not_take_what_came_after_it(story: Story) -> None:
    p = story.deleted(K)
    story.turn(K, "e1")
    story.resend(p)
    assert len(story.entries(K)) == 1
    assert story.tables.fences == {session_id(K): p}


def test_a_plain_turn_is_not_awaited(story: Story) -> None:
    p = story.turn(K, "e1")
    assert not story.verdict(p).awaited
    assert story.tables.requests == {}


def test_a_key_a_resend_or_a_condition_is_awaited(story: Story) -> None:
    awaited = [
        story.turn(K, "e1", idempotency_key=HASH),
        story.turn(K, "e2", sent_after=0),
        story.turn(K, "e3", epoch=0),
        story.turn(K, "e4", if_position=0),
    ]
    assert all(story.verdict(p).awaited for p in awaited)
    assert len(story.tables.requests) == 4


def test_types_whose_caller_waits_are_always_awaited(story: Story) -> None:
    waited = [
        story.saved(K),
        story.restored(K),
        story.forked("copy", K),
        story.started(K),
        story.reset(K),
        story.clear(),
        story.deleted(K),
    ]
    not_waited = [story.turn(K, "e1"), story.released(K), story.attached(K)]
    assert all(story.verdict(p).awaited for p in waited)
    assert not any(story.verdict(p).awaited for p in not_waited)


def test_receipts_and_decisions_get_an_index_row_and_no_verdict(story: Story) -> None:
    p = story.append(ErasureCompleted("ab" * 32, {"log": 1}, ["0-1"]), "whatever", "log", sent_after=0)
    q = story.append(QuarantineDecided(K, "0-1", "skip", "why"), K, idempotency_key=HASH)
    r = story.fenced(UUID(int=1))
    assert [story.tables.index[offset].status for offset in (p, q, r)] == [200, 200, 200]
    assert [story.effects[offset - 1].verdicts for offset in (p, q, r)] == [[], [], []]
    assert not story.has_row(K)


def test_a_verdict_says_why_a_record_was_refused(story: Story) -> None:
    story.reset(K)
    story.started(K, "a")
    story.deleted(GENERAL_A)
    texts = {
        story.turn(K, "e1", if_position=0): "ifPosition is not the position of the session's last change",
        story.saved(K, epoch=0): "the context was ended meanwhile",
        story.started(K, "b"): "another run of this session is active",
        story.turn(GENERAL_A, "e1", epoch=0): "the session was deleted meanwhile",
    }
    assert {p: story.verdict(p).error for p in texts} == texts


def test_the_first_verdict_stands_in_requests_unless_a_later_attempt_is_refused_for_good(story: Story) -> None:
    p = story.turn(K, "e1", sent_after=0)
    key = (session_id(K), EventType.TURN_APPENDED, story.event(p).id)
    story.resend(p)
    assert (story.tables.requests[key].status, story.tables.requests[key].stored) == (200, 1)
    story.deleted(K)
    assert story.tables.requests[key].status == 200
    story.resend(p)
    assert story.tables.requests[key].status == 410
