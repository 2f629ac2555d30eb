"""Connections that are lost, and servers that say nothing."""

import socket
from contextlib import aclosing

import pytest

from tests.providers.answers import HEAD, closing, cut, event, hello, raw, silent, sse, stop, text
from tests.providers.asking import REQUEST, Asking
from tests.providers.scripted_server import Answer, ScriptedServer
from turnlog.services.providers.openai_compatible import ProviderTimeoutError
from turnlog.services.providers.provider import ProviderError, ResponseMetadata

HELLO = ["hello", ResponseMetadata("stop")]
CALL = event({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]}}]})


@pytest.mark.parametrize(
    "lost",
    [
        raw(),
        raw(b"HTTP/1.1 20"),
        raw(b"\x16\x03\x01\r\n\r\n"),
        cut(),
        cut(b": hi\n\n"),
        cut(CALL),
        closing(),
        closing(CALL),
        sse(),
    ],
    ids=["no head", "half a head", "no HTTP", "no event", "a comment", "a call", "closed", "closed, a call", "ended"],
)
async def test_an_answer_lost_before_its_first_piece_is_asked_for_again(
    server: ScriptedServer, asking: Asking, lost: Answer
) -> None:
    server.answers = [lost, lost, hello()]
    assert await asking.parts() == HELLO
    assert len(asking.pauses) == 2
    assert len({request.body for request in server.requests}) == 1 and len(server.requests) == 3


async def test_after_the_last_attempt_the_loss_is_the_error(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [cut()] * 3 + [hello()]
    with pytest.raises(ProviderError, match="lost") as lost:
        await asking.parts(retries=2)
    assert lost.value.http_status is None
    assert len(server.requests) == 3 and len(asking.pauses) == 2


@pytest.mark.parametrize("lost", [cut(text("a")), closing(text("a")), sse(text("a")), closing(text("a"), b"data: {")])
async def test_after_the_first_piece_nothing_is_asked_again(
    server: ScriptedServer, asking: Asking, lost: Answer
) -> None:
    server.answers = [lost, hello()]
    async with aclosing(asking.client().stream(REQUEST)) as stream:
        assert await anext(stream) == "a"
        with pytest.raises(ProviderError):
            await anext(stream)
    assert len(server.requests) == 1 and asking.pauses == []


@pytest.mark.parametrize("said", [b"", HEAD + b"\r\n", HEAD + b"\r\n: hi\n\n"], ids=["nothing", "a head", "a comment"])
async def test_a_silent_server_is_given_up_after_the_timeout(
    server: ScriptedServer, asking: Asking, said: bytes
) -> None:
    server.answers = [silent(said)]
    with pytest.raises(ProviderTimeoutError, match=r"silent for 0\.05 seconds") as silence:
        await asking.parts(timeout_s=0.05)
    assert isinstance(silence.value, TimeoutError) and isinstance(silence.value, ProviderError)
    assert len(server.requests) == 1 and asking.pauses == []
    await server.client_closed.wait()


async def test_a_silence_after_some_pieces_is_given_up_too(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [silent(HEAD + b"\r\n" + text("a"))]
    async with aclosing(asking.client(timeout_s=0.05).stream(REQUEST)) as stream:
        assert await anext(stream) == "a"
        with pytest.raises(ProviderTimeoutError):
            await anext(stream)


async def test_a_refusal_whose_body_never_comes_is_still_a_refusal(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [silent(b"HTTP/1.1 401 X\r\ncontent-length: 9\r\n\r\n")]
    with pytest.raises(ProviderError, match="HTTP 401") as refused:
        await asking.parts(timeout_s=0.05)
    assert refused.value.http_status == 401


async def test_a_server_that_is_not_there_is_tried_again(asking: Asking) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = asking.client(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=1)
        with pytest.raises(ProviderError, match="can't be reached"):
            await anext(client.stream(REQUEST))
    assert len(asking.pauses) == 1


async def test_a_kept_connection_that_the_server_has_dropped_is_replaced(
    server: ScriptedServer, asking: Asking
) -> None:
    server.answers = [sse(text("a"), stop()), raw(), hello()]
    client = asking.client()
    assert len([part async for part in client.stream(REQUEST)]) == 2
    assert [part async for part in client.stream(REQUEST)] == HELLO
