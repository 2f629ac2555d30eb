"""The agent and its history, numbered like the cases A23 to A66: what is sent, what is kept, what is forgotten."""

from contextlib import aclosing
from typing import Any

import anyio
import pytest

from turnlog.domain.history.messages import AgentMessage, HistoryError
from turnlog.services.agent.agent import Agent
from turnlog.services.providers.provider import ProviderError, ProviderRequest, ToolCall
from turnlog.services.providers.scripted import Scripted

Message = dict[str, Any]
SAID: AgentMessage = {"role": "user", "content": "My name is Alice"}
ANSWERED: AgentMessage = {"role": "assistant", "content": "Hello Alice"}
TOOL_CONVERSATION: list[Any] = [
    {"role": "user", "content": "Weather in Paris?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    },
    {"role": "tool", "content": "22 degrees", "tool_call_id": "c1", "name": "weather"},
    {"role": "assistant", "content": "It is 22 degrees"},
]


def sent(provider: Scripted) -> list[Any]:
    return list(provider.requests[-1].messages)


async def test_23_after_a_restore_the_only_system_message_is_the_agents_own() -> None:
    provider = Scripted(["yes"])
    agent = Agent(provider, instructions="be kind")
    agent.set_history([{"role": "system", "content": "be rude"}, SAID])
    await agent.chat("hi")
    assert sent(provider) == [{"role": "system", "content": "be kind"}, SAID, {"role": "user", "content": "hi"}]


async def test_52_a_history_that_was_read_is_a_copy() -> None:
    agent = Agent(Scripted([]))
    agent.set_history(TOOL_CONVERSATION)
    copy: list[Any] = agent.get_history()
    copy[1]["tool_calls"][0]["id"] = "other"
    del copy[2:]
    assert agent.get_history() == TOOL_CONVERSATION


async def test_55_56_the_last_valid_history_stands() -> None:
    agent = Agent(Scripted([]))
    agent.set_history([SAID])
    agent.set_history([ANSWERED])
    with pytest.raises(HistoryError):
        agent.set_history([SAID, None])
    assert agent.get_history() == [ANSWERED]


async def test_57_a_restore_forgets_cached_answers() -> None:
    provider = Scripted(["one", "two"])
    agent = Agent(provider, cache=True)
    assert await agent.chat("p") == "one"
    agent.set_history([SAID])
    assert await agent.chat("p") == "two"


async def test_58_a_refused_restore_keeps_cached_answers() -> None:
    provider = Scripted(["one"])
    agent = Agent(provider, cache=True)
    await agent.chat("p")
    with pytest.raises(HistoryError):
        agent.set_history("junk")
    assert await agent.chat("p") == "one"
    assert len(provider.requests) == 1


async def test_59_clearing_the_history_forgets_cached_answers() -> None:
    provider = Scripted(["one", "two"])
    agent = Agent(provider, cache=True)
    await agent.chat("p")
    agent.clear_history()
    assert agent.get_history() == []
    assert await agent.chat("p") == "two"


async def test_60_a_cached_answer_adds_nothing_to_the_history() -> None:
    agent = Agent(Scripted(["one"]), cache=True)
    await agent.chat("p")
    before = agent.get_history()
    assert await agent.chat("p") == "one"
    assert agent.get_history() == before


async def test_without_a_cache_a_repeated_prompt_is_asked_again() -> None:
    agent = Agent(Scripted(["one", "two"]))
    assert [await agent.chat("p"), await agent.chat("p")] == ["one", "two"]


async def test_61_a_restored_tool_conversation_is_sent_whole_with_the_prompt_once() -> None:
    provider = Scripted(["yes"])
    agent = Agent(provider, instructions="be kind")
    agent.set_history(TOOL_CONVERSATION)
    await agent.start("Is that warm?")
    roles = [message["role"] for message in sent(provider)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert sent(provider)[1:-1] == TOOL_CONVERSATION
    assert sent(provider)[-1] == {"role": "user", "content": "Is that warm?"}


async def test_62_63_chat_sends_what_was_said_and_adds_prompt_and_answer() -> None:
    provider = Scripted(["Hello Alice", "Alice"])
    agent = Agent(provider)
    await agent.chat("My name is Alice")
    assert agent.get_history() == [SAID, ANSWERED]
    assert await agent.chat("What is my name?") == "Alice"
    assert sent(provider) == [SAID, ANSWERED, {"role": "user", "content": "What is my name?"}]


async def test_63_start_adds_nothing() -> None:
    agent = Agent(Scripted(["yes"]))
    agent.set_history([SAID])
    assert await agent.start("hi") == "yes"
    assert agent.get_history() == [SAID]


async def test_64_a_failed_turn_adds_nothing_and_the_next_one_works() -> None:
    provider = Scripted([ProviderError("out of reach"), "yes"])
    agent = Agent(provider, cache=True)
    with pytest.raises(ProviderError, match="out of reach"):
        await agent.chat("hi")
    assert agent.get_history() == []
    assert await agent.chat("hi") == "yes"


async def test_65_66_what_a_provider_would_refuse_is_repaired_on_its_way_alone() -> None:
    stored: list[Any] = [
        {**TOOL_CONVERSATION[1]},
        {**TOOL_CONVERSATION[2], "content": None},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": ""},
    ]
    provider = Scripted(["yes"])
    agent = Agent(provider)
    agent.set_history(stored)
    await agent.start("hi")
    assert sent(provider)[:-1] == [stored[0], {**stored[1], "content": ""}, stored[3]]
    assert agent.get_history() == stored


async def test_a_stream_comes_in_pieces_and_joins_the_history_at_its_end() -> None:
    agent = Agent(Scripted([["Hel", "lo"]]))
    async with aclosing(agent.stream("hi")) as pieces:
        assert await anext(pieces) == "Hel"
        assert agent.get_history() == []
        assert [piece async for piece in pieces] == ["lo"]
    assert agent.get_history() == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello"}]


async def test_a_stream_closed_early_adds_nothing_and_frees_the_agent() -> None:
    agent = Agent(Scripted([["Hel", "lo"], "yes"]))
    async with aclosing(agent.stream("hi")) as pieces:
        await anext(pieces)
    assert agent.get_history() == []
    assert await agent.chat("again") == "yes"


async def test_two_prompts_at_once_are_two_turns_one_after_the_other() -> None:
    waiting = anyio.Event()

    async def first(_request: ProviderRequest) -> str:
        await waiting.wait()
        return "one"

    provider = Scripted([first, "two"])
    agent = Agent(provider)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.chat, "a")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(agent.chat, "b")
        await anyio.wait_all_tasks_blocked()
        assert len(provider.requests) == 1
        waiting.set()
    assert [message["content"] for message in agent.get_history()] == ["a", "one", "b", "two"]


async def test_a_history_set_during_a_turn_wins_over_it() -> None:
    agent = Agent(Scripted([["Hel", "lo"], "again"]), cache=True)
    async with aclosing(agent.stream("hi")) as pieces:
        await anext(pieces)
        agent.set_history([SAID])
        assert [piece async for piece in pieces] == ["lo"]
    assert agent.get_history() == [SAID]
    assert await agent.chat("hi") == "again", "the late answer must not be cached"


async def test_c17_an_aborted_stream_keeps_the_call_and_its_result() -> None:
    async def weather() -> str:
        return "22 degrees"

    call = ToolCall("c1", "weather", "{}")
    agent = Agent(Scripted([[call], ["It is", " 22"]]), tools=[weather])
    async with aclosing(agent.stream("Weather in Paris?")) as pieces:
        await anext(pieces)
    assert agent.get_history() == TOOL_CONVERSATION[:3]


async def test_a_prompt_must_be_text() -> None:
    agent = Agent(Scripted([]))
    for wrong in (None, 7, b"hi"):
        with pytest.raises(TypeError, match="prompt must be a string"):
            await agent.chat(wrong)  # type: ignore[arg-type]  # what is tested
