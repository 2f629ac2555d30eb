"""Resets, clears and deletes (fold.md, "By type")."""

import pytest

from tests.domain.story import GENERAL_A, GENERAL_B, OTHER_ROOM, OTHER_TEAM, ROOM_A, K, Story, raws
from turnlog.domain.event_data import SessionDeleted
from turnlog.domain.fold.effects import EndingKind
from turnlog.domain.fold.state import Placement
from turnlog.domain.positions import last_row_id, row_id
from turnlog.domain.session_key import Scope, session_id

DIVIDER = '{"entryId":"context-reset-1","kind":"meta"}'


def test_a_reset_ends_the_context_of_each_key_once(story: Story) -> None:
    story.turn(GENERAL_A, "e1")
    story.saved(GENERAL_A)
    p = story.reset(GENERAL_A, GENERAL_B, GENERAL_A)
    for key in (GENERAL_A, GENERAL_B):
        state = story.state(key)
        assert (state.last_reset, state.last, state.epoch) == (p, p, p)
        assert (state.context_floor, state.cleared_floor) == (last_row_id(p), 0)
        assert state.resume_point is None
    endings = [(row.ordinal, row.kind, row.session_id) for row in story.tables.endings.values()]
    assert endings == [(0, EndingKind.RESET, session_id(GENERAL_A)), (1, EndingKind.RESET, session_id(GENERAL_B))]
    assert story.verdict(p).epoch == p


def test_a_reset_touches_no_row(story: Story) -> None:
    story.turn(K, "e1", messages=raws("{}"))
    before = (story.entries(K), story.messages(K))
    story.reset(K)
    assert (story.entries(K), story.messages(K)) == before
    assert story.state(K).visible_entries == 1


def test_a_reset_of_an_unseen_key_makes_a_row_that_is_not_listed(story: Story) -> None:
    p = story.reset(K)
    state = story.state(K)
    assert (state.last_reset, state.first_activity_ms, state.listed) == (p, 0, False)


def test_the_divider_is_a_row_of_the_notice_key(story: Story) -> None:
    p = story.reset(GENERAL_A, GENERAL_B, divider=DIVIDER, notice=GENERAL_B)
    (row,) = story.entries(GENERAL_B)
    assert (row.row_id, row.text, row.placement, row.gateway_url) == (row_id(p, 0), DIVIDER, Placement.IN_CONTEXT, "")
    assert story.entries(GENERAL_A) == []
    state = story.state(GENERAL_B)
    assert (state.visible_entries, state.total_entries, state.last_activity_ms) == (1, 1, story.now_ms)
    assert story.verdict(p).stored == 1


def test_a_divider_lies_below_the_floor_of_its_own_reset(story: Story) -> None:
    story.reset(K, divider=DIVIDER, notice=K)
    assert story.entries(K)[0].row_id <= story.state(K).context_floor


def test_a_divider_may_stand_in_a_session_of_the_stream_that_the_reset_does_not_end(story: Story) -> None:
    story.reset(GENERAL_A, divider=DIVIDER, notice=GENERAL_B)
    state = story.state(GENERAL_B)
    assert (state.total_entries, state.last_reset, state.last) == (1, 0, 0)


def test_a_divider_whose_id_is_known_is_not_stored_again(story: Story) -> None:
    story.reset(K, divider=DIVIDER, notice=K)
    p = story.reset(K, divider=DIVIDER, notice=K)
    assert len(story.entries(K)) == 1
    assert story.state(K).last_reset == p


@pytest.mark.parametrize(("divider", "notice"), [(DIVIDER, None), (None, K), ("null", K), ("{}", K)])
def test_a_divider_needs_a_notice_key_and_an_id(story: Story, divider: str | None, notice: str | None) -> None:
    assert story.status(story.reset(K, divider=divider, notice=notice)) == 200
    assert story.entries(K) == []


@pytest.mark.parametrize(
    ("scope", "ended"),
    [
        ("general", {GENERAL_A, GENERAL_B}),
        ("room:r1", {ROOM_A}),
        ("*", {GENERAL_A, GENERAL_B, ROOM_A, OTHER_ROOM}),
        ("room:none", set()),
    ],
)
def test_a_clear_ends_exactly_its_scope(story: Story, scope: str, ended: set[str]) -> None:
    keys = (GENERAL_A, GENERAL_B, ROOM_A, OTHER_ROOM, OTHER_TEAM, K)
    for key in keys:
        story.turn(key, "e1")
        story.saved(key)
    p = story.clear(scope)
    assert story.verdict(p).session_keys == tuple(sorted(ended))
    for key in keys:
        state = story.state(key)
        if key in ended:
            floor = last_row_id(p)
            assert (state.last_clear, state.last, state.epoch) == (p, p, p)
            assert (state.context_floor, state.cleared_floor, state.visible_entries) == (floor, floor, 0)
            assert state.resume_point is None
        else:
            assert (state.epoch, state.visible_entries) == (0, 1)
            assert state.resume_point is not None


