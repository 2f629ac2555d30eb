"""turn.appended: what is stored, where it stands, and what refuses it (fold.md, "By type")."""

import pytest

from tests.domain.story import GENERAL_A, K, Story, entries, raws
from turnlog.domain.event_data import ResumePointData
from turnlog.domain.fold.state import Placement, ResumePoint
from turnlog.domain.positions import ROWS_PER_EVENT, last_row_id, offset_of, row_id

POINT = ResumePointData("codex", "r1")


def test_entries_get_row_ids_by_offset_and_index(story: Story) -> None:
    p = story.turn(K, "e1", "e2", gateway_url="http://g")
    first, second = story.entries(K)
    assert (first.row_id, second.row_id) == (row_id(p, 0), row_id(p, 1))
    assert (first.text, second.text) == ('{"entryId":"e1"}', '{"entryId":"e2"}')
    assert first.placement is Placement.IN_CONTEXT
    assert first.gateway_url == "http://g"
    assert first.arrived_ms == story.now_ms


def test_an_entry_keeps_its_exact_text(story: Story) -> None:
    text = '{ "entryId" :"e\\u0031",\n"n": 1.00e5, "t":"\\ud800\\u0000é", "n": 12345678901234567890123, "z":1e999 }'
    story.turn(K, entries=raws(text))
    assert [row.text for row in story.entries(K)] == [text]


def test_a_known_entry_id_is_not_stored_again(story: Story) -> None:
    story.turn(K, "e1")
    p = story.turn(K, "e1", "e2", "e2")
    assert [offset_of(row.row_id) for row in story.entries(K)] == [1, p]
    assert story.verdict(p).stored == 1
    assert story.state(K).total_entries == 2


def test_the_first_of_two_equal_ids_in_one_event_wins(story: Story) -> None:
    story.turn(K, entries=raws('{"entryId":"e","n":1}', '{"entryId":"e","n":2}'))
    assert [row.text for row in story.entries(K)] == ['{"entryId":"e","n":1}']


def test_an_entry_id_is_known_per_session_key(story: Story) -> None:
    story.turn(K, "e1")
    story.turn(GENERAL_A, "e1")
    assert len(story.entries(K)) == len(story.entries(GENERAL_A)) == 1


def test_an_entry_set_aside_by_a_clear_stays_known(story: Story) -> None:
    story.turn(GENERAL_A, "e1")
    story.clear()
    p = story.turn(GENERAL_A, "e1")
    assert story.verdict(p).stored == 0
    assert story.state(GENERAL_A).visible_entries == 0


@pytest.mark.parametrize(
    "unusable", ["null", "5", '"e"', "[]", "{}", '{"entryId":""}', '{"entryId":5}', '{"entryId":null}',
                 '{"entryId":"a\\u0000"}', '{"entryId":"\\ud800"}', '{"entryId":"' + "x" * 1025 + '"}']
)  # fmt: skip
def test_an_unusable_entry_is_left_out_but_keeps_its_index(story: Story, unusable: str) -> None:
    p = story.turn(K, entries=[*raws(unusable), *entries("e1")])
    assert [row.row_id for row in story.entries(K)] == [row_id(p, 1)]
    assert story.status(p) == 200


def test_messages_are_one_row_behind_the_entries(story: Story) -> None:
    p = story.turn(K, "e1", "e2", messages=raws('{"role": "user"}', '{"role":"assistant"}'))
    (row,) = story.messages(K)
    assert (row.row_id, row.message_count) == (row_id(p, 2), 2)
    assert row.text == '[{"role": "user"},{"role":"assistant"}]'
    assert story.state(K).total_messages == 2


def test_an_empty_list_of_messages_is_a_row_and_none_is_not(story: Story) -> None:
    p = story.turn(K, "e1", messages=[])
    story.turn(K, "e2")
    assert [(row.row_id, row.message_count, row.text) for row in story.messages(K)] == [(row_id(p, 1), 0, "[]")]


def test_an_empty_list_behind_4096_entries_stays_inside_the_event(story: Story) -> None:
    p = story.turn(K, entries=raws(*["null"] * ROWS_PER_EVENT), messages=[])
    q = story.turn(K, messages=[])
    assert [row.row_id for row in story.messages(K)] == [last_row_id(p), row_id(q, 0)]


def test_without_an_epoch_a_turn_is_in_context(story: Story) -> None:
    story.reset(GENERAL_A)
    story.clear()
    story.turn(GENERAL_A, "e1")
    assert story.entries(GENERAL_A)[0].placement is Placement.IN_CONTEXT


def test_work_begun_before_a_reset_is_outside_the_context_yet_visible(story: Story) -> None:
    story.reset(K)
    p = story.turn(K, "e1", epoch=0)
    assert story.status(p) == 200
    assert story.entries(K)[0].placement is Placement.OUTSIDE_CONTEXT
    assert story.state(K).visible_entries == 1


def test_work_begun_before_a_clear_is_set_aside(story: Story) -> None:
    story.turn(GENERAL_A, "e0")
    story.clear()
    p = story.turn(GENERAL_A, "e1", epoch=0, messages=raws("{}"))
    assert story.status(p) == 200
    assert story.entries(GENERAL_A)[1].placement is Placement.SET_ASIDE
    assert story.messages(GENERAL_A)[0].placement is Placement.SET_ASIDE
    assert (story.state(GENERAL_A).visible_entries, story.state(GENERAL_A).total_entries) == (0, 2)


