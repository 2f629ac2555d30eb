"""Who may talk to the server: Host, Origin, Sec-Fetch-Site and absolute-form targets, over a real socket."""

import pytest

from tests.http.running import Running, running
from turnlog.services.http.options import HttpOptions

PATH = "/api/chat-history?sessionKey=k"
BLOCKED = "Cross-origin request blocked."


@pytest.mark.parametrize(
    "host",
    [
        "evil.com", "x?", "x/", "x#", "", "localhost?", "localhost/", "localhost@evil.com", "localhost.evil.com",
        "127.0.0.1.evil.com", "127.0.0.1:1:2", "localhost:", "localhost:999999", "local host", "[::1", "::1", "*",
    ],
)  # fmt: skip
async def test_a_foreign_or_malformed_host_is_refused(server: Running, host: str) -> None:
    answer = await server.ask("GET", PATH, host=host)
    assert (answer.status, answer.error()) == (403, BLOCKED)


@pytest.mark.parametrize(
    "host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST:{port}", "localhost"]
)
async def test_a_loopback_host_is_admitted(server: Running, host: str) -> None:
    assert (await server.ask("GET", PATH, host=host.format(port=server.port))).status == 200


@pytest.mark.parametrize(
    "lines", [b"", b"Host: localhost\r\nHost: localhost\r\n", b"Host: evil.com\r\nHost: localhost\r\n"]
)
async def test_there_must_be_exactly_one_host(server: Running, lines: bytes) -> None:
    answer = await server.raw(b"GET " + PATH.encode() + b" HTTP/1.1\r\n" + lines + b"Connection: close\r\n\r\n")
    assert (answer.status, answer.error()) == (403, BLOCKED)


@pytest.mark.parametrize("origin", ["http://evil", "null", "http://localhost:1", "https://127.0.0.1:{port}", "file://"])
async def test_a_foreign_origin_is_refused(server: Running, origin: str) -> None:
    answer = await server.ask("GET", PATH, origin=origin.format(port=server.port))
    assert (answer.status, answer.error()) == (403, BLOCKED)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
async def test_its_own_origin_is_admitted(server: Running, name: str) -> None:
    assert (await server.ask("GET", PATH, origin=f"http://{name}:{server.port}")).status == 200


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-origin", 200), ("none", 200)])
async def test_a_cross_site_request_is_refused(server: Running, site: str, status: int) -> None:
    assert (await server.ask("GET", PATH, sec_fetch_site=site)).status == status


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://evil/api/chat-history?sessionKey=k", 403),
        ("http://localhost@evil/api/chat-history?sessionKey=k", 403),
        ("ftp://localhost/api/chat-history?sessionKey=k", 403),
        ("http://localhost/api/chat-history?sessionKey=k", 200),
        ("HTTP://127.0.0.1:1/api/chat-history?sessionKey=k", 200),
    ],
)
async def test_an_absolute_form_target_is_judged_by_the_rule_for_host(
    server: Running, target: str, status: int
) -> None:
    assert (await server.ask("GET", target)).status == status


@pytest.mark.parametrize("path", ["/API/chat-history", "/V1/sessions", "/Api/x"])
async def test_the_guard_does_not_care_about_the_case_of_a_path(server: Running, path: str) -> None:
    assert (await server.ask("GET", path, sec_fetch_site="cross-site")).status == 403


async def test_a_listed_host_and_origin_are_admitted() -> None:
    options = HttpOptions(
        port=0,
        rate_limit=0,
        allowed_hosts=("chat.example", "two.example:8443"),
        allowed_origins=("https://chat.example",),
    )
    async with running(options) as server:
        assert (await server.ask("GET", PATH, host="chat.example", origin="https://chat.example")).status == 200
        assert (await server.ask("GET", PATH, host="chat.example:444")).status == 200
        assert (await server.ask("GET", PATH, host="two.example:8443")).status == 200
        assert (await server.ask("GET", PATH, host="two.example")).status == 403


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_are_open_to_any_host(server: Running, path: str) -> None:
    assert (await server.ask("GET", path, host="10.0.0.7")).status == 200
