"""Tools from plain functions: what the model is told, what a call gives, and how a loop ends."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from turnlog.services.agent.agent import Agent
from turnlog.services.agent.tools import Tool
from turnlog.services.agent.turn import ToolLoopError
from turnlog.services.providers.provider import ProviderRequest, ToolCall
from turnlog.services.providers.scripted import Scripted


class Place(BaseModel):
    city: str
    country: str = "FR"


def weather(
    place: Place, unit: Literal["C", "F"] = "C", days: Annotated[int, Field(description="How many", ge=1)] = 1
) -> dict[str, object]:
    """The weather of a place."""
    return {"city": place.city, "unit": unit, "days": days}


async def echo(text: str) -> str:
    """Say it again."""
    return text


def broken() -> None:
    raise RuntimeError("no luck")


def shadowing(schema: str, copy: int, model_config: bool) -> str:
    return f"{schema} {copy} {model_config}"


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


async def result_of(tool_call: ToolCall) -> str:
    agent = Agent(Scripted([[tool_call], "done"]), tools=[weather, echo, broken, shadowing])
    assert await agent.chat("go") == "done"
    messages: list[Any] = agent.get_history()
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2]["tool_call_id"] == "c1" and messages[2]["name"] == tool_call.name
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == tool_call.arguments
    return str(messages[2]["content"])


def test_a_model_is_told_name_purpose_and_schema() -> None:
    spec = Tool(weather).spec
    assert (spec.name, spec.description) == ("weather", "The weather of a place.")
    schema: Any = spec.parameters
    assert schema["required"] == ["place"]
    assert schema["properties"]["unit"] == {"default": "C", "enum": ["C", "F"], "type": "string"}
    assert schema["properties"]["days"] == {"default": 1, "description": "How many", "minimum": 1, "type": "integer"}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("tool_call", "result"),
    [
        (call("weather", '{"place":{"city":"Paris"},"days":2}'), '{"city":"Paris","unit":"C","days":2}'),
        (call("echo", '{"text":"\u00e9"}'), "\u00e9"),
        (call("shadowing", '{"schema":"s","copy":1,"model_config":true}'), "s 1 True"),
        (call("broken", ""), "error: RuntimeError: no luck"),
        (call("nothing"), "error: there is no tool named nothing"),
    ],
)
async def test_a_call_gives_a_result_as_text(tool_call: ToolCall, result: str) -> None:
    assert await result_of(tool_call) == result


@pytest.mark.parametrize(
    "arguments",
    ["{not json", "[]", '"text"', "{}", '{"text":7}', '{"text":"x","more":1}', '{"text":NaN}', "[" * 100_000],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: str) -> None:
    assert (await result_of(call("echo", arguments))).startswith("error: the arguments don't fit: ")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
async def test_c_numbers_that_are_no_json_do_not_reach_a_tool(number: str) -> None:
    async def half(value: float) -> float:
        return value / 2

    agent = Agent(Scripted([[call("half", f'{{"value":{number}}}')], "done"]), tools=[half])
    await agent.chat("go")
    assert str(agent.get_history()[2]["content"]).startswith("error: the arguments don't fit: ")


async def test_parallel_calls_are_answered_in_their_order() -> None:
    calls = [call("echo", f'{{"text":"{number}"}}', f"c{number}") for number in range(11)]
    provider = Scripted([["Let me see.", *calls], "done"])
    agent = Agent(provider, tools=[echo])
    await agent.chat("go")
    messages: list[Any] = agent.get_history()
    assert messages[1]["content"] == "Let me see."
    assert [(m["tool_call_id"], m["content"]) for m in messages[2:13]] == [(f"c{n}", str(n)) for n in range(11)]
    assert [spec.name for spec in provider.requests[0].tools] == ["echo"]
    assert list(provider.requests[1].messages) == messages[:-1]


async def test_a_tool_called_too_often_says_so_and_the_model_may_still_answer() -> None:
    agent = Agent(Scripted([[call("echo", '{"text":"x"}')]] * 3 + ["done"]), tools=[echo], calls_per_tool=2)
    assert await agent.chat("go") == "done"
    results = [message["content"] for message in agent.get_history() if message["role"] == "tool"]
    assert results == ["x", "x", "error: echo was called 2 times in this turn, which is the limit"]


async def test_a_model_that_never_stops_calling_fails_its_turn() -> None:
    def again(_request: ProviderRequest) -> list[str | ToolCall]:
        return [call("echo", '{"text":"x"}')]

    provider = Scripted([again] * 200)
    agent = Agent(provider, tools=[echo])
    with pytest.raises(ToolLoopError, match="more than 150 times"):
        await agent.chat("go")
    assert len(provider.requests) == 151
    assert agent.get_history() == []


@dataclass
class Callable:
    def __call__(self) -> None: ...


def untyped(text) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001 - what is tested
    return str(text)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda text: text, "must be a named function"),
        (Callable(), "must be a named function"),
        (7, "must be a named function"),
        (untyped, "parameter text has no type"),
        (print, "can't be passed by name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_at_once(function: Any, text: str) -> None:  # noqa: ANN401 - anything
    with pytest.raises(TypeError, match=text):
        Agent(Scripted([]), tools=[function])


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named echo"):
        Agent(Scripted([]), tools=[echo, echo])