def test_a_clear_is_one_ending_row_with_its_scope(story: Story) -> None:
    p = story.clear("room:r1", cleared_at=77, actor="me")
    (row,) = story.tables.endings.values()
    assert (row.offset, row.kind, row.session_id, row.scope) == (p, EndingKind.CLEAR, None, Scope("t1", "room:r1"))
    assert (row.cleared_at_ms, row.actor, row.appended_ms) == (77, "me", story.now_ms)
    assert story.status(p) == 200
    assert story.verdict(p).epoch == p


def test_a_clear_applies_to_rows_that_are_not_listed_and_does_not_name_them(story: Story) -> None:
    story.reset(GENERAL_A)
    p = story.clear()
    assert story.state(GENERAL_A).last_clear == p
    assert story.verdict(p).session_keys == ()


def test_a_session_listed_by_its_resume_point_alone_is_named_by_the_clear_that_takes_it(story: Story) -> None:
    story.saved(GENERAL_A)
    assert story.verdict(story.clear()).session_keys == (GENERAL_A,)
    assert story.verdict(story.clear()).session_keys == ()


def test_a_key_seen_first_after_a_clear_starts_from_its_scopes(story: Story) -> None:
    story.clear("room:r1")
    p = story.clear("*")
    story.clear("general")
    story.saved(ROOM_A)
    state = story.state(ROOM_A)
    assert (state.last_clear, state.last, state.last_reset) == (p, p, 0)
    assert state.context_floor == state.cleared_floor == last_row_id(p)


def test_a_turn_on_its_way_to_an_unseen_key_is_set_aside_by_a_clear(story: Story) -> None:
    story.clear()
    story.turn(GENERAL_A, "e1", epoch=0)
    assert story.entries(GENERAL_A)[0].placement is Placement.SET_ASIDE
    assert story.state(GENERAL_A).visible_entries == 0


def test_a_delete_takes_everything_of_exactly_its_key(story: Story) -> None:
    for key in (GENERAL_A, GENERAL_B):
        story.turn(key, "e1", messages=raws("{}"))
        story.attached(key)
        story.saved(key)
    p = story.deleted(GENERAL_A, reason="asked", actor="me")
    assert not story.has_row(GENERAL_A)
    assert {row.session_id for row in story.tables.entries.values()} == {session_id(GENERAL_B)}
    assert {row.session_id for row in story.tables.messages.values()} == {session_id(GENERAL_B)}
    assert {row.session_id for row in story.tables.attachments.values()} == {session_id(GENERAL_B)}
    assert story.tables.fences == {session_id(GENERAL_A): p}
    (row,) = story.tables.endings.values()
    assert (row.kind, row.session_id, row.actor, row.reason) == (
        EndingKind.DELETE,
        session_id(GENERAL_A),
        "me",
        "asked",
    )


def test_a_delete_without_an_actor_in_its_data_names_the_events_actor(story: Story) -> None:
    p = story.append(SessionDeleted(K), K, actor="envelope")
    q = story.append(SessionDeleted(K, actor="data"), K, actor="envelope")
    assert (story.tables.endings[p, 0].actor, story.tables.endings[q, 0].actor) == ("envelope", "data")


def test_a_delete_of_an_unknown_key_leaves_a_fence(story: Story) -> None:
    p = story.deleted(K)
    assert story.status(p) == 200
    assert story.tables.fences == {session_id(K): p}
    assert not story.has_row(K)


def test_a_key_that_lives_again_starts_from_its_fence(story: Story) -> None:
    story.turn(K, "e1")
    story.reset(K)
    p = story.deleted(K)
    q = story.turn(K, "e1")
    state = story.state(K)
    assert (state.last_delete, state.last_reset, state.last, state.epoch) == (p, 0, q, p)
    assert (state.total_entries, state.visible_entries, state.context_floor) == (1, 1, 0)
    assert state.first_activity_ms == story.now_ms


def test_a_key_that_lives_again_after_a_clear_and_a_delete_starts_from_both(story: Story) -> None:
    story.turn(GENERAL_A, "e1")
    clear = story.clear()
    deleted = story.deleted(GENERAL_A)
    story.saved(GENERAL_A)
    state = story.state(GENERAL_A)
    assert (state.last_clear, state.last_delete, state.last) == (clear, deleted, deleted)
    assert state.cleared_floor == last_row_id(clear)


def test_endings_hint_each_session_they_end_and_a_divider_its_row(story: Story) -> None:
    story.turn(GENERAL_A, "e1")
    r = story.reset(GENERAL_B, GENERAL_A, divider=DIVIDER, notice=GENERAL_A)
    c = story.clear()
    d = story.deleted(GENERAL_A)
    hints = [change for effects in story.effects[1:] for change in effects.changes]
    assert hints == [
        (GENERAL_B, r, EndingKind.RESET),
        (GENERAL_A, r, EndingKind.RESET),
        (GENERAL_A, r, None),
        (GENERAL_A, c, EndingKind.CLEAR),
        (GENERAL_A, d, EndingKind.DELETE),
    ]
