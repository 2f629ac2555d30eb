"""turnlog's HTTP API as its clients call it. Every call gives the plain answer: tests judge, not the client."""

import json
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import anyio

from tests.http.stream_reader import StreamReader, stream
from tests.plain_client import Answer, PlainClient
from tests.postgres_server import Database
from tests.turnlog_process import TurnlogProcess

PATH = "/api/chat-history"
RESET = "/api/chat-history/reset-context"
RESUME = "/v1/resume-point"

Entry = dict[str, Any]


@dataclass
class Api(PlainClient):
    """Calls to one running server. `log` is where it keeps its events, `database` where its tables are."""

    within_s: ClassVar[float] = 30
    process: TurnlogProcess
    database: Database
    log: str

    async def save(self, key: str, *entries: Entry | bytes | None, **headers: str) -> Answer:
        """POST entries; those given as bytes are sent as they are."""
        texts = [entry if isinstance(entry, bytes) else json.dumps(entry).encode() for entry in entries]
        body = b'{"sessionKey":%s,"entries":[%s]}' % (json.dumps(key).encode(), b",".join(texts))
        return await self.post(PATH, body, **headers)

    async def page(self, key: str, given: dict[str, str] | None = None, /, **query: str | int) -> Answer:
        """GET a page; `given` are headers."""
        return await self.ask("GET", target(PATH, sessionKey=key, **query), given=given)

    async def entries(self, key: str, **query: str | int) -> list[Entry]:
        """The entries of a page that has to come."""
        answer = await self.page(key, None, **query)
        assert answer.status == 200, answer
        found: list[Entry] = answer.json()["entries"]
        return found

    async def ids(self, key: str, **query: str | int) -> list[str]:
        """The entry ids of the newest page."""
        return [entry["entryId"] for entry in await self.entries(key, limit=1000, **query)]

    async def walk(self, key: str, *, limit: int) -> AsyncIterator[list[Entry]]:
        """Every page of a session, the newest first."""
        before: dict[str, int] = {}
        while True:
            page = (await self.page(key, None, limit=limit, **before)).json()
            yield page["entries"]
            if page["nextBefore"] is None:
                assert page["hasMore"] is False
                return
            assert page["hasMore"] is True
            before = {"before": page["nextBefore"]}

    async def reset(self, *keys: str, notice: str | None = None, **headers: str) -> Answer:
        """End contexts."""
        named = {} if notice is None else {"noticeSessionKey": notice}
        return await self.post(RESET, {"sessionKeys": list(keys), **named}, **headers)

    async def delete(self, key: str, **headers: str) -> Answer:
        """Delete a session."""
        return await self.ask("DELETE", target(PATH, sessionKey=key), given=headers)

    async def clear(self, team: str, room: str | None = None, **headers: str) -> Answer:
        """Set a team's chat aside."""
        path = f"/api/teams/{quote(team, safe='')}/chat/clear"
        if room is None:
            return await self.ask("POST", path, given=headers)
        return await self.post(path, {"roomId": room}, **headers)

    async def resume(self, key: str, headers: dict[str, str] | None = None) -> Answer:
        """GET the resume point."""
        return await self.ask("GET", target(RESUME, sessionKey=key), given=headers)

    async def resume_id(self, key: str) -> str | None:
        """The saved resume id, if any."""
        point = (await self.resume(key)).json()["resumePoint"]
        return None if point is None else point["resumeId"]

    async def epoch(self, key: str) -> int:
        """The session's epoch."""
        epoch: int = (await self.resume(key)).json()["epoch"]
        return epoch

    async def save_resume(self, key: str, resume_id: str, epoch: int | None = None, **headers: str) -> Answer:
        """PUT a resume point."""
        body: dict[str, Any] = {"sessionKey": key, "runtime": "codex", "resumeId": resume_id}
        if epoch is not None:
            body["epoch"] = epoch
        return await self.put_resume(body, **headers)

    async def put_resume(self, body: object, **headers: str) -> Answer:
        """PUT any body."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("PUT", RESUME, data, {"content_type": "application/json", **headers})

    async def clear_resume(self, key: str, **headers: str) -> Answer:
        """DELETE the resume point."""
        return await self.ask("DELETE", target(RESUME, sessionKey=key), given=headers)

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[StreamReader]:
        """An open stream that has said `: connected`."""
        async with stream(self, path, **headers) as reader:
            assert reader.status == 200
            first = await reader.next()
            assert first is not None
            assert first.comment == "connected"
            yield reader


def target(path: str, **query: str | int) -> str:
    """A path with a query."""
    return f"{path}?{urlencode(query, quote_via=quote, safe='')}"


def team_stream(team: str, **query: str | int) -> str:
    """Where a team's stream is."""
    path = f"/api/teams/{quote(team, safe='')}/chat/stream"
    return target(path, **query) if query else path


def entry(number: int | str, text: str | None = None, key: str = "agent:a1:native", **members: Any) -> Entry:  # noqa: ANN401
    """A full valid entry, `e<number>` with the text `m<number>`."""
    entry_id = f"e{number}"
    return {
        "entryId": entry_id, "role": "user", "kind": "user", "text": f"m{number}" if text is None else text,
        "sessionKey": key, "runId": None, "source": "local-send", "timestampMs": 1_761_650_000_000,
        "sequenceKey": 1_761_650_000_000, "confirmed": True, "fingerprint": entry_id, **members,
    }  # fmt: skip


def numbered(numbers: Iterable[int]) -> list[Entry]:
    """Entries e<n> in this order."""
    return [entry(number) for number in numbers]


def fresh(prefix: str = "") -> str:
    """A name that nothing else uses."""
    return f"{prefix}{uuid.uuid4().hex[:16]}"


def agent_key() -> str:
    """The 1:1 session of an agent of the test's own."""
    return f"agent:{fresh('a')}:native"


async def together(*calls: Any) -> list[Any]:  # noqa: ANN401 - awaitables of any kind
    """The results of calls made at the same time, in their order."""
    results: list[Any] = [None] * len(calls)

    async def keep(index: int, call: Any) -> None:  # noqa: ANN401
        results[index] = await call

    async with anyio.create_task_group() as tasks:
        for index, call in enumerate(calls):
            tasks.start_soon(keep, index, call)
    return results
