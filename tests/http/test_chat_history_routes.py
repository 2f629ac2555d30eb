"""The reference routes as far as they don't need a store: what is read, what is refused, what is passed on."""

import hashlib
import json

import pytest

from tests.http.running import Running
from turnlog.domain.errors import BadInput, Bug, Conflict, Gone, KeyReused, NotYet, OutcomeUnknown, Unavailable

PATH = "/api/chat-history"
RESET = "/api/chat-history/reset-context"
E1 = {"entryId": "e1", "text": "m1"}
BODY = {"sessionKey": "k", "entries": [E1]}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "sessionKey and entries[] required"),
        ({"sessionKey": "s", "entries": []}, "sessionKey and entries[] required"),
        ({"sessionKey": "s", "entries": {}}, "sessionKey and entries[] required"),
        ({"entries": [E1]}, "sessionKey and entries[] required"),
        ({"sessionKey": "", "entries": [E1]}, "sessionKey and entries[] required"),
        ({"sessionKey": 1, "entries": [E1]}, "sessionKey and entries[] required"),
        ([], "invalid JSON"),
        (b"", "invalid JSON"),
        (b"{bad", "invalid JSON"),
        (b'{"sessionKey":"s","entries":[NaN]}', "invalid JSON"),
        (b'{"sessionKey":"s","entries":[{"entryId":"\xff"}]}', "invalid JSON"),
        (b'{"sessionKey":"s","entries":[' + b"[" * 600 + b"]" * 600 + b"]}", "invalid JSON"),
        (b'{"sessionKey":"s","entries":[' + b"[" * 400_000, "invalid JSON"),
        ({"sessionKey": "s", "entries": [{"entryId": "e" * 1025}]}, "entryId must be at most 1024 bytes"),
        ({"sessionKey": "s", "entries": [E1], "gatewayUrl": "\ud800"}, "gatewayUrl must not contain lone surrogates"),
        ({"sessionKey": "s", "entries": [{"entryId": str(i)} for i in range(4097)]}, "too many entries"),
    ],
)
async def test_a_save_that_can_not_work_is_refused(server: Running, body: object, error: str) -> None:
    answer = await server.post(PATH, body)
    assert (answer.status, answer.error()) == (400, error)
    assert not server.commands.calls


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"])
async def test_another_content_type_is_not_json(server: Running, content_type: str) -> None:
    answer = await server.post(PATH, BODY, content_type=content_type)
    assert (answer.status, answer.error()) == (400, "invalid JSON")


async def test_entries_are_passed_on_byte_for_byte(server: Running) -> None:
    first = b'{ "entryId":"a", "n":1.10, "big":123456789012345678901234567890, "z":"\\u0000\\ud800" }'
    second = b'{"entryId":"b","deep":[[{"x":"\xe2\x80\xa8"}]]}'
    body = b'{"entries":[%s , %s,null,{"no":"id"},{"entryId":""}],"sessionKey":"k","gatewayUrl":"g"}' % (first, second)
    answer = await server.post(PATH, body, content_type="application/json; charset=UTF-8")
    assert answer.json() == {"ok": True, "saved": 5, "stored": 2}
    assert answer.headers["turnlog-position"] == "0-1"
    (call,) = server.commands.calls
    entries, gateway_url = call.given
    assert ([entry.text for entry in entries], gateway_url, call.key) == ([first, second], "g", "k")


async def test_a_save_of_nothing_usable_has_no_position(server: Running) -> None:
    answer = await server.post(PATH, {"sessionKey": "k", "entries": [None]})
    assert answer.json() == {"ok": True, "saved": 1, "stored": 0}
    assert "turnlog-position" not in answer.headers


async def test_a_page_is_spliced_from_the_stored_bytes(server: Running) -> None:
    answer = await server.ask("GET", f"{PATH}?sessionKey=k&limit=7&before=9")
    assert answer.body == b'{"entries":[{"limit":7}],"hasMore":true,"nextBefore":9}'
    assert (await server.ask("HEAD", f"{PATH}?sessionKey=k")).status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("query", ["", "?sessionKey=", "?sessionKey=x&sessionKey=y", "?sessionKey[a]=x"])
async def test_the_session_key_is_required(server: Running, method: str, query: str) -> None:
    answer = await server.ask(method, PATH + query)
    assert (answer.status, answer.error()) == (400, "sessionKey required")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "sessionKeys[] required"),
        ({}, "sessionKeys[] required"),
        ({"sessionKeys": []}, "sessionKeys[] required"),
        ({"sessionKeys": [42]}, "sessionKeys[] required"),
        ({"sessionKeys": [""]}, "sessionKeys[] required"),
        ({"sessionKeys": "x"}, "sessionKeys[] required"),
        ({"sessionKeys": None}, "sessionKeys[] required"),
        ({"sessionKeys": {}}, "sessionKeys[] required"),
        ({"sessionKeys": ["a"], "noticeSessionKey": "b"}, "noticeSessionKey must be one of sessionKeys"),
        ({"sessionKeys": ["a"], "noticeSessionKey": ""}, "noticeSessionKey must be one of sessionKeys"),
        (b"{bad", "invalid JSON"),
    ],
)
async def test_a_reset_that_can_not_work_is_refused(server: Running, body: object, error: str) -> None:
    answer = await server.post(RESET, body)
    assert (answer.status, answer.error()) == (400, error)
    assert not server.commands.calls


