"""The access token: cookie, bearer, link; exact texts; and guessing it is slow."""

import pytest

from tests.http.running import running
from turnlog.domain.errors import Misconfigured
from turnlog.services.http.access_token import exchange
from turnlog.services.http.options import HttpOptions, check_options

T = "tok-en_1.~"
PATH = "/api/chat-history?sessionKey=k"
REQUIRED = "Clawboo access token required. Open /?access_token=<token> once to set a cookie."
INVALID = "Invalid Clawboo access token."
GUARDED = HttpOptions(port=0, rate_limit=0, access_token=T)


async def test_the_token_is_asked_for_in_exact_words() -> None:
    async with running(GUARDED) as server:
        missing = await server.ask("GET", PATH)
        assert (missing.status, missing.error()) == (401, REQUIRED)
        for headers in ({"cookie": "clawboo_access=nope"}, {"authorization": "Bearer nope"}):
            wrong = await server.ask("GET", PATH, given=headers)
            assert (wrong.status, wrong.error()) == (401, INVALID)
        upper = await server.ask("GET", "/API/chat-history")
        assert (upper.status, upper.error()) == (401, REQUIRED)


@pytest.mark.parametrize(
    "headers",
    [
        {"cookie": f"clawboo_access={T}"},
        {"cookie": f"a=b; clawboo_access={T}; c=d"},
        {"authorization": f"Bearer {T}"},
        {"authorization": f"bearer {T}"},
    ],
)
async def test_cookie_and_bearer_are_accepted(headers: dict[str, str]) -> None:
    async with running(GUARDED) as server:
        assert (await server.ask("GET", PATH, given=headers)).status == 200


async def test_a_link_sets_the_cookie_and_leads_to_itself_without_the_token() -> None:
    async with running(GUARDED) as server:
        answer = await server.ask("GET", f"/?access_token={T}&x=1")
        assert answer.status == 302
        assert answer.headers["location"] == "/?x=1"
        assert answer.headers["set-cookie"] == f"clawboo_access={T}; HttpOnly; SameSite=Lax; Path=/"
        wrong = await server.ask("GET", "/?access_token=nope", cookie=f"clawboo_access={T}")
        assert (wrong.status, wrong.error()) == (401, INVALID)
        assert (await server.ask("POST", f"{PATH}&access_token={T}")).status == 401


@pytest.mark.parametrize(
    ("path", "query", "location"),
    [
        (b"/", b"access_token=t", b"/"),
        (b"/a/b", b"x=1&access_token=t&y=%20z", b"/a/b?x=1&y=%20z"),
        (b"//evil.com/", b"access_token=t", b"/evil.com/"),
        (b"/\\evil.com/", b"access_token=t", b"/%5Cevil.com/"),
        (b"/x", b"access%5Ftoken=t&a", b"/x?a"),
        (b"/x", b"access_token=t&access_token=u", b"/x"),
    ],
)
def test_the_redirect_never_leaves_the_server(path: bytes, query: bytes, location: bytes) -> None:
    found = exchange(path, query)
    assert found is not None
    assert (found.token, found.location) == (b"t", location)


async def test_guessing_is_limited_and_the_right_token_waits_too() -> None:
    async with running(HttpOptions(port=0, rate_limit=0, access_token=T, wrong_token_limit=3)) as server:
        statuses = [(await server.ask("GET", PATH, authorization=f"Bearer guess{i}")).status for i in range(4)]
        assert statuses == [401, 401, 401, 429]
        late = await server.ask("GET", PATH, authorization=f"Bearer {T}")
        assert late.status == 429
        assert 1 <= int(late.headers["retry-after"]) <= 60
        assert (await server.ask("GET", PATH, source="127.0.0.2", authorization=f"Bearer {T}")).status == 200


@pytest.mark.parametrize("token", ["", "a b", "tök", "a\n", "a;b"])
def test_a_token_that_no_cookie_carries_is_refused_at_start(token: str) -> None:
    with pytest.raises(Misconfigured, match="TURNLOG_ACCESS_TOKEN"):
        check_options(HttpOptions(access_token=token))


def test_listening_beyond_this_machine_needs_a_token_or_a_word() -> None:
    with pytest.raises(Misconfigured, match="without an access token"):
        check_options(HttpOptions(host="0.0.0.0"))  # noqa: S104 - what is being refused
    check_options(HttpOptions(host="0.0.0.0", access_token="t"))  # noqa: S104
    check_options(HttpOptions(host="0.0.0.0"), allow_open_bind=True)  # noqa: S104
    for host in ("127.0.0.1", "localhost", "::1"):
        check_options(HttpOptions(host=host))
