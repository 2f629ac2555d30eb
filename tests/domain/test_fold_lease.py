"""turn.started and turn.released: the lease in append time (fold.md, "turn.started"; fold-notes.md, "The lease").

A story's records land 1,000 ms apart.
"""

from tests.domain.story import GENERAL_A, K, Story, raws
from turnlog.domain.fold.lease import ask, release, unexpired
from turnlog.domain.fold.state import Lease, Placement


def test_a_run_takes_a_free_lease_and_leaves_its_prompt(story: Story) -> None:
    p = story.started(K, "a", lease=500, entries=raws('{"entryId":"e1"}'), messages=raws("{}"))
    assert story.status(p) == 200
    assert story.state(K).lease == Lease("a", story.now_ms + 500)
    assert [row.placement for row in story.entries(K)] == [Placement.IN_CONTEXT]
    assert story.messages(K)[0].message_count == 1
    assert story.state(K).last == p


def test_a_start_without_a_prompt_does_not_move_the_last_position(story: Story) -> None:
    story.started(K)
    assert story.state(K).last == 0
    assert not story.state(K).listed


def test_reject_is_refused_while_another_run_is_active_and_stores_nothing(story: Story) -> None:
    story.started(K, "a")
    before = story.state(K)
    p = story.started(K, "b", entries=raws('{"entryId":"e1"}'))
    assert story.status(p) == 409
    assert story.entries(K) == []
    assert story.state(K) == before


def test_enqueue_waits_with_its_prompt_stored(story: Story) -> None:
    story.started(K, "a")
    p = story.started(K, "b", lease=7, policy="enqueue", entries=raws('{"entryId":"e1"}'))
    assert story.status(p) == 202
    lease = story.state(K).lease
    assert lease is not None
    assert (lease.run_id, lease.waiting) == ("a", (("b", 7),))
    assert len(story.entries(K)) == 1


def test_interrupt_takes_the_lease_and_keeps_the_queue(story: Story) -> None:
    story.started(K, "a")
    story.started(K, "b", lease=7, policy="enqueue")
    p = story.started(K, "c", lease=500, policy="interrupt")
    assert story.status(p) == 200
    assert story.state(K).lease == Lease("c", story.now_ms + 500, (("b", 7),))


def test_the_same_run_renews_its_lease(story: Story) -> None:
    story.started(K, "a", lease=5000)
    story.started(K, "b", lease=7, policy="enqueue")
    p = story.started(K, "a", lease=20_000)
    assert story.status(p) == 200
    assert story.state(K).lease == Lease("a", story.now_ms + 20_000, (("b", 7),))


def test_a_waiting_run_that_asks_again_keeps_its_one_place(story: Story) -> None:
    story.started(K, "a")
    for run_id, lease in (("b", 5), ("c", 6), ("b", 7)):
        assert story.status(story.started(K, run_id, lease=lease, policy="enqueue")) == 202
    lease_now = story.state(K).lease
    assert lease_now is not None
    assert lease_now.waiting == (("b", 7), ("c", 6))


def test_a_waiting_run_that_interrupts_leaves_the_queue(story: Story) -> None:
    story.started(K, "a")
    story.started(K, "b", policy="enqueue")
    story.started(K, "b", policy="interrupt", lease=9)
    assert story.state(K).lease == Lease("b", story.now_ms + 9)


def test_an_expired_lease_is_free(story: Story) -> None:
    story.started(K, "a", lease=1000)
    assert story.status(story.started(K, "b", lease=5)) == 200
    assert story.state(K).lease == Lease("b", story.now_ms + 5)


def test_a_lease_holds_until_its_last_millisecond(story: Story) -> None:
    story.started(K, "a", lease=1001)
    assert story.status(story.started(K, "b")) == 409


