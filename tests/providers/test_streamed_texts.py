"""Texts and metadata from a stream, over a socket."""

import asyncio
import json
from contextlib import aclosing

import pytest

from tests.providers.answers import DONE, closing, delta, event, gated, hello, reply, sse, stop, text
from tests.providers.asking import REQUEST, Asking, parts_of
from tests.providers.scripted_server import ScriptedServer
from turnlog.services.providers.provider import ProviderError, ResponseMetadata, ToolCall

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
STOPPED = ResponseMetadata("stop")


async def test_the_first_piece_arrives_while_the_server_still_writes(server: ScriptedServer, asking: Asking) -> None:
    gate = asyncio.Event()
    server.answers = [gated(gate, [text("one")], [text("two"), stop(), DONE])]
    async with aclosing(asking.client().stream(REQUEST)) as stream:
        assert await anext(stream) == "one"
        gate.set()
        assert [part async for part in stream] == ["two", STOPPED]


async def test_usage_comes_in_a_last_chunk_without_choices(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [sse(text("a"), stop("length"), event({"choices": [], "usage": USAGE}), DONE)]
    assert await asking.parts() == ["a", ResponseMetadata("length", 7, 3, 10)]


async def test_an_answer_ends_at_done_though_the_server_goes_on(server: ScriptedServer, asking: Asking) -> None:
    gate = asyncio.Event()
    server.answers = [gated(gate, [text("a"), stop(), DONE + text("more")], [])]
    assert await asking.parts() == ["a", STOPPED]
    gate.set()


@pytest.mark.parametrize("ended", [sse, closing])
async def test_done_may_be_missing_after_a_finish_reason(server: ScriptedServer, asking: Asking, ended: object) -> None:
    assert callable(ended)
    server.answers = [ended(text("a"), stop())]
    assert await asking.parts() == ["a", STOPPED]


async def test_a_bom_and_lines_that_end_in_cr_alone_are_read(server: ScriptedServer, asking: Asking) -> None:
    stream = b"\xef\xbb\xbf" + (text("é") + stop() + DONE).replace(b"\n", b"\r")
    server.answers = [sse(*(bytes([byte]) for byte in stream))]
    assert await asking.parts() == ["é", STOPPED]


async def test_comments_other_fields_and_empty_events_say_nothing(server: ScriptedServer, asking: Asking) -> None:
    noise = b": keepalive\n\nevent: x\nid: 1\nretry: 5\n\ndata:\n\ndata\n\n"
    server.answers = [sse(noise, text(""), delta({"role": "assistant", "content": None}), text("a"), stop(), DONE)]
    assert await asking.parts() == ["a", STOPPED]


async def test_a_character_cut_between_its_two_escapes_arrives_whole(server: ScriptedServer, asking: Asking) -> None:
    halves = [b'data: {"choices":[{"delta":{"content":"a%s"}}]}\n\n' % half for half in (rb"\ud83d", rb"\ude00")]
    halves[1] = halves[1].replace(b'"a', b'"')
    server.answers = [sse(*halves, stop(), DONE)]
    assert await asking.parts() == ["a", "😀", STOPPED]


async def test_a_half_that_stays_alone_is_not_lost(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [sse(b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n', stop(), DONE)]
    assert await asking.parts() == ["a", "\ud83d", STOPPED]


async def test_only_the_first_choice_counts(server: ScriptedServer, asking: Asking) -> None:
    other = event({"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}]})
    server.answers = [sse(text("a"), other, stop(), DONE)]
    assert await asking.parts() == ["a", STOPPED]


async def test_a_server_that_does_not_stream_is_understood(server: ScriptedServer, asking: Asking) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "a", "tool_calls": [call]}
    answer = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": USAGE}
    server.answers = [reply(200, answer), reply(200, b"\xef\xbb\xbf" + json.dumps(answer).encode())]
    expected = ["a", ToolCall("c1", "f", "{}"), ResponseMetadata("tool_calls", 7, 3, 10)]
    assert await asking.parts() == expected
    assert await asking.parts() == expected


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[{}]}', b"[" * 100_000, b'{"choices":[{"mes']
)
async def test_json_that_is_no_answer_is_an_error(server: ScriptedServer, asking: Asking, body: bytes) -> None:
    server.answers = [reply(200, body)]
    with pytest.raises(ProviderError):
        await asking.parts()
    assert asking.pauses == []


@pytest.mark.parametrize("kind", ["text/html", "application/octet-stream", "text/event-streams", ""])
async def test_other_content_types_are_an_error(server: ScriptedServer, asking: Asking, kind: str) -> None:
    server.answers = [reply(200, text("a") + stop() + DONE, kind=kind)]
    with pytest.raises(ProviderError, match="content type"):
        await asking.parts()


async def test_several_requests_at_once_get_their_own_answers(server: ScriptedServer, asking: Asking) -> None:
    gates = [asyncio.Event() for _ in range(4)]
    server.answers = [gated(gate, [text(f"{number}")], [text("!"), stop(), DONE]) for number, gate in enumerate(gates)]
    client = asking.client()
    streams = [client.stream(REQUEST) for _ in gates]
    first = [await anext(stream) for stream in streams]
    assert first == ["0", "1", "2", "3"] and server.connections == 4
    for gate, stream in reversed(list(zip(gates, streams, strict=True))):
        gate.set()
        assert [part async for part in stream] == ["!", STOPPED]
    server.answers = [hello()] * 8
    assert await asyncio.gather(*(parts_of(client) for _ in range(8))) == [["hello", STOPPED]] * 8
