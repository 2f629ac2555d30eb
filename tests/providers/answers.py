"""Answers for the scripted server, and the events they are made of."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.providers.scripted_server import Answer, Exchange

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
DONE = b"data: [DONE]\n\n"


def event(chunk: object, end: bytes = b"\n") -> bytes:
    """A chunk of an answer as a server-sent event."""
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + end + end


def delta(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    """An event with this delta."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def text(content: str) -> bytes:
    """An event with a piece of text."""
    return delta({"content": content})


def calls(*pieces: Mapping[str, Any]) -> bytes:
    """An event with pieces of tool calls."""
    return delta({"tool_calls": list(pieces)})


def stop(reason: str = "stop") -> bytes:
    """The event that finishes an answer."""
    return delta({}, reason)


def hello() -> Answer:
    """A complete answer: "hello"."""
    return sse(text("hello"), stop(), DONE)


def sse(*chunks: bytes) -> Answer:
    """A stream of these chunks, each an HTTP chunk of its own, ended as HTTP wants it."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        for chunk in chunks:
            await exchange.send(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        await exchange.send(b"0\r\n\r\n")

    return answer


def closing(*chunks: bytes) -> Answer:
    """A stream whose only end is that of the connection."""
    return raw(HEAD + b"\r\n", *chunks)


def raw(*chunks: bytes) -> Answer:
    """These bytes, then the connection is dropped."""

    async def answer(exchange: Exchange) -> None:
        for chunk in chunks:
            await exchange.send(chunk)
        exchange.drop()

    return answer


def cut(*chunks: bytes) -> Answer:
    """A chunked stream that is dropped before its end."""
    return raw(
        HEAD + b"transfer-encoding: chunked\r\n\r\n",
        *(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks),
    )


def silent(*chunks: bytes) -> Answer:
    """These bytes, then nothing until the client closes the connection."""

    async def answer(exchange: Exchange) -> None:
        for chunk in chunks:
            await exchange.send(chunk)
        await exchange.client_closes()

    return answer


def gated(gate: asyncio.Event, before: Sequence[bytes], after: Sequence[bytes]) -> Answer:
    """A stream that goes on only once `gate` is set."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send(HEAD + b"\r\n")
        for chunk in before:
            await exchange.send(chunk)
        await gate.wait()
        for chunk in after:
            await exchange.send(chunk)
        exchange.drop()

    return answer


def endless(head: bytes, chunk: bytes) -> Answer:
    """`head`, then `chunk` again and again until the client closes the connection."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send(head)
        while True:
            await exchange.send(chunk)

    return answer


def reply(status: int, body: object = None, *, kind: str = "application/json", **headers: str) -> Answer:
    """A whole answer: bytes as they are, anything else as JSON. An underscore in a header's name is a hyphen."""

    async def answer(exchange: Exchange) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"content-type": kind, "content-length": str(len(content))} | headers
        lines = [f"HTTP/1.1 {status} X", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
        await exchange.send("\r\n".join([*lines, "", ""]).encode() + content)

    return answer
