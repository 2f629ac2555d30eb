"""Restores, resume points, forks and attachments (fold.md, "By type")."""

from tests.domain.story import GENERAL_A, OTHER_TEAM, K, Story, raws
from turnlog.domain.fold.effects import AttachmentRow
from turnlog.domain.fold.state import Fork, Placement, ResumePoint
from turnlog.domain.positions import row_id
from turnlog.domain.session_key import session_id


def test_a_restore_moves_the_context_floor_to_just_before_its_messages(story: Story) -> None:
    story.turn(K, "e1", messages=raws("{}"))
    story.saved(K)
    p = story.restored(K, '{"role":"user"}', "{}")
    state = story.state(K)
    assert state.context_floor == row_id(p, 0) - 1
    assert state.cleared_floor == 0
    assert state.resume_point is None
    assert state.last == p
    assert state.epoch == 0
    row = story.messages(K)[-1]
    assert (row.row_id, row.message_count, row.placement) == (row_id(p, 0), 2, Placement.IN_CONTEXT)
    assert row.text == '[{"role":"user"},{}]'
    assert state.total_messages == 3


def test_a_restore_to_nothing_is_a_row_too(story: Story) -> None:
    story.restored(K)
    assert story.messages(K)[0].text == "[]"
    assert not story.state(K).listed


def test_a_restore_under_an_old_epoch_is_refused(story: Story) -> None:
    reset = story.reset(K)
    before = story.state(K)
    assert story.status(story.restored(K, "{}", epoch=0)) == 409
    assert story.state(K) == before
    assert story.messages(K) == []
    assert story.status(story.restored(K, "{}", epoch=reset)) == 200


def test_a_turn_begun_before_a_restore_is_in_context(story: Story) -> None:
    story.restored(K, "{}")
    story.turn(K, "e1", epoch=0)
    assert story.entries(K)[0].placement is Placement.IN_CONTEXT


def test_a_resume_point_is_set_and_cleared(story: Story) -> None:
    p = story.saved(K, "r1")
    assert story.state(K).resume_point == ResumePoint("codex", "r1", story.now_ms, p)
    assert story.state(K).listed
    story.saved(K, None)
    assert story.state(K).resume_point is None
    assert not story.state(K).listed


def test_a_resume_point_does_not_move_the_last_position(story: Story) -> None:
    story.saved(K)
    assert story.state(K).last == 0
    assert story.state(K).last_activity_ms == story.now_ms


def test_a_resume_point_saved_under_an_old_epoch_is_refused(story: Story) -> None:
    reset = story.reset(K)
    p = story.saved(K, "stale", epoch=0)
    assert story.status(p) == 409
    assert story.verdict(p).epoch == reset
    assert story.state(K).resume_point is None
    assert story.status(story.saved(K, "fresh", epoch=reset)) == 200


def test_a_resume_point_under_an_epoch_to_come_is_refused(story: Story) -> None:
    assert story.status(story.saved(K, epoch=9)) == 409
    assert not story.has_row(K)


def test_a_fork_records_its_source_and_looks_at_nothing(story: Story) -> None:
    p = story.forked("agent:a1:copy", source=OTHER_TEAM, at=4097)
    state = story.state("agent:a1:copy")
    assert state.fork == Fork(OTHER_TEAM, 4097, p)
    assert state.last == p
    assert state.listed
    assert not story.has_row(OTHER_TEAM)


def test_a_key_that_is_listed_can_not_become_a_fork(story: Story) -> None:
    story.turn(K, "e1")
    assert story.status(story.forked(K, source=GENERAL_A)) == 409
    assert story.state(K).fork is None
    story.forked("copy", source=K)
    assert story.status(story.forked("copy", source=GENERAL_A)) == 409


def test_a_key_with_a_row_that_is_not_listed_can_become_a_fork(story: Story) -> None:
    story.reset(K)
    assert story.status(story.forked(K, source=GENERAL_A)) == 200


def test_a_fork_survives_a_clear_and_goes_with_a_delete(story: Story) -> None:
    story.forked(GENERAL_A, source=K)
    story.clear()
    assert story.state(GENERAL_A).fork is not None
    story.deleted(GENERAL_A)
    story.turn(GENERAL_A, "e1")
    assert story.state(GENERAL_A).fork is None


def test_the_delete_of_a_source_leaves_its_forks(story: Story) -> None:
    story.turn(K, "e1")
    p = story.forked("agent:a1:copy", source=K)
    story.deleted(K)
    assert story.state("agent:a1:copy").fork == Fork(K, 4096, p)


def test_an_attachment_is_a_reference(story: Story) -> None:
    p = story.attached(K, name="ü.png", sha256="0f" * 32, size=2**53 - 1)
    (row,) = story.tables.attachments.values()
    assert row == AttachmentRow(session_id(K), p, "m1", "ü.png", "image/png", 2**53 - 1, b"\x0f" * 32)
    assert story.state(K).last == 0
    assert not story.state(K).listed
