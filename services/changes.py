"""Who wants to know that something changed: live streams subscribe, projector and follower publish.

Everything here is a hint within one process and one event loop: a stream reads what it shows from the tables, and a
missed hint costs it one polling interval. Only the ephemeral frames and the notices of endings exist nowhere else.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import TracebackType
from typing import NamedTuple, Self

import anyio
import msgspec

from turnlog.domain.fold.effects import SessionChange
from turnlog.domain.positions import Position
from turnlog.domain.session_key import agent_id_of, parse_team_key
from turnlog.domain.stream_selection import StreamSelection


class Notice(NamedTuple):
    """A named frame without id: `delta`, `status`, `reset`, `clear` or `delete`, with its data (JSON)."""

    name: str
    data: bytes


class Subscription:
    """One stream's ear. Made by `ChangeHub.subscribe`; hears from then on until closed."""

    def __init__(
        self, hub: "ChangeHub", selection: StreamSelection, partition: int | None, on_notice: Callable[[Notice], None]
    ) -> None:
        self.selection = selection
        self.partition = partition
        self.on_notice = on_notice
        self._hub = hub
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """There may be new rows."""
        self._changed.set()

    async def woken(self, timeout_s: float) -> None:
        """Return once there may be new rows since the last return, or after `timeout_s` (the guarantee)."""
        with anyio.move_on_after(timeout_s):
            await self._changed.wait()
        self._changed.clear()

    def close(self) -> None:
        """Stop hearing."""
        self._hub.unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ChangeHub:
    """Fans changes out to subscriptions. With `partitions` given, an advance wakes only its partition's streams."""

    def __init__(self, partitions: int | None = None) -> None:
        self._partitions = partitions
        self._subscriptions: dict[StreamSelection, set[Subscription]] = {}

    def subscribe(self, selection: StreamSelection, on_notice: Callable[[Notice], None]) -> Subscription:
        """Hear of the selection's rows (by `woken`) and notices (by `on_notice`, called at once)."""
        partition = None if self._partitions is None else selection.partition(self._partitions)
        subscription = Subscription(self, selection, partition, on_notice)
        self._subscriptions.setdefault(selection, set()).add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        same = self._subscriptions.get(subscription.selection, set())
        same.discard(subscription)
        if not same:
            self._subscriptions.pop(subscription.selection, None)

    def publish(self, partition: int, changes: Sequence[SessionChange]) -> None:
        """A batch of the partition is committed. Without `changes` it isn't known whose sessions it touched."""
        if not self._subscriptions:
            return
        if not changes:
            self._wake_partition(partition)
            return
        endings: dict[tuple[StreamSelection, int, str], list[str]] = {}
        for change in changes:
            selection = selection_of(change.key)
            if selection is None or selection not in self._subscriptions:
                continue
            if change.what is not None:
                endings.setdefault((selection, change.offset, change.what.name.lower()), []).append(change.key)
            for subscription in self._subscriptions[selection]:
                subscription.wake()
        for (selection, offset, name), keys in endings.items():
            data = {"sessionKeys": list(dict.fromkeys(keys)), "position": str(Position(partition, offset))}
            self.ephemeral(selection, name, msgspec.json.encode(data))

    def ephemeral(self, selection: StreamSelection, name: str, data: bytes) -> int:
        """Pass a frame to the open streams of a selection. Returns how many subscriptions heard it."""
        heard = list(self._subscriptions.get(selection, ()))
        for subscription in heard:
            subscription.on_notice(Notice(name, data))
        return len(heard)

    def _wake_partition(self, partition: int) -> None:
        for same in self._subscriptions.values():
            for subscription in same:
                if subscription.partition is None or subscription.partition == partition:
                    subscription.wake()


@lru_cache(maxsize=4096)
def selection_of(session_key: str) -> StreamSelection | None:
    """The one stream that shows a session, or None for an opaque key."""
    team = parse_team_key(session_key)
    if team is not None:
        return StreamSelection.team(team.team_id, team.room_id)
    agent_id = agent_id_of(session_key)
    return None if agent_id is None else StreamSelection.agent(agent_id)
