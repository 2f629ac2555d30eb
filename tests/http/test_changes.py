"""Who hears of what."""

import anyio
import pytest

from turnlog.domain.fold.effects import SessionChange
from turnlog.domain.stream_selection import StreamSelection
from turnlog.services.changes import ChangeHub, Notice, Subscription, selection_of

TEAM = StreamSelection.team("t")


def ignore(_notice: Notice) -> None:
    """Hears nothing."""


async def woken(subscription: Subscription) -> bool:
    """Whether it was woken, by a wait that gives up at once."""
    with anyio.move_on_after(0.02) as scope:
        await subscription.woken(10)
    return not scope.cancelled_caught


@pytest.mark.parametrize(
    ("key", "selection"),
    [
        ("agent:a:team:t", StreamSelection.team("t")),
        ("agent:a:team:t:room:r", StreamSelection.team("t", "r")),
        ("agent:a:native", StreamSelection.agent("a")),
        ("opaque", None),
    ],
)
def test_every_session_is_shown_by_one_stream(key: str, selection: StreamSelection | None) -> None:
    assert selection_of(key) == selection
    assert selection is None or selection.shows(key)


async def test_a_change_wakes_the_streams_that_show_it() -> None:
    hub = ChangeHub()
    with hub.subscribe(TEAM, ignore) as team, hub.subscribe(StreamSelection.agent("a"), ignore) as agent:
        hub.publish(0, [SessionChange("agent:b:team:t", 1, None), SessionChange("opaque", 2, None)])
        assert await woken(team)
        assert not await woken(team)
        assert not await woken(agent)


async def test_an_advance_of_unknown_content_wakes_its_partition() -> None:
    hub = ChangeHub(partitions=8)
    with hub.subscribe(TEAM, ignore) as team:
        mine = TEAM.partition(8)
        hub.publish((mine + 1) % 8, ())
        assert not await woken(team)
        hub.publish(mine, ())
        assert await woken(team)
    with ChangeHub().subscribe(TEAM, ignore) as anywhere:
        anywhere.wake()
        assert await woken(anywhere)


async def test_a_wake_before_the_wait_is_not_lost_and_the_wait_ends_by_itself() -> None:
    with ChangeHub().subscribe(TEAM, ignore) as team:
        team.wake()
        await team.woken(10)
        await team.woken(0.01)


async def test_a_closed_subscription_hears_nothing() -> None:
    hub = ChangeHub()
    heard: list[Notice] = []
    with hub.subscribe(TEAM, heard.append):
        assert hub.ephemeral(TEAM, "delta", b"{}") == 1
    assert hub.ephemeral(TEAM, "delta", b"{}") == 0
    assert heard == [Notice("delta", b"{}")]
