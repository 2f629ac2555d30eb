"""Whatever the OpenAPI document allows, and what it doesn't, is answered as the document says: never by 5xx.

TURNLOG_TEST_FUZZ_REQUESTS is how many generated requests are sent to each server (300).
"""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from tests.api import Api, agent_key, entry

REQUESTS = int(os.environ.get("TURNLOG_TEST_FUZZ_REQUESTS", "300"))
KEY = agent_key()
Operation: TypeAlias = APIOperation[Any, Any, Any, Any]
AnyCase: TypeAlias = "Case[Any]"
STREAMS = {"streamTeamChat", "streamAgentChat"}
WITHIN_S = 30.0


class Seen(NamedTuple):
    """An answer: of a stream only the first bytes are in the body."""

    status: int
    content_type: str
    body: bytes


@dataclass
class Tally:
    """Per operation: generated requests, and answers with 2xx to them and to the examples of `VALID`."""

    generated: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)


# One request of each operation that must succeed: chance hardly finds a body that is right in every member.
VALID: dict[str, dict[str, Any]] = {
    "getChatHistory": {"query": {"sessionKey": KEY, "limit": 5, "before": 10**9}},
    "saveChatHistory": {"body": {"sessionKey": KEY, "entries": [entry(1)]}, "media_type": "application/json"},
    "deleteChatHistory": {"query": {"sessionKey": KEY}},
    "resetContext": {"body": {"sessionKeys": [KEY], "noticeSessionKey": KEY}, "media_type": "application/json"},
    "streamTeamChat": {"path_parameters": {"id": "t"}, "query": {"since": "0", "roomId": "r"}},
    "streamAgentChat": {"path_parameters": {"id": "a"}, "headers": {"Last-Event-ID": "7"}},
    "publishDelta": {"path_parameters": {"id": "t"}, "body": {"text": "x"}, "media_type": "application/json"},
    "publishStatus": {"path_parameters": {"id": "t"}, "body": {"state": "x"}, "media_type": "application/json"},
    "clearTeamChat": {"path_parameters": {"id": "t"}, "body": {"roomId": "*"}, "media_type": "application/json"},
    "getResumePoint": {"query": {"sessionKey": KEY}},
    "saveResumePoint": {
        "body": {"sessionKey": KEY, "runtime": "codex", "resumeId": "r"},
        "media_type": "application/json",
    },
    "clearResumePoint": {"query": {"sessionKey": KEY}},
    "listSessions": {"query": {"prefix": "agent:", "limit": 3, "cursor": "agent:"}},
    "health": {},
    "readiness": {},
}


def send(case: AnyCase, url: str) -> Seen:
    """Send it over a socket. A stream never ends, so it is read as far as its first bytes."""
    headers: Any = case.headers
    if "Turnlog-After" in headers and str(headers["Turnlog-After"])[:1].isdigit():
        # A position of the future is waited for and then "not yet" by contract: tests/conformance/test_positions.py.
        headers["Turnlog-After"] = "0-0"
    if operation_id(case.operation) not in STREAMS:
        answer = case.call(base_url=url, timeout=WITHIN_S)
        return Seen(answer.status_code, (answer.headers.get("content-type") or [""])[0], answer.content)
    sent = case.as_transport_kwargs(base_url=url)
    given_parts = {part: sent[part] for part in ("method", "url", "params", "headers", "cookies") if sent.get(part)}
    with httpx.Client(timeout=WITHIN_S) as client, client.stream(**given_parts) as stream:
        first = next(stream.iter_raw(), b"")
        return Seen(stream.status_code, stream.headers.get("content-type", ""), first)


def operation_id(operation: Operation) -> str:
    """Its name in the document."""
    found: str = operation.definition.raw["operationId"]
    return found


def judge(case: AnyCase, seen: Seen) -> None:
    """Fail unless the document says that this operation may answer so."""
    raw = case.operation.definition.raw
    about = (raw["operationId"], seen, case.as_curl_command())
    assert seen.status < 500, about
    assert str(seen.status) in raw["responses"], about
    if seen.status >= 400:
        assert seen.content_type == "application/json; charset=utf-8", about
        error = json.loads(seen.body.decode())
        assert isinstance(error["error"], str), about
        assert error["error"], about
        assert set(error) <= {"error", "epoch"}, about
    elif raw["operationId"] in STREAMS:
        assert seen.content_type == "text/event-stream; charset=utf-8", about
        assert seen.body.startswith(b": connected\n\n"), about
    else:
        json.loads(seen.body)


def fuzz(operation: Operation, mode: GenerationMode, count: int, url: str, tally: Tally) -> None:
    """Send `count` generated requests, or as many different ones as there are."""
    name = operation_id(operation)

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def attempt(case: AnyCase) -> None:
        seen = send(case, url)
        tally.generated[name] += 1
        tally.accepted[name] += seen.status < 300
        judge(case, seen)

    try:
        attempt()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, f"no valid request of {name} can be made from the document"


@pytest.mark.timeout(120 + REQUESTS)
def test_no_request_is_answered_by_5xx_and_every_operation_succeeds_at_times(api: Api) -> None:
    url = f"http://127.0.0.1:{api.port}"
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    operations = {operation_id(operation): operation for operation in found}
    assert set(operations) == set(VALID)
    tally = Tally()
    for name, operation in operations.items():
        case = operation.Case(**VALID[name])
        seen = send(case, url)
        judge(case, seen)
        assert seen.status == 200, (name, seen)
        tally.accepted[name] += 1
    while (left := REQUESTS - tally.generated.total()) > 0:
        share = -(-left // (2 * len(operations)))
        for operation in operations.values():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                fuzz(operation, mode, share, url, tally)
    assert tally.generated.total() >= REQUESTS
    assert set(tally.generated) == set(operations)
    assert all(tally.accepted[name] > 0 for name in operations), tally.accepted
