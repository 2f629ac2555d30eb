"""The provider that says what it was told to say."""

import asyncio
from typing import Any

import pytest

from turnlog.services.providers.provider import (
    Provider,
    ProviderError,
    ProviderPart,
    ProviderRequest,
    ResponseMetadata,
    ToolCall,
)
from turnlog.services.providers.scripted import Scripted


async def answer_of(provider: Provider, content: str = "hi") -> list[ProviderPart]:
    return [part async for part in provider.stream(ProviderRequest([{"role": "user", "content": content}]))]


async def test_answers_come_one_after_another_as_they_were_given() -> None:
    parts: list[ProviderPart] = ["a", ToolCall("1", "f", "{"), ResponseMetadata("stop")]
    provider = Scripted(["text", parts, "", ["", "b"]])
    assert [await answer_of(provider) for _ in range(4)] == [["text"], parts, [], ["b"]]


async def test_a_function_gives_an_answer_for_the_request_it_sees() -> None:
    async def later(request: ProviderRequest) -> str:
        await asyncio.sleep(0)
        return f"later {request.messages[0]['content']}"

    provider = Scripted([lambda request: f"now {request.messages[0]['content']}", later])
    assert await answer_of(provider, "1") == ["now 1"]
    assert await answer_of(provider, "2") == ["later 2"]


async def test_an_exception_is_raised_and_the_next_answer_is_there() -> None:
    error = ValueError("no luck")
    provider = Scripted([error, lambda _: error, asyncio.CancelledError(), "b"])
    for _ in range(2):
        with pytest.raises(ValueError, match="no luck") as raised:
            await answer_of(provider)
        assert raised.value is error
    with pytest.raises(asyncio.CancelledError):
        await answer_of(provider)
    assert await answer_of(provider) == ["b"]


async def test_a_request_too_many_is_an_error_that_counts() -> None:
    provider = Scripted(["a"])
    await answer_of(provider)
    with pytest.raises(ProviderError, match="has 1 answers; this is request 2"):
        await answer_of(provider)
    assert len(provider.requests) == 2


async def test_requests_are_kept_as_they_were() -> None:
    messages: list[Any] = [{"role": "user", "content": "a"}]
    provider = Scripted(["b"])
    async for _ in provider.stream(ProviderRequest(messages)):
        messages[0]["content"] = "changed"
    assert provider.requests == [ProviderRequest([{"role": "user", "content": "a"}])]


async def test_requests_at_once_get_answers_in_the_order_in_which_they_began() -> None:
    gate = asyncio.Event()

    async def first(request: ProviderRequest) -> str:
        await gate.wait()
        return "first"

    def second(request: ProviderRequest) -> str:
        gate.set()
        return "second"

    provider = Scripted([first, second])
    one, other = await asyncio.gather(answer_of(provider), answer_of(provider))
    assert (one, other) == (["first"], ["second"])
