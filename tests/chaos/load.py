"""Clients at work while things break: writers that insist, readers that compare, followers of live streams.

A writer posts turn after turn of one session, and sends one that got no good answer again, with the same entry ids,
until it is acknowledged. So what a session must hold is known exactly: all acknowledged turns in order, and behind them
at most the one under way, which is there with both of its entries or not at all.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel

from tests.chaos.api import DOWN_S, PAUSE_S, Api, api, entry
from tests.chaos.followers import Follower
from tests.chaos.waiting import eventually, until


@dataclass
class Written:
    """One session as its only writer knows it."""

    key: str
    keyed: bool
    acknowledged: list[str] = field(default_factory=list)
    under_way: list[str] = field(default_factory=list)
    position: str | None = None
    """`Turnlog-Position` of the last acknowledged turn."""

    def next_turn(self) -> list[dict[str, Any]]:
        """A user's and an assistant's entry."""
        number = len(self.acknowledged) // 2
        self.under_way = [f"{self.key}/{number}/user", f"{self.key}/{number}/assistant"]
        user, assistant = (entry(entry_id, f"words of {entry_id}") for entry_id in self.under_way)
        return [user | {"sessionKey": self.key}, assistant | {"sessionKey": self.key, "role": "assistant"}]

    def acknowledge(self, position: str) -> None:
        """The turn under way is safe."""
        self.acknowledged += self.under_way
        self.under_way = []
        self.position = position

    def check(self, seen: Sequence[str], acknowledged: int) -> None:
        """What a read returned, of which the first `acknowledged` entries had to be there when it began."""
        written = self.acknowledged + self.under_way
        assert len(seen) >= acknowledged, f"{self.key}: {acknowledged} entries acknowledged, {len(seen)} shown"
        assert list(seen) == written[: len(seen)], f"{self.key}: out of order, or twice"
        assert len(seen) % 2 == 0, f"{self.key}: half a turn"


@dataclass
class Stream:
    """A live stream's client, and the sessions that the stream shows."""

    follower: Follower
    sessions: list[Written]

    def is_complete(self) -> bool:
        """True once everything acknowledged was sent."""
        return len(self.follower.rows) >= sum(len(session.acknowledged) for session in self.sessions)


class Load:
    """Writers, readers and followers over `streams` live streams of two sessions each, on servers that come and go."""

    def __init__(self, urls: Sequence[str], *, streams: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.slowest_s = 0.0
        """The longest that any answer took."""
        self.resent = 0
        self.reads = 0
        self._urls = list(urls)
        self._stopping = False
        self._writing = 0
        self.streams = [_stream(number, self._url) for number in range(streams)]
        self.sessions = [session for stream in self.streams for session in stream.sessions]

    @property
    def acknowledged(self) -> int:
        """Turns acknowledged so far."""
        return sum(len(session.acknowledged) for session in self.sessions) // 2

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The load is on inside the context; at its end every turn under way gets acknowledged."""
        async with api(*self._urls, outcomes=self.outcomes) as client, anyio.create_task_group() as tasks:
            for session in self.sessions:
                tasks.start_soon(self._write, client, session)
            for stream in self.streams:
                tasks.start_soon(stream.follower.run)
            for session in self.sessions:
                tasks.start_soon(self._read, client, session)
            yield
            self._stopping = True
            await until(lambda: self._writing == 0, "every writer's last turn is acknowledged", within_s=60)
            await self._followers_caught_up()
            self.slowest_s = client.slowest_s
            tasks.cancel_scope.cancel()

    async def more(self, turns: int, *, within_s: float = 60) -> None:
        """Return once that many more turns are acknowledged."""
        target = self.acknowledged + turns
        await until(lambda: self.acknowledged >= target, f"{turns} more turns acknowledged", within_s=within_s)

    async def applied(self, *, within_s: float) -> None:
        """Return once every session's last acknowledged turn so far is shown by a server."""
        async with api(*self._urls) as client:
            for session in self.sessions:
                if session.position is None:
                    continue
                key, after, newest = session.key, session.position, session.acknowledged[-1]

                async def shown(key: str = key, after: str = after, newest: str = newest) -> bool:
                    return newest in (await client.entry_ids(key, Turnlog_After=after) or [])

                await eventually(shown, f"{key} is applied up to {after}", within_s=within_s)

    async def check(self, *urls: str) -> None:
        """Every server shows exactly what was acknowledged, and so did the streams, each row once."""
        for url in urls or self._urls:
            async with api(url) as client:
                for session in self.sessions:
                    assert session.position is not None
                    seen = await client.entry_ids(session.key, Turnlog_After=session.position)
                    assert seen == session.acknowledged, session.key
        for stream in self.streams:
            ids = [row for row, _ in stream.follower.rows]
            assert ids == sorted(set(ids))
            for session in stream.sessions:
                assert stream.follower.entry_ids_of(session.key) == session.acknowledged, session.key

    def counts(self) -> str:
        """What happened, for the report."""
        outcomes = ", ".join(f"{name}: {count}" for name, count in sorted(self.outcomes.items()))
        connections = sum(stream.follower.connections for stream in self.streams)
        return (
            f"{self.acknowledged} turns acknowledged, {self.resent} sent again, {self.reads} reads compared, "
            f"{connections} stream connections; answers: {outcomes}"
        )

    async def _write(self, client: Api, session: Written) -> None:
        self._writing += 1
        while not self._stopping:
            turn = session.next_turn()
            headers = {"Idempotency-Key": session.under_way[0]} if session.keyed else {}
            while (answer := await client.save(session.key, *turn, **headers)).status != 200:
                assert answer.status in (0, 500, 503), answer
                self.resent += 1
                await anyio.sleep(PAUSE_S if answer.status else DOWN_S)
            session.acknowledge(answer.position)
            await anyio.lowlevel.checkpoint()
        self._writing -= 1

    async def _read(self, client: Api, session: Written) -> None:
        while True:
            await anyio.sleep(random.uniform(0, DOWN_S))
            if session.position is None:
                continue
            acknowledged = len(session.acknowledged)
            newest = await client.page(session.key, Turnlog_After=session.position)
            if newest.status != 200:
                assert newest.status in (0, 500, 503), newest
                continue
            seen = [item["entryId"] for item in newest.body["entries"]]
            if newest.body["hasMore"]:
                start = session.acknowledged.index(seen[0])
                seen = session.acknowledged[:start] + seen
            session.check(seen, acknowledged)
            self.reads += 1

    async def _followers_caught_up(self) -> None:
        for stream in self.streams:
            await until(stream.is_complete, f"the stream of {stream.sessions[0].key} shows everything acknowledged")

    def _url(self) -> str:
        return random.choice(self._urls)


def _stream(number: int, url: Callable[[], str]) -> Stream:
    """By turns a team's, an agent's and a room's; one of the two sessions is written with idempotency keys."""
    kind = ("team", "agent", "room")[number % 3]
    if kind == "agent":
        path, keys = f"/api/agents/a{number}/chat/stream", [f"agent:a{number}:native", f"agent:a{number}:codex"]
    else:
        room = ":room:r1" if kind == "room" else ""
        path = f"/api/teams/t{number}/chat/stream" + ("?roomId=r1" if room else "")
        keys = [f"agent:a{member}:team:t{number}{room}" for member in range(2)]
    sessions = [Written(key, keyed=member == 1) for member, key in enumerate(keys)]
    return Stream(Follower(url, path), sessions)
