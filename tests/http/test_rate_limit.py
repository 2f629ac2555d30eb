"""Requests per minute and client."""

from tests.http.running import Running, running
from turnlog.services.http.options import HttpOptions
from turnlog.services.http.rate_limit import client_of

PATH = "/api/chat-history?sessionKey=k"


async def test_the_request_after_the_last_allowed_one_waits() -> None:
    async with running(HttpOptions(port=0, rate_limit=3)) as server:
        answers = [await server.ask("GET", PATH) for _ in range(4)]
        assert [a.status for a in answers] == [200, 200, 200, 429]
        assert [a.headers["ratelimit-remaining"] for a in answers] == ["2", "1", "0", "0"]
        assert {a.headers["ratelimit-limit"] for a in answers} == {"3"}
        assert {a.headers["ratelimit-policy"] for a in answers} == {"3;w=60"}
        assert all(1 <= int(a.headers["ratelimit-reset"]) <= 60 for a in answers)
        assert answers[3].error() == "Too many requests. Wait a moment and retry."
        assert 1 <= int(answers[3].headers["retry-after"]) <= 60
        assert (await server.ask("GET", PATH, source="127.0.0.2")).status == 200
        assert (await server.ask("GET", "/healthz")).status == 200


async def test_a_rate_of_zero_is_no_limit(server: Running) -> None:
    answer = await server.ask("GET", PATH)
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("ratelimit")]


def test_one_ipv6_host_is_one_client() -> None:
    assert client_of({"client": ("2001:db8::1", 1)}) == client_of({"client": ("2001:db8::2:3", 9)})
    assert client_of({"client": ("2001:db8:0:1::1", 1)}) != client_of({"client": ("2001:db8::1", 1)})
    assert client_of({"client": ("10.0.0.1", 1)}) == "10.0.0.1"
    assert client_of({"client": None}) == "local"
