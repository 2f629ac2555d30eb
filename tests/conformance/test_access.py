"""Cases 37-39: who is let in, and how often. What is counted per client comes from a loopback address of its own."""

import itertools

import pytest

from tests.api import PATH, RESET, Api, agent_key, entry, target, together
from tests.served import TOKEN

BLOCKED = "Cross-origin request blocked."
INVALID = "Invalid Clawboo access token."
REQUIRED = "Clawboo access token required. Open /?access_token=<token> once to set a cookie."
TOO_MANY = "Too many requests. Wait a moment and retry."
COOKIE = {"cookie": f"clawboo_access={TOKEN}"}

_addresses = (f"127.9.{number // 250}.{number % 250 + 1}" for number in itertools.count())


@pytest.fixture
def source() -> str:
    """A loopback address that no other test comes from."""
    return next(_addresses)


@pytest.mark.parametrize(
    "path", [PATH, "/API/chat-history", "/api/chat-history/", "/api/nothing", "/v1/sessions", "/api", "/", "/docs"]
)
async def test_37_without_a_token_nothing_is_answered(guarded: Api, source: str, path: str) -> None:
    answer = await guarded.ask("GET", f"{path}?sessionKey=x", source=source)
    assert (answer.status, answer.error()) == (401, REQUIRED)
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "OPTIONS", "HEAD"])
async def test_37_every_method_asks_for_the_token(guarded: Api, source: str, method: str) -> None:
    assert (await guarded.ask(method, PATH, source=source)).status == 401


async def test_37_a_refused_write_stores_nothing(guarded: Api, source: str) -> None:
    key = agent_key()
    assert (await guarded.save(key, entry(1))).status == 401
    assert (await guarded.post(RESET, {"sessionKeys": [key]})).status == 401
    page = await guarded.ask("GET", target(PATH, sessionKey=key), given=COOKIE, source=source)
    assert page.json()["entries"] == []