def test_work_begun_before_a_reset_and_a_later_clear_is_set_aside(story: Story) -> None:
    story.reset(GENERAL_A)
    story.clear()
    story.turn(GENERAL_A, "e1", epoch=0)
    assert story.entries(GENERAL_A)[0].placement is Placement.SET_ASIDE


def test_work_begun_between_a_clear_and_a_reset_is_outside_the_context(story: Story) -> None:
    clear = story.clear()
    story.reset(GENERAL_A)
    story.turn(GENERAL_A, "e1", epoch=clear)
    assert story.entries(GENERAL_A)[0].placement is Placement.OUTSIDE_CONTEXT


def test_the_current_epoch_is_in_context(story: Story) -> None:
    reset = story.reset(K)
    p = story.turn(K, "e1", epoch=reset)
    assert story.entries(K)[0].placement is Placement.IN_CONTEXT
    assert story.verdict(p).epoch == reset


def test_an_epoch_above_the_current_is_refused_and_moves_nothing(story: Story) -> None:
    p = story.turn(K, "e1", epoch=1)
    assert story.status(p) == 409
    assert not story.has_row(K)
    assert story.entries(K) == []


def test_if_position_must_be_the_last_turn_or_ending(story: Story) -> None:
    first = story.turn(K, "e1", if_position=0)
    second = story.turn(K, "e2", if_position=0)
    third = story.turn(K, "e3", if_position=first)
    ending = story.reset(K)
    fourth = story.turn(K, "e4", if_position=third)
    fifth = story.turn(K, "e5", if_position=ending)
    assert [story.status(p) for p in (first, second, third, fourth, fifth)] == [200, 409, 200, 409, 200]


def test_if_position_of_an_unseen_key_is_its_scopes_clear_or_its_fence(story: Story) -> None:
    clear = story.clear()
    assert story.status(story.turn(GENERAL_A, "e1", if_position=0)) == 409
    assert story.status(story.turn(GENERAL_A, "e1", if_position=clear)) == 200
    deleted = story.deleted(GENERAL_A)
    assert story.status(story.turn(GENERAL_A, "e1", if_position=clear)) == 409
    assert story.status(story.turn(GENERAL_A, "e1", if_position=deleted)) == 200


def test_a_refused_turn_does_not_move_the_last_position(story: Story) -> None:
    first = story.turn(K, "e1")
    story.turn(K, "e2", if_position=77)
    assert story.status(story.turn(K, "e3", if_position=first)) == 200


def test_a_turn_that_adds_nothing_is_applied_but_does_not_move_the_last_position(story: Story) -> None:
    first = story.turn(K, "e1")
    again = story.turn(K, "e1")
    assert story.status(again) == 200
    assert story.state(K).last == first
    assert story.state(K).last_activity_ms == story.now_ms


def test_a_late_turn_moves_the_last_position(story: Story) -> None:
    story.reset(K)
    late = story.turn(K, "e1", epoch=0)
    assert story.state(K).last == late


def test_messages_alone_move_the_last_position_and_list_the_session(story: Story) -> None:
    p = story.turn(K, messages=raws("{}"))
    assert story.state(K).last == p
    assert story.state(K).listed


def test_an_empty_list_of_messages_moves_the_last_position_but_lists_nothing(story: Story) -> None:
    p = story.turn(K, messages=[])
    assert story.state(K).last == p
    assert not story.state(K).listed


@pytest.mark.parametrize("outcome", ["ok", "failed", "interrupted"])
def test_a_resume_point_counts_whatever_the_outcome(story: Story, outcome: str) -> None:
    p = story.turn(K, "e1", resume_point=POINT, outcome=outcome)
    assert story.state(K).resume_point == ResumePoint("codex", "r1", story.now_ms, p)


def test_a_late_turn_saves_no_resume_point(story: Story) -> None:
    story.reset(K)
    story.turn(K, "e1", epoch=0, resume_point=POINT)
    assert story.state(K).resume_point is None


def test_a_resume_point_without_an_id_clears(story: Story) -> None:
    story.turn(K, "e1", resume_point=POINT)
    story.turn(K, "e2", resume_point=ResumePointData("codex"))
    assert story.state(K).resume_point is None


def test_a_turn_without_a_resume_point_leaves_the_saved_one(story: Story) -> None:
    story.turn(K, "e1", resume_point=POINT)
    story.turn(K, "e2")
    assert story.state(K).resume_point is not None


def test_activity_starts_once_and_never_goes_back(story: Story) -> None:
    story.turn(K, "e1")
    first = story.now_ms
    story.now_ms += 10_000
    story.turn(K, "e2")
    latest = story.now_ms
    story.now_ms -= 5_000
    story.turn(K, "e3")
    assert (story.state(K).first_activity_ms, story.state(K).last_activity_ms) == (first, latest)


def test_a_turn_hints_its_session_only_if_it_added_entries(story: Story) -> None:
    p = story.turn(K, "e1")
    story.turn(K, "e1")
    story.turn(K, messages=[])
    assert [change for effects in story.effects for change in effects.changes] == [(K, p, None)]
