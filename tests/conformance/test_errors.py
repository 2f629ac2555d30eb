"""Errors are always JSON `{"error": "<message>"}`, whoever makes them."""

import pytest

from tests.api import PATH, RESET, Api

ROUTES = {
    PATH: {"GET", "HEAD", "POST", "DELETE"},
    RESET: {"POST"},
    "/api/teams/t/chat/clear": {"POST"},
    "/api/teams/t/chat/stream": {"GET", "HEAD"},
    "/api/teams/t/chat/delta": {"POST"},
    "/api/teams/t/chat/status": {"POST"},
    "/api/agents/a/chat/stream": {"GET", "HEAD"},
    "/v1/resume-point": {"GET", "PUT", "DELETE"},
    "/v1/sessions": {"GET"},
    "/v1/turns": {"POST"},
    "/v1/history": {"GET", "PUT"},
    "/healthz": {"GET", "HEAD"},
    "/readyz": {"GET", "HEAD"},
    "/openapi.json": {"GET", "HEAD"},
    "/docs": {"GET", "HEAD"},
}


@pytest.mark.parametrize(
    "path",
    [
        "/api", "/api/", "/api/chat-history/", "/api/nothing", "/API/chat-history", "/nothing", "/v1", "/docs/nothing",
        "/api/teams//chat/clear", "/api/teams/t/chat", "/api/agents/a/chat/clear", "/%00", "/api/chat-history%00",
        "/..%2f", "/static/swagger-ui.css", "/redoc",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_path_is_404(api: Api, method: str, path: str) -> None:
    answer = await api.ask(method, path)
    assert (answer.status, answer.error()) == (404, "not found")


@pytest.mark.parametrize("path", ROUTES)
async def test_another_method_is_405(api: Api, path: str) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"} - ROUTES[path]:
        answer = await api.ask(method, path)
        assert (answer.status, answer.error()) == (405, "method not allowed"), (method, path)
        assert {name.strip() for name in answer.headers["allow"].split(",")} == ROUTES[path]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nBroken header\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"POST /api/chat-history HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /api/chat-history HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_no_http_is_answered_in_json_too(api: Api, head: bytes, status: int) -> None:
    answer = await api.raw(head)
    assert answer.status == status
    assert answer.error()


async def test_errors_say_nothing_of_the_machine(api: Api) -> None:
    for answer in (await api.post(PATH, b"{bad"), await api.ask("GET", "/nothing"), await api.ask("PUT", PATH)):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
        assert b"/" not in answer.body
        assert b"Traceback" not in answer.body


async def test_pipelined_requests_are_answered_however_many_there_are(api: Api) -> None:
    """What is read at once may hold more than the largest head: many small ones."""
    head = f"GET /api/nothing HTTP/1.1\r\nHost: {api.own}\r\n"
    answer = await api.raw(f"{head}\r\n".encode() * 2999 + f"{head}Connection: close\r\n\r\n".encode())
    assert answer.status == 404
    assert answer.body.count(b"HTTP/1.1 404 ") == 2999