@pytest.mark.parametrize(
    "headers",
    [
        COOKIE, {"cookie": f"theme=dark; clawboo_access={TOKEN}; other=1"}, {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer {TOKEN}"}, {"authorization": f"Bearer {TOKEN}", "cookie": "clawboo_access=wrong"},
    ],
)  # fmt: skip
async def test_37_cookie_and_bearer_let_in(guarded: Api, source: str, headers: dict[str, str]) -> None:
    answer = await guarded.ask("GET", target(PATH, sessionKey=agent_key()), given=headers, source=source)
    assert answer.status == 200


@pytest.mark.parametrize("wrong", ["wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), f'"{TOKEN}"'])
async def test_37_a_wrong_token_is_called_invalid(guarded: Api, source: str, wrong: str) -> None:
    for headers in ({"cookie": f"clawboo_access={wrong}"}, {"authorization": f"Bearer {wrong}"}):
        answer = await guarded.ask("GET", f"{PATH}?sessionKey=x", given=headers, source=source)
        assert (answer.status, answer.error()) == (401, INVALID)
    link = await guarded.ask("GET", f"/?access_token={wrong.replace(chr(34), '%22')}", source=source)
    assert (link.status, link.error()) == (401, INVALID)
    assert "set-cookie" not in link.headers


@pytest.mark.parametrize(
    ("link", "location"),
    [
        (f"/?access_token={TOKEN}&x=1", "/?x=1"),
        (f"/?access_token={TOKEN}", "/"),
        (f"/team/t%201?x=1&access_token={TOKEN}&y=%26", "/team/t%201?x=1&y=%26"),
        (f"{PATH}?sessionKey=k&access_token={TOKEN}", f"{PATH}?sessionKey=k"),
        (f"//evil.example/?access_token={TOKEN}", "/evil.example/"),
    ],
)
async def test_37_a_link_sets_the_cookie_and_leads_on(guarded: Api, source: str, link: str, location: str) -> None:
    answer = await guarded.ask("GET", link, source=source)
    assert (answer.status, answer.headers["location"], answer.body) == (302, location, b"")
    value, *attributes = answer.headers["set-cookie"].split("; ")
    assert value == f"clawboo_access={TOKEN}"
    assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=Lax"]


async def test_37_a_token_in_the_query_of_a_write_is_no_token(guarded: Api, source: str) -> None:
    answer = await guarded.ask("POST", f"{PATH}?access_token={TOKEN}", b"{}", source=source)
    assert (answer.status, answer.error()) == (401, REQUIRED)


async def test_37_guessing_tokens_is_rate_limited(guarded: Api, source: str) -> None:
    wrong = {"cookie": "clawboo_access=guess"}
    tried = [await guarded.ask("GET", PATH, given=wrong, source=source) for _ in range(31)]
    assert {answer.status for answer in tried[:30]} == {401}
    assert (tried[30].status, tried[30].error()) == (429, TOO_MANY)
    assert 0 < int(tried[30].headers["retry-after"]) <= 60
    assert (await guarded.ask("GET", PATH, given=COOKIE, source=source)).status == 429
    assert (await guarded.ask("GET", PATH, given=COOKIE, source=next(_addresses))).status == 400


async def test_37_a_wrong_token_in_a_link_is_invalid_even_with_the_cookie(guarded: Api, source: str) -> None:
    answer = await guarded.ask("GET", "/?access_token=wrong", given=COOKIE, source=source)
    assert (answer.status, answer.error()) == (401, INVALID)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_37_the_probes_are_open_to_anybody_and_tell_no_secret(guarded: Api, path: str) -> None:
    answer = await guarded.ask("GET", path, host="10.1.2.3:80")
    assert answer.status == 200
    assert b"postgresql" not in answer.body
    assert "ratelimit-limit" not in answer.headers


@pytest.mark.parametrize("path", [f"{PATH}?sessionKey=x", "/v1/sessions", "/API/chat-history?sessionKey=x"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil"}, {"origin": "null"}, {"origin": ""}, {"sec_fetch_site": "cross-site"},
        {"origin": "http://localhost:1"}, {"origin": "https://localhost"}, {"origin": "http://127.0.0.1.evil.com"},
        {"origin": "file://"},
    ],
)  # fmt: skip
async def test_38_another_sites_page_is_refused(api: Api, path: str, headers: dict[str, str]) -> None:
    answer = await api.ask("GET", path, given=headers)
    assert (answer.status, answer.error()) == (403, BLOCKED)


@pytest.mark.parametrize(
    "host", ["evil.com", "evil.com:80", "localhost.evil.com", "127.0.0.1@evil.com", "", "[::2]", "a b"]
)
async def test_38_a_foreign_host_is_refused(api: Api, host: str) -> None:
    answer = await api.ask("GET", f"{PATH}?sessionKey=x", host=host)
    assert (answer.status, answer.error()) == (403, BLOCKED)


async def test_38_there_is_exactly_one_host(api: Api) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: localhost\r\n", b"Host: localhost\r\nHost: evil.com\r\n"):
        answer = await api.raw(b"GET /api/chat-history?sessionKey=x HTTP/1.1\r\n%sConnection: close\r\n\r\n" % hosts)
        assert (answer.status, answer.error()) == (403, BLOCKED)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.8.9.1", "[::1]", "LOCALHOST"])
async def test_38_its_own_names_and_origins_are_admitted(api: Api, name: str) -> None:
    host = f"{name}:{api.port}"
    for headers in ({}, {"origin": f"http://{host}"}, {"sec_fetch_site": "same-origin"}, {"sec_fetch_site": "none"}):
        answer = await api.ask("GET", f"{PATH}?sessionKey=x", given=headers, host=host)
        assert answer.status == 200


async def test_38_another_port_of_this_machine_is_another_origin(api: Api) -> None:
    answer = await api.ask("GET", f"{PATH}?sessionKey=x", origin=f"http://127.0.0.1:{api.port + 1}")
    assert (answer.status, answer.error()) == (403, BLOCKED)


@pytest.mark.parametrize(
    "form", ["http://evil.com", "http://evil.com:18790", "https://evil.com", "http://user@evil.com"]
)
async def test_38_an_absolute_target_with_a_foreign_host_is_refused(api: Api, form: str) -> None:
    answer = await api.ask("GET", f"{form}{PATH}?sessionKey=x")
    assert (answer.status, answer.error()) == (403, BLOCKED)


async def test_38_an_absolute_target_with_its_own_host_is_answered(api: Api) -> None:
    answer = await api.ask("GET", f"http://{api.own}{PATH}?sessionKey=x")
    assert (answer.status, answer.json()["entries"]) == (200, [])


@pytest.mark.parametrize("headers", [{"origin": "http://evil"}, {"sec_fetch_site": "cross-site"}])
async def test_38_a_refused_write_stores_nothing(api: Api, headers: dict[str, str]) -> None:
    key = agent_key()
    assert (await api.save(key, entry(1), **headers)).status == 403
    assert (await api.reset(key, **headers)).status == 403
    assert (await api.entries(key), await api.epoch(key)) == ([], 0)


async def test_39_request_3001_of_a_minute_waits(guarded: Api, source: str) -> None:
    path = target(PATH, sessionKey="x")
    first = await guarded.ask("GET", path, given=COOKIE, source=source)
    assert first.headers["ratelimit-policy"] == "3000;w=60"
    assert (first.headers["ratelimit-limit"], first.headers["ratelimit-remaining"]) == ("3000", "2999")
    assert 0 <= int(first.headers["ratelimit-reset"]) <= 60
    # Pipelined over eight connections: the window of a minute must not end before 3,000 are through.
    await together(*(_pipelined(guarded, source, count) for count in [374] * 7 + [381]))
    last = await guarded.ask("GET", path, given=COOKIE, source=source)
    assert last.status == 429
    assert last.error() == TOO_MANY
    assert last.headers["ratelimit-remaining"] == "0"
    assert 0 < int(last.headers["retry-after"]) <= 60
    for refused in (await guarded.ask("GET", PATH, source=source), await guarded.ask("POST", PATH, source=source)):
        assert (refused.status, refused.error()) == (429, TOO_MANY)
    assert (await guarded.ask("GET", "/healthz", source=source)).status == 200
    other = await guarded.ask("GET", path, given=COOKIE, source=next(_addresses))
    assert (other.status, other.headers["ratelimit-remaining"]) == (200, "2999")


async def test_39_requests_without_the_token_count_too(guarded: Api, source: str) -> None:
    left = [(await guarded.ask("GET", PATH, source=source)).headers["ratelimit-remaining"] for _ in range(3)]
    assert left == ["2999", "2998", "2997"]


async def test_39_without_a_limit_there_are_no_headers(api: Api) -> None:
    answer = await api.page(agent_key())
    assert not [name for name in answer.headers if name.startswith("ratelimit")]


async def _pipelined(api: Api, source: str, count: int) -> None:
    """So many answered requests on one connection."""
    head = f"GET /api/chat-history HTTP/1.1\r\nHost: {api.own}\r\nCookie: {COOKIE['cookie']}\r\n"
    one = f"{head}\r\n".encode()
    last = f"{head}Connection: close\r\n\r\n".encode()
    first = await api.raw(one * (count - 1) + last, source)
    assert (first.status, first.body.count(b"HTTP/1.1 400 ")) == (400, count - 1)
