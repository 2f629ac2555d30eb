"""Clearing, resume points, the session list and the probes, as far as they don't need a store."""

import json

import pytest

from tests.http.running import Running
from turnlog.domain.errors import Unavailable

CLEAR = "/api/teams/t/chat/clear"
RESUME = "/v1/resume-point"
SAVE = {"sessionKey": "k", "runtime": "codex", "resumeId": "r"}


@pytest.mark.parametrize(
    ("body", "scope"),
    [
        (b"", "general"),
        ({}, "general"),
        ({"roomId": None}, "general"),
        ({"roomId": "*"}, "*"),
        ({"roomId": "r"}, "room:r"),
    ],
)
async def test_a_clear_has_a_scope(server: Running, body: object, scope: str) -> None:
    answer = await server.post(CLEAR, body)
    assert answer.json() == {"ok": True, "clearedAt": 1, "sessionKeys": ["agent:a:team:t"]}
    assert answer.headers["turnlog-position"] == "0-1"
    assert [(call.key, call.given) for call in server.commands.calls] == [("t", scope)]


@pytest.mark.parametrize("room", ["", 5, {}])
async def test_a_room_is_a_name(server: Running, room: object) -> None:
    answer = await server.post(CLEAR, {"roomId": room})
    assert (answer.status, answer.error()) == (400, "roomId must be a non-empty string")


async def test_a_resume_point_is_shown_with_its_epoch(server: Running) -> None:
    point = {"runtime": "codex", "resumeId": "r1", "savedAt": "2025-10-28T11:13:20.000+00:00"}
    assert (await server.ask("GET", f"{RESUME}?sessionKey=k")).json() == {
        "sessionKey": "k", "resumePoint": point, "epoch": 7,
    }  # fmt: skip


async def put(server: Running, body: object) -> int:
    answer = await server.ask("PUT", RESUME, json.dumps(body).encode(), content_type="application/json")
    return answer.status


async def test_a_resume_point_is_saved_and_cleared(server: Running) -> None:
    assert await put(server, SAVE) == 200
    assert await put(server, {**SAVE, "epoch": 4}) == 200
    assert (await server.ask("DELETE", f"{RESUME}?sessionKey=k")).json() == {"ok": True, "epoch": 0}
    assert [call.given for call in server.commands.calls] == [("codex", "r", None), ("codex", "r", 4), ("", None, None)]


@pytest.mark.parametrize(
    "change",
    [
        {"sessionKey": ""},
        {"runtime": 5},
        {"resumeId": None},
        {"epoch": -1},
        {"epoch": 1.5},
        {"epoch": "1"},
        {"epoch": 2**53},
    ],
)
async def test_a_bad_resume_point_names_the_field(server: Running, change: dict[str, object]) -> None:
    answer = await server.ask("PUT", RESUME, json.dumps({**SAVE, **change}).encode(), content_type="application/json")
    assert answer.status == 400
    assert answer.error().startswith(next(iter(change)))
    assert not server.commands.calls


async def test_the_session_list_is_camel_case(server: Running) -> None:
    assert (await server.ask("GET", "/v1/sessions?prefix=a&limit=x")).json() == {"sessions": [], "nextCursor": None}


async def test_readiness_tells_the_figures_and_liveness_does_not_care(server: Running) -> None:
    ready = await server.ask("GET", "/readyz")
    assert (ready.status, ready.json()) == (200, {"ok": True, "draining": False, "lagMs": 0})
    server.tables.failing = Unavailable("database unreachable")
    assert (await server.ask("GET", "/readyz")).status == 503
    assert (await server.ask("GET", "/healthz")).json() == {"ok": True}


@pytest.mark.parametrize("path", ["/docs", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js", "/docs/start.js"])
async def test_the_docs_page_needs_nothing_from_elsewhere(server: Running, path: str) -> None:
    answer = await server.ask("GET", path)
    assert answer.status == 200
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    if path == "/docs":
        assert b"http" not in answer.body.replace(b"<!doctype html>", b"")