@pytest.mark.parametrize(
    ("body", "keys", "notice"),
    [
        ({"sessionKeys": ["", "b", "a", "b", 3]}, ["b", "a"], "b"),
        ({"sessionKeys": ["b", "a"], "noticeSessionKey": "a"}, ["b", "a"], "a"),
        ({"sessionKeys": ["b", "a"], "noticeSessionKey": 5}, ["b", "a"], "b"),
    ],
)
async def test_a_reset_takes_each_key_once(server: Running, body: object, keys: list[str], notice: str) -> None:
    answer = await server.post(RESET, body)
    assert answer.json()["ok"] is True
    assert answer.json()["entry"]["sessionKey"] == notice
    (call,) = server.commands.calls
    assert (call.key, call.given) == (keys, notice)


async def test_an_idempotency_key_comes_with_the_hash_of_the_whole_request(server: Running) -> None:
    same = [await server.post(PATH, BODY, idempotency_key="abc") for _ in range(2)]
    await server.post(PATH, {**BODY, "gatewayUrl": "g"}, idempotency_key="abc")
    await server.post(PATH + "?x=1", BODY, idempotency_key="abc")
    await server.ask("DELETE", PATH + "?sessionKey=k", idempotency_key="abc")
    assert all(answer.status == 200 for answer in same)
    hashes = [call.origin.request_hash for call in server.commands.calls]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4
    assert all(found is not None and len(found) == hashlib.sha256().digest_size for found in hashes)
    assert {call.origin.idempotency_key for call in server.commands.calls} == {"abc"}


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\xe9"])
async def test_an_idempotency_key_is_visible_ascii(server: Running, key: str) -> None:
    answer = await server.post(PATH, BODY, idempotency_key=key)
    assert answer.status == 400
    assert answer.error().startswith("Idempotency-Key")
    assert not server.commands.calls


@pytest.mark.parametrize(
    "path",
    [
        f"{PATH}?sessionKey=k", "/v1/resume-point?sessionKey=k", "/v1/sessions", "/api/teams/t/chat/stream",
        "/api/agents/a/chat/stream",
    ],
)  # fmt: skip
async def test_every_read_names_the_header_that_holds_a_bad_position(server: Running, path: str) -> None:
    answer = await server.ask("GET", path, turnlog_after="0:12")
    assert answer.status == 400
    assert answer.error().startswith("Turnlog-After")


@pytest.mark.parametrize(
    ("failure", "status", "error", "retry"),
    [
        (Unavailable("database unreachable"), 500, "database unreachable", None),
        (OutcomeUnknown("sent, not answered"), 503, "sent, not answered", "1"),
        (NotYet("not applied yet", retry_after_s=3), 503, "not applied yet", "3"),
        (BadInput("sessionKey is reserved"), 400, "sessionKey is reserved", None),
        (KeyReused("used before"), 422, "used before", None),
        (Gone("deleted"), 410, "deleted", None),
        (Bug("value: secret"), 500, "internal error", None),
        (RuntimeError("value: secret"), 500, "internal error", None),
    ],
)
@pytest.mark.parametrize("path", [PATH, RESET])
async def test_failures_are_answered_by_their_category(
    server: Running, failure: Exception, status: int, error: str, retry: str | None, path: str
) -> None:
    server.commands.failing = failure
    answer = await server.post(path, {**BODY, "sessionKeys": ["k"]})
    assert (answer.status, answer.error(), answer.headers.get("retry-after")) == (status, error, retry)
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_conflict_tells_the_epoch(server: Running) -> None:
    server.commands.failing = Conflict("the context was ended meanwhile", epoch=12)
    body = json.dumps({"sessionKey": "k", "runtime": "codex", "resumeId": "r", "epoch": 3}).encode()
    answer = await server.ask("PUT", "/v1/resume-point", body, content_type="application/json")
    assert (answer.status, answer.json()) == (409, {"error": "the context was ended meanwhile", "epoch": 12})


async def test_beyond_the_reference_an_unreachable_database_is_503(server: Running) -> None:
    server.commands.failing = Unavailable("database unreachable")
    answer = await server.post("/api/teams/t/chat/clear", b"")
    assert (answer.status, answer.error(), answer.headers["retry-after"]) == (503, "database unreachable", "1")
