"""The probes, and the error envelope on everything that is no route."""

import pytest

from tests.api import PATH, RESET, RESUME, Api


async def test_the_process_says_that_it_lives(api: Api) -> None:
    answer = await api.ask("GET", "/healthz")
    assert (answer.status, answer.body) == (200, b'{"ok":true}')
    assert answer.headers["cache-control"] == "no-store"


async def test_readiness_comes_with_its_figures(api: Api) -> None:
    answer = await api.ask("GET", "/readyz")
    figures = answer.json()
    assert (answer.status, figures["ok"], figures["draining"]) == (200, True, False)
    assert len(figures) > 2


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_answer_any_host_and_tell_no_secret(guarded: Api, path: str) -> None:
    answer = await guarded.ask("GET", path, host="10.1.2.3:80")
    assert answer.status == 200
    assert b"postgresql" not in answer.body
    assert "ratelimit-limit" not in answer.headers


@pytest.mark.parametrize("path", ["/api/nothing", "/api/chat-history/", "/v1", "/nothing", "/api/teams/t/chat", "/%00"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_that_is_no_route_is_404_in_json(api: Api, method: str, path: str) -> None:
    answer = await api.ask(method, path)
    assert (answer.status, answer.error()) == (404, "not found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", PATH, {"GET", "HEAD", "POST", "DELETE"}),
        ("PATCH", PATH, {"GET", "HEAD", "POST", "DELETE"}),
        ("GET", RESET, {"POST"}),
        ("POST", RESUME, {"GET", "PUT", "DELETE"}),
        ("GET", "/api/teams/t/chat/clear", {"POST"}),
        ("POST", "/api/teams/t/chat/stream", {"GET", "HEAD"}),
        ("DELETE", "/v1/sessions", {"GET"}),
    ],
)
async def test_a_method_that_a_route_has_not_is_405_in_json(
    api: Api, method: str, path: str, allowed: set[str]
) -> None:
    answer = await api.ask(method, path)
    assert (answer.status, answer.error()) == (405, "method not allowed")
    assert set(answer.headers["allow"].replace(" ", "").split(",")) <= allowed


@pytest.mark.parametrize(
    "request_line", [b"GET /\x01 HTTP/1.1", b"nonsense", b"GET / HTTP/9.9", b"GET " + b"x" * 70_000 + b" HTTP/1.1"]
)
async def test_a_malformed_request_does_not_bring_it_down(api: Api, request_line: bytes) -> None:
    answer = await api.raw(request_line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert 400 <= answer.status < 500
    assert answer.error()
    assert (await api.ask("GET", "/healthz")).status == 200
