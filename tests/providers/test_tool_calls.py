"""Tool calls put together from pieces."""

from contextlib import aclosing
from typing import Any

import pytest

from tests.providers.answers import DONE, calls, sse, stop, text
from tests.providers.asking import REQUEST, Asking
from tests.providers.scripted_server import ScriptedServer
from turnlog.services.providers.provider import ProviderError, ResponseMetadata, ToolCall


def piece(index: object, call_id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    made = {"index": index, "id": call_id, "type": "function", "function": function}
    return {key: value for key, value in made.items() if value is not None}


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (
            [
                piece(1, "b", "g", ""),
                piece(0, "a", "f", '{"x'),
                piece(1, None, None, "{}"),
                piece(0, None, None, '":1}'),
            ],
            [("a", "f", '{"x":1}'), ("b", "g", "{}")],
        ),
        ([piece(None, "a", "f", "{"), piece(None, None, None, "}")], [("a", "f", "{}")]),
        (
            [piece(None, "a", "f", "{"), piece(None, "b", "f", "{"), piece(None, "a", "f", "}")],
            [("a", "f", "{}"), ("b", "f", "{")],
        ),
        ([piece(0, "a", "f", "{"), piece(0, "a", "f", "}")], [("a", "f", "{}")]),
        ([piece(0, "a", "f", "{"), piece(0, None, "f", "}")], [("a", "f", "{}")]),
        ([piece(0, "a", "wea", ""), piece(0, "a", "ther", "{}")], [("a", "weather", "{}")]),
        ([piece(0, None, "f", "{"), piece(0, "a", None, "}")], [("a", "f", "{}")]),
        (
            [piece(0, "a", "f", "{}"), piece(0, "b", "f", "{"), piece(0, None, None, "}")],
            [("a", "f", "{}"), ("b", "f", "{}")],
        ),
        ([piece(0, "a", "f", None), piece(7, "a", "g", None)], [("a", "f", ""), ("a", "g", "")]),
        ([piece(0, "a", "f", "{not json, é"), piece(0, None, None, '"\n')], [("a", "f", '{not json, é"\n')]),
    ],
    ids=[
        "parallel, out of order",
        "no index",
        "no index, the id in every piece",
        "id and name in every piece",
        "the name in every piece",
        "a name in pieces, the id in each",
        "the id late",
        "parallel, all with index 0",
        "no arguments, one id twice",
        "arguments that are no JSON",
    ],
)
async def test_calls_are_put_together_in_the_order_of_their_indexes(
    server: ScriptedServer, asking: Asking, pieces: list[dict[str, Any]], expected: list[tuple[str, str, str]]
) -> None:
    apart = [calls(one) for one in pieces]
    server.answers = [sse(text("a"), *apart, stop("tool_calls"), DONE), sse(calls(*pieces), stop(), DONE)]
    made = [ToolCall(*call) for call in expected]
    assert await asking.parts() == ["a", *made, ResponseMetadata("tool_calls")]
    assert await asking.parts() == [*made, ResponseMetadata("stop")]


async def test_a_character_cut_between_two_pieces_of_arguments_arrives_whole(
    server: ScriptedServer, asking: Asking
) -> None:
    start = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"'
    server.answers = [sse(*(start + half + b'"}}]}}]}\n\n' for half in (rb"\ud83d", rb"\ude00")), stop(), DONE)]
    assert await asking.parts() == [ToolCall("a", "f", "😀"), ResponseMetadata("stop")]


@pytest.mark.parametrize(
    "broken",
    [
        piece(None, None, None, "{}"),
        piece(-1, "a", "f", "{}"),
        piece(True, "a", "f", "{}"),
        piece("0", "a", "f", "{}"),
        piece(0, "", "f", "{}"),
        piece(0, "a", "", "{}"),
        {"index": 0, "id": 5, "function": {"name": "f"}},
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
        {"index": 0, "id": "a", "function": "f"},
    ],
)
async def test_what_is_no_call_is_an_error_and_no_call_is_given_out(
    server: ScriptedServer, asking: Asking, broken: dict[str, Any]
) -> None:
    server.answers = [sse(calls(broken), calls(piece(5, "z", "z", "{}")), stop(), DONE)]
    async with aclosing(asking.client().stream(REQUEST)) as stream:
        with pytest.raises(ProviderError):
            await anext(stream)
