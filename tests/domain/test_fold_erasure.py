"""What a delete refuses and takes, and what a fenced producer sends (fold.md, rules 1 and 2, "The law")."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.domain.memory_tables import MemoryTables
from tests.domain.story import GENERAL_A, K, Story, raws
from turnlog.domain.event_data import Genesis, Tick
from turnlog.domain.events import RecordKey
from turnlog.domain.fold.effects import Effects, OutboxRow
from turnlog.domain.session_key import session_id

DEAD = UUID(int=0xDEAD)
HASH = b"h" * 32


def test_a_null_value_moves_nothing(story: Story) -> None:
    story.land(None)
    assert story.effects[0] == Effects()


def test_a_delete_moves_its_sessions_erasable_records_to_the_outbox(story: Story) -> None:
    p = story.turn(K, "e1")
    refused = story.turn(K, "e2", if_position=99)
    duplicate = story.resend(p)
    other = story.turn(GENERAL_A, "e1")
    ending = story.reset(K)
    story.deleted(K)
    assert story.in_outbox() == {p, refused, duplicate}
    assert story.tables.outbox[duplicate] == OutboxRow(duplicate, RecordKey(story.event(p).id, 2), session_id(K))
    assert set(story.tables.index) == {other, ending, story.offset}


@pytest.mark.parametrize("sent_after_offset", [0, 1, 2])
def test_a_record_first_sent_before_the_delete_is_refused(story: Story, sent_after_offset: int) -> None:
    story.turn(K, "e1")
    deleted = story.deleted(K)
    p = story.turn(K, "e2", sent_after=sent_after_offset)
    assert story.status(p) == 410
    assert story.verdict(p).epoch == deleted
    assert p in story.in_outbox()
    assert p not in story.tables.index
    assert not story.has_row(K)


def test_a_record_first_sent_after_the_delete_is_applied(story: Story) -> None:
    deleted = story.deleted(K)
    p = story.turn(K, "e1", sent_after=deleted + 1)
    assert story.status(p) == 200


def test_a_record_sent_before_anything_was_deleted_is_applied(story: Story) -> None:
    assert story.status(story.turn(K, "e1", sent_after=0)) == 200


def test_work_begun_before_the_delete_is_refused(story: Story) -> None:
    reset = story.reset(K)
    deleted = story.deleted(K)
    late = [
        story.turn(K, "e1", epoch=reset),
        story.started(K, epoch=reset),
        story.restored(K, epoch=reset),
        story.saved(K, epoch=reset),
    ]
    assert [story.status(p) for p in late] == [410] * 4
    assert story.in_outbox() == set(late)
    assert story.status(story.turn(K, "e1", epoch=deleted)) == 200


def test_every_erasable_type_is_refused_by_its_sent_after(story: Story) -> None:
    story.deleted(K)
    late = [
        story.turn(K, "e1", sent_after=0),
        story.started(K, sent_after=0),
        story.restored(K, sent_after=0),
        story.saved(K, sent_after=0),
        story.attached(K, sent_after=0),
        story.forked(K, GENERAL_A, sent_after=0),
    ]
    assert [story.status(p) for p in late] == [410] * 6


def test_endings_are_never_refused_for_a_delete(story: Story) -> None:
    story.deleted(K)
    assert story.status(story.reset(K, sent_after=0)) == 200
    assert story.status(story.deleted(K, sent_after=0)) == 200


def test_the_delete_of_one_key_refuses_nothing_of_another(story: Story) -> None:
    story.deleted(K)
    assert story.status(story.turn(GENERAL_A, "e1", epoch=0, sent_after=0)) == 200


def test_a_resend_after_the_delete_brings_nothing_back_with_or_without_its_original(story: Story) -> None:
    p = story.turn(K, "e1", idempotency_key=HASH, sent_after=0)
    story.deleted(K)
    q = story.resend(p)
    assert story.status(q) == 410
    original = story.records[p - 1]
    without = MemoryTables()
    without.fold([replace(original, event=None), *story.records[p:]])
    assert without.snapshot() == story.tables.snapshot()
    gone = MemoryTables()
    gone.fold(story.records[p:])
    assert gone.snapshot() == story.tables.snapshot()


def test_what_was_known_of_a_deleted_session_is_known_no_more(story: Story) -> None:
    p = story.turn(K, "e1", idempotency_key=HASH)
    story.deleted(K)
    again = story.resend(p)
    assert story.status(again) == 200
    assert story.verdict(again).first is None
    assert len(story.entries(K)) == 1


def test_an_event_id_that_was_used_in_two_sessions_is_forgotten_in_the_deleted_one_only(story: Story) -> None:
    shared = UUID(int=7)
    story.turn(K, "e1", id=shared)
    p = story.turn(GENERAL_A, "e1", id=shared)
    story.deleted(K)
    story.turn(K, "e2", id=shared)
    q = story.turn(GENERAL_A, "e2", id=shared)
    assert story.verdict(q).first == shared
    assert story.verdict(q).offset == p
    assert [len(story.entries(key)) for key in (K, GENERAL_A)] == [1, 1]


def test_two_lives_and_two_deletes_in_one_batch_leave_only_the_third_life(story: Story) -> None:
    story.turn(K, "e1", messages=raws("{}"))
    story.attached(K)
    story.deleted(K)
    story.turn(K, "e1", messages=raws("{}"))
    second = story.deleted(K)
    p = story.turn(K, "e1")
    assert story.state(K).last_delete == second
    assert [row.row_id // 4096 for row in story.entries(K)] == [p]
    assert story.messages(K) == []
    assert story.in_outbox() == {1, 2, 4}


def test_a_deleted_session_is_no_member_of_its_scopes_any_more(story: Story) -> None:
    story.turn(GENERAL_A, "e1")
    story.clear()
    story.turn(GENERAL_A, "e2")
    story.deleted(GENERAL_A)
    assert story.verdict(story.clear()).session_keys == ()
    story.turn(GENERAL_A, "e1")
    assert story.verdict(story.clear()).session_keys == (GENERAL_A,)


def test_records_of_a_fenced_producer_are_ignored_and_erased(story: Story) -> None:
    before = story.turn(K, "e1", producer=DEAD)
    story.fenced(DEAD)
    late = [story.turn(K, "e2", producer=DEAD), story.deleted(K, producer=DEAD), story.clear(producer=DEAD)]
    assert [story.effects[p - 1].verdicts for p in late] == [[], [], []]
    assert story.in_outbox() == set(late)
    assert [row.row_id // 4096 for row in story.entries(K)] == [before]
    assert set(story.tables.index) == {before, 2}


def test_what_a_fenced_producer_sent_is_judged_when_its_successor_resends_it(story: Story) -> None:
    story.fenced(DEAD)
    p = story.turn(K, "e1", producer=DEAD)
    q = story.resend(p, producer=UUID(int=0xA11E), sent_after=1)
    assert story.status(q) == 200
    assert story.verdict(q).first is None


def test_the_first_fence_of_a_producer_counts(story: Story) -> None:
    p = story.fenced(DEAD)
    story.fenced(DEAD)
    assert story.tables.fenced_producers == {DEAD: p}


def test_genesis_and_ticks_are_never_judged(story: Story) -> None:
    for data in (Genesis("log", 0, 1), Tick()):
        p = story.append(data, "any\x00thing", "log", idempotency_key=HASH)
        assert story.effects[p - 1] == Effects()


def test_a_delete_of_a_key_whose_scope_was_cleared_without_sessions_leaves_its_fence(story: Story) -> None:
    story.clear()
    p = story.deleted(GENERAL_A)
    assert story.tables.fences == {session_id(GENERAL_A): p}
