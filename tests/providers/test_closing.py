"""Ending early: a closed iterator, a cancelled task, a closed client."""

import asyncio

import anyio
import pytest

from tests.providers.answers import HEAD, hello, reply, silent, text
from tests.providers.asking import KEY, REQUEST, Asking, parts_of
from tests.providers.scripted_server import Exchange, ScriptedServer
from turnlog.services.providers.openai_compatible import OpenAICompatible
from turnlog.services.providers.provider import ProviderError, ResponseMetadata

HELLO = ["hello", ResponseMetadata("stop")]
BEGUN = HEAD + b"\r\n" + text("a") + text("b")


async def test_closing_the_iterator_closes_the_connection(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [silent(BEGUN), hello()]
    client = asking.client()
    stream = client.stream(REQUEST)
    assert await anext(stream) == "a"
    await stream.aclose()
    await asyncio.wait_for(server.client_closed.wait(), 20)
    assert await parts_of(client) == HELLO


async def test_an_iterator_closed_before_it_began_sends_nothing(server: ScriptedServer, asking: Asking) -> None:
    await asking.client().stream(REQUEST).aclose()
    assert server.connections == 0


@pytest.mark.parametrize("said", [b"", HEAD + b"\r\n", BEGUN], ids=["before the head", "before a piece", "after one"])
async def test_cancelling_the_task_closes_the_connection(server: ScriptedServer, asking: Asking, said: bytes) -> None:
    reached = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.send(said)
        reached.set()
        await exchange.client_closes()

    server.answers = [answer, hello()]
    client = asking.client()
    task = asyncio.create_task(parts_of(client))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.client_closed.wait(), 20)
    assert asking.pauses == []
    assert await parts_of(client) == HELLO


async def test_a_cancelled_scope_ends_a_request(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [silent(BEGUN)]
    given: list[object] = []
    with anyio.CancelScope() as scope:
        async for part in asking.client().stream(REQUEST):
            given.append(part)
            if part == "b":
                scope.cancel()
    assert scope.cancelled_caught and given == ["a", "b"]
    await asyncio.wait_for(server.client_closed.wait(), 20)


async def test_cancelling_a_pause_ends_the_retries(server: ScriptedServer) -> None:
    pausing = asyncio.Event()

    async def pause(seconds: float) -> None:
        pausing.set()
        await asyncio.Event().wait()

    server.answers = [reply(503), hello()]
    async with OpenAICompatible(server.base_url, "a-model", KEY, sleep=pause) as client:
        task = asyncio.create_task(parts_of(client))
        await pausing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(server.requests) == 1


async def test_a_closed_client_answers_with_an_error(server: ScriptedServer) -> None:
    async with OpenAICompatible(server.base_url, "a-model") as client:
        pass
    with pytest.raises(ProviderError, match="closed"):
        await parts_of(client)
    await client.aclose()
    assert server.connections == 0


@pytest.mark.parametrize("said", [b"", HEAD + b"\r\n", BEGUN], ids=["before the head", "before a piece", "after one"])
async def test_closing_the_client_fails_the_requests_that_still_run(
    server: ScriptedServer, asking: Asking, said: bytes
) -> None:
    reached = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.send(said)
        reached.set()
        await exchange.client_closes()

    server.answers = [answer, hello()]
    client = asking.client()
    task = asyncio.create_task(parts_of(client))
    await reached.wait()
    await client.aclose()
    with pytest.raises(ProviderError):
        await asyncio.wait_for(task, 20)
    assert len(server.requests) == 1


async def test_closing_the_client_during_a_pause_ends_the_retries(server: ScriptedServer) -> None:
    async def pause(seconds: float) -> None:
        await client.aclose()

    server.answers = [reply(503), hello()]
    client = OpenAICompatible(server.base_url, "a-model", sleep=pause)
    with pytest.raises(ProviderError, match="closed"):
        await parts_of(client)
    assert len(server.requests) == 1


async def test_a_client_without_a_key_sends_none(server: ScriptedServer) -> None:
    server.answers = [hello()]
    async with OpenAICompatible(server.base_url, "a-model") as client:
        assert await parts_of(client) == HELLO
    assert "authorization" not in server.requests[0].headers
