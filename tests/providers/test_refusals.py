"""Statuses other than 200: which are asked again, after how long, and what an error says."""

import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.providers.answers import DONE, endless, event, hello, raw, reply, sse
from tests.providers.asking import KEY, REQUEST, SAID, Asking
from tests.providers.scripted_server import Answer, ScriptedServer
from turnlog.services.providers.provider import ProviderError, ResponseMetadata

HELLO = ["hello", ResponseMetadata("stop")]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_busy_or_broken_server_is_asked_again_after_growing_pauses(
    server: ScriptedServer, asking: Asking, status: int
) -> None:
    server.answers = [reply(status)] * 4 + [hello()]
    assert await asking.parts(retries=4, first_pause_s=1, longest_pause_s=3) == HELLO
    for pause, longest in zip(asking.pauses, [1, 2, 3, 3], strict=True):
        assert longest / 2 <= pause <= longest
    assert server.connections == 1


async def test_after_the_last_attempt_the_status_is_the_error(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [reply(503)] * 2
    with pytest.raises(ProviderError, match="HTTP 503") as refused:
        await asking.parts(retries=1)
    assert refused.value.http_status == 503 and len(asking.pauses) == 1


async def test_no_retries_are_none(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [reply(429), hello()]
    with pytest.raises(ProviderError, match="429"):
        await asking.parts(retries=0)
    assert len(server.requests) == 1 and asking.pauses == []


@pytest.mark.parametrize("status", [204, 302, 400, 401, 403, 404, 413, 422])
async def test_other_statuses_are_final(server: ScriptedServer, asking: Asking, status: int) -> None:
    server.answers = [raw(f"HTTP/1.1 {status} X\r\nlocation: /v1/elsewhere\r\n\r\n".encode()), hello()]
    with pytest.raises(ProviderError, match=f"HTTP {status}") as refused:
        await asking.parts()
    assert refused.value.http_status == status and len(server.requests) == 1


async def test_a_server_may_say_how_long_to_wait(server: ScriptedServer, asking: Asking) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    server.answers = [reply(429, retry_after=value) for value in ("7", "0", past, date)] + [hello()]
    assert await asking.parts(retries=4) == HELLO
    assert asking.pauses[:3] == [7, 0, 0]
    assert 10 < asking.pauses[3] <= 20


@pytest.mark.parametrize("value", ["31", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_a_server_that_wants_too_long_a_pause_is_not_asked_again(
    server: ScriptedServer, asking: Asking, value: str
) -> None:
    server.answers = [reply(429, retry_after=value), hello()]
    with pytest.raises(ProviderError, match=r"429, and asks to wait \d+ seconds") as refused:
        await asking.parts(longest_pause_s=30)
    assert refused.value.http_status == 429 and asking.pauses == []


@pytest.mark.parametrize("value", ["soon", "", "-1", "1.5", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"])
async def test_an_unreadable_pause_counts_as_none(server: ScriptedServer, asking: Asking, value: str) -> None:
    server.answers = [reply(429, retry_after=value), hello()]
    assert await asking.parts(first_pause_s=2) == HELLO
    assert 1 <= asking.pauses[0] <= 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"code": "context_length_exceeded", "type": "invalid_request_error"}, " (context_length_exceeded)"),
        ({"code": None, "type": "invalid_request_error"}, " (invalid_request_error)"),
        ({"code": 400, "type": "BadRequestError"}, " (BadRequestError)"),
        ({"code": KEY, "type": "Moritz"}, ""),
        ("invalid_request_error", ""),
        ([], ""),
    ],
)
async def test_of_an_error_body_only_a_usual_code_is_repeated(
    server: ScriptedServer, asking: Asking, error: object, said: str
) -> None:
    server.answers = [reply(400, {"error": error})]
    with pytest.raises(ProviderError) as refused:
        await asking.parts()
    assert str(refused.value) == f"The provider answered with HTTP 400{said}"


QUOTED = {"message": f"{SAID} {KEY}", "code": KEY, "type": "Moritz", "param": SAID}


@pytest.mark.parametrize(
    "answer",
    [
        reply(400, {"error": QUOTED}),
        reply(401, f"{SAID} {KEY}".encode(), kind="text/plain"),
        reply(503, {"error": QUOTED}),
        reply(200, {"error": QUOTED}),
        reply(200, {"choices": [{"message": QUOTED | {"tool_calls": SAID}}]}),
        reply(200, f"{SAID} {KEY}".encode(), kind=KEY),
        reply(200, b"no gzip " + KEY.encode(), content_encoding="gzip"),
        sse(event({"error": QUOTED})),
        sse(f"data: {SAID} {KEY}\n\n".encode()),
        sse(f"{SAID} {KEY}\n\n".encode(), DONE),
        sse(event({"choices": [{"delta": {"content": [SAID, KEY]}}]})),
        sse(event({"choices": [], "usage": {"prompt_tokens": KEY}})),
        raw(f"HTTP/1.1 {KEY} {SAID}\r\n\r\n".encode()),
    ],
)
async def test_no_error_quotes_a_message_or_the_key(server: ScriptedServer, asking: Asking, answer: Answer) -> None:
    server.answers = [answer] * 4
    client = asking.client()
    with pytest.raises(ProviderError) as failed:
        async for _ in client.stream(REQUEST):
            pass
    shown = "".join([*traceback.format_exception_only(failed.value), repr(failed.value), repr(client), str(client)])
    shown += "".join(traceback.format_exception(failed.value))
    for secret in (KEY, SAID, "Moritz", "top-secret"):
        assert secret not in shown


async def test_an_error_body_is_read_only_so_far(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [endless(b"HTTP/1.1 400 X\r\ncontent-type: application/json\r\n\r\n", b"x" * 4096)]
    with pytest.raises(ProviderError, match="HTTP 400"):
        await asking.parts()
    await server.client_closed.wait()
