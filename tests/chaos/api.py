"""The HTTP API as a client that survives its server sees it: every call has an outcome, none raises."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

import anyio
import httpx

ANSWER_S = 60.0
"""No answer may take longer, whatever is broken; the server's own bounds are below."""
CONNECT_S = 5.0
PAUSE_S = 0.05
DOWN_S = 0.4
"""Pause after a call that wasn't answered: a start needs the processor more than its clients do."""
UNAVAILABLE = (500, 503)
PATH = "/api/chat-history"

Body: TypeAlias = dict[str, Any]
Headers: TypeAlias = dict[str, str]
Query: TypeAlias = dict[str, str | int]


class Answer(NamedTuple):
    """What came back; `status` 0 if the connection broke before an answer."""

    status: int
    body: Any
    headers: httpx.Headers
    took_s: float

    @property
    def position(self) -> str:
        """`Turnlog-Position` of a write."""
        return self.headers["turnlog-position"]

    @property
    def offset(self) -> int:
        """The same within its partition."""
        return int(self.position.rpartition("-")[2])


class Api:
    """Calls to one or several servers, the next one at each call. `outcomes` counts statuses by name."""

    def __init__(self, client: httpx.AsyncClient, urls: Sequence[str], outcomes: Counter[str]) -> None:
        self.outcomes = outcomes
        self.slowest_s = 0.0
        self._client = client
        self._urls = list(urls)
        self._calls = 0

    async def call(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        headers: Headers | None = None,
        query: Query | None = None,
    ) -> Answer:
        """One request, answered or not. What the server says against itself must be JSON with an `error`."""
        url = self._urls[self._calls % len(self._urls)] + path
        self._calls += 1
        started = anyio.current_time()
        try:
            response = await self._client.request(method, url, json=body, headers=headers, params=query)
        except httpx.ReadTimeout:
            raise AssertionError(f"{method} {path} got no answer within {ANSWER_S:.0f} s") from None
        except httpx.TransportError:
            self.outcomes["no answer"] += 1
            return Answer(0, None, httpx.Headers(), anyio.current_time() - started)
        took_s = anyio.current_time() - started
        self.slowest_s = max(self.slowest_s, took_s)
        self.outcomes[str(response.status_code)] += 1
        answer = json.loads(response.content)
        if response.status_code >= 400:
            assert isinstance(answer["error"], str), answer
        return Answer(response.status_code, answer, response.headers, took_s)

    async def insist(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        headers: Headers | None = None,
        query: Query | None = None,
    ) -> Answer:
        """The same request again and again until it is answered by something else than 500 or 503."""
        while True:
            answer = await self.call(method, path, body, headers, query)
            if answer.status and answer.status not in UNAVAILABLE:
                return answer
            await anyio.sleep(PAUSE_S if answer.status else DOWN_S)

    async def save(self, key: str, *entries: dict[str, Any], **headers: str) -> Answer:
        """POST entries once."""
        body = {"sessionKey": key, "entries": list(entries)}
        return await self.call("POST", PATH, body, _dashed(headers))

    async def delete(self, key: str, **headers: str) -> Answer:
        """DELETE a session once."""
        return await self.call("DELETE", PATH, None, _dashed(headers), {"sessionKey": key})

    async def page(self, key: str, before: int | None = None, **headers: str) -> Answer:
        """GET one page of 1,000 once."""
        query: Query = {"sessionKey": key, "limit": 1000}
        if before is not None:
            query["before"] = before
        return await self.call("GET", PATH, None, _dashed(headers), query)

    async def entry_ids(self, key: str, **headers: str) -> list[str] | None:
        """The ids of all entries of a session, oldest first; None if a page isn't answered with 200."""
        found: list[str] = []
        before: int | None = None
        while True:
            page = await self.page(key, before, **headers)
            if page.status == 0 or page.status in UNAVAILABLE:
                return None
            assert page.status == 200, page
            found[:0] = [entry["entryId"] for entry in page.body["entries"]]
            before = page.body["nextBefore"]
            if before is None:
                return found

    async def clear(self, team: str, room: str | None = None, **headers: str) -> Answer:
        """Clear a team's chat once."""
        body: Body = {} if room is None else {"roomId": room}
        return await self.call("POST", f"/api/teams/{team}/chat/clear", body, _dashed(headers))

    async def reset(self, *keys: str, **headers: str) -> Answer:
        """Reset the context of these sessions once; the divider goes to the first."""
        return await self.call("POST", f"{PATH}/reset-context", {"sessionKeys": list(keys)}, _dashed(headers))

    async def save_resume_point(self, key: str, resume_id: str, epoch: int | None = None) -> Answer:
        """PUT a resume point once."""
        body: Body = {"sessionKey": key, "runtime": "native", "resumeId": resume_id}
        return await self.call("PUT", "/v1/resume-point", body if epoch is None else body | {"epoch": epoch})

    async def resume_point(self, key: str) -> str | None:
        """The id of the session's resume point."""
        answer = await self.insist("GET", "/v1/resume-point", query={"sessionKey": key})
        point = answer.body["resumePoint"]
        return None if point is None else str(point["resumeId"])

    async def epoch(self, key: str) -> int:
        """The session's epoch."""
        answer = await self.insist("GET", "/v1/resume-point", query={"sessionKey": key})
        epoch: int = answer.body["epoch"]
        return epoch


@asynccontextmanager
async def api(*urls: str, outcomes: Counter[str] | None = None) -> AsyncIterator[Api]:
    """A client of these servers."""
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    async with httpx.AsyncClient(timeout=timeout) as client:
        yield Api(client, urls, Counter() if outcomes is None else outcomes)


def entry(entry_id: str, text: str = "hello", role: str = "user") -> dict[str, Any]:
    """A chat entry."""
    return {"entryId": entry_id, "role": role, "kind": "user", "text": text, "timestampMs": 1_700_000_000_000}


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