def test_after_expiry_the_first_in_the_queue_holds_the_lease_from_then_on(story: Story) -> None:
    story.started(K, "a", lease=3000)
    until = story.now_ms + 3000
    story.started(K, "b", lease=5000, policy="enqueue")
    story.now_ms += 3000
    assert story.status(story.started(K, "c", lease=9, policy="enqueue")) == 202
    assert story.state(K).lease == Lease("b", until + 5000, (("c", 9),))


def test_a_refused_start_leaves_even_an_expired_lease_as_it_was(story: Story) -> None:
    story.started(K, "a", lease=1500)
    story.started(K, "b", lease=60_000, policy="enqueue")
    before = story.state(K).lease
    assert story.status(story.started(K, "c")) == 409
    assert story.state(K).lease == before


def test_release_hands_the_lease_to_the_first_in_the_queue(story: Story) -> None:
    story.started(K, "a")
    story.started(K, "b", lease=5, policy="enqueue")
    story.started(K, "c", lease=6, policy="enqueue")
    assert story.status(story.released(K, "a")) == 200
    assert story.state(K).lease == Lease("b", story.now_ms + 5, (("c", 6),))


def test_release_of_the_only_run_frees_the_lease(story: Story) -> None:
    story.started(K, "a")
    story.released(K, "a")
    assert story.state(K).lease is None


def test_release_by_a_waiting_run_leaves_the_queue(story: Story) -> None:
    story.started(K, "a")
    story.started(K, "b", policy="enqueue")
    assert story.status(story.released(K, "b")) == 200
    lease = story.state(K).lease
    assert lease is not None
    assert (lease.run_id, lease.waiting) == ("a", ())


def test_release_by_a_stranger_changes_nothing_and_is_no_error(story: Story) -> None:
    story.started(K, "a")
    before = story.state(K).lease
    assert story.status(story.released(K, "z")) == 200
    assert story.state(K).lease == before


def test_every_ending_frees_the_lease(story: Story) -> None:
    story.started(GENERAL_A, "a")
    story.reset(GENERAL_A)
    assert story.state(GENERAL_A).lease is None
    story.started(GENERAL_A, "a")
    story.clear()
    assert story.state(GENERAL_A).lease is None
    story.started(GENERAL_A, "a")
    story.deleted(GENERAL_A)
    assert story.status(story.started(GENERAL_A, "b")) == 200


def test_a_start_under_another_epoch_is_refused(story: Story) -> None:
    reset = story.reset(K)
    assert story.status(story.started(K, epoch=0)) == 409
    assert story.status(story.started(K, epoch=reset + 1)) == 409
    assert story.status(story.started(K, epoch=reset)) == 200


def test_a_start_with_a_wrong_position_is_refused_before_it_takes_the_lease(story: Story) -> None:
    story.turn(K, "e1")
    assert story.status(story.started(K, if_position=0)) == 409
    assert story.state(K).lease is None


def test_expiry_runs_through_the_queue_until_somebody_still_has_time() -> None:
    lease = Lease("a", 100, (("b", 10), ("c", 0), ("d", 50)))
    assert unexpired(lease, 99) == lease
    assert unexpired(lease, 100) == Lease("b", 110, (("c", 0), ("d", 50)))
    assert unexpired(lease, 110) == Lease("d", 160)
    assert unexpired(lease, 160) is None
    assert unexpired(None, 5) is None


def test_a_queue_of_any_length_expires_in_linear_time() -> None:
    lease = Lease("a", 0, tuple((f"r{n}", 0) for n in range(3000)))
    assert unexpired(lease, 1) is None


def test_asking_for_a_lease_that_expired_with_a_queue_meets_the_next_holder() -> None:
    lease = Lease("a", 100, (("b", 50),))
    assert ask(lease, "c", 5, "reject", 120).status == 409
    assert ask(lease, "b", 5, "reject", 120) == (200, Lease("b", 125))
    assert ask(lease, "c", 5, "enqueue", 120) == (202, Lease("b", 150, (("c", 5),)))


def test_releasing_nothing_is_nothing() -> None:
    assert release(None, "a", 5) is None
