"""What a server is sent."""

import math
from typing import Any

import pytest

from tests.providers.answers import hello
from tests.providers.asking import KEY, Asking
from tests.providers.scripted_server import ScriptedServer
from turnlog.domain.errors import BadInput
from turnlog.services.providers.provider import ProviderRequest, ToolSpec

CYCLE: list[Any] = []
CYCLE.append(CYCLE)


async def test_a_request_asks_for_a_stream_with_usage_and_keeps_the_order_of_messages(
    server: ScriptedServer, asking: Asking
) -> None:
    server.answers = [hello()]
    messages: list[Any] = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "Grüße 🐈"}]
    await asking.parts(ProviderRequest(messages))
    (request,) = server.requests
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.json == {
        "model": "a-model",
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"


async def test_tools_are_sent_as_functions(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [hello()]
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    await asking.parts(ProviderRequest([], [ToolSpec("weather", "The weather.", schema)]))
    function = {"name": "weather", "description": "The weather.", "parameters": schema}
    assert server.requests[0].json["tools"] == [{"type": "function", "function": function}]


async def test_half_a_character_is_sent_as_an_escape(server: ScriptedServer, asking: Asking) -> None:
    server.answers = [hello()]
    await asking.parts(ProviderRequest([{"role": "user", "content": "\ud83d!"}]))
    assert rb'"content":"\ud83d!"' in server.requests[0].body


@pytest.mark.parametrize(
    "request_",
    [
        ProviderRequest([{"role": "user", "content": math.nan}]),  # type: ignore[typeddict-item]
        ProviderRequest([{"role": "user", "content": {1}}]),  # type: ignore[typeddict-item]
        ProviderRequest([{"role": "user", "content": CYCLE}]),  # type: ignore[typeddict-item]
        ProviderRequest(None),  # type: ignore[arg-type]
        ProviderRequest([], [ToolSpec("a", "b", {"default": math.inf})]),
        ProviderRequest([], [ToolSpec("a", "b", None)]),  # type: ignore[arg-type]
    ],
    ids=["NaN", "a set", "a cycle", "no list", "infinity", "no schema"],
)
async def test_what_is_no_json_is_refused_before_anything_is_sent(
    server: ScriptedServer, asking: Asking, request_: ProviderRequest
) -> None:
    with pytest.raises(BadInput, match="plain JSON"):
        await asking.parts(request_)
    assert server.connections == 0
