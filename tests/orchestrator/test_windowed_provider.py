"""A stateless provider with a memory: cases B74 to B78, and what never leaves a turn apart."""

from typing import Any

import anyio
import pytest

from tests.orchestrator.fakes import ECHO, WAIT_S, Breaking, assistant, call, sent, user
from turnlog.domain.errors import BadInput
from turnlog.domain.history.provider_valid import INTERRUPTED
from turnlog.services.orchestrator.errors import MissingArgumentError
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.orchestrator.windowed_provider import WindowedProvider
from turnlog.services.providers.provider import ProviderError, ProviderRequest
from turnlog.services.providers.scripted import Scripted


def contents(provider: Scripted) -> list[str]:
    return [message["content"] for message in sent(provider)]


async def ask(provider: WindowedProvider, text: str) -> str:
    request = ProviderRequest([{"role": "system", "content": "be kind"}, {"role": "user", "content": text}])
    return "".join([part async for part in provider.stream(request) if isinstance(part, str)])


async def test_b74_b78_after_twenty_turns_thirty_messages_are_sent_besides_the_system_message() -> None:
    provider = Scripted([f"a{number}" for number in range(20)])
    orchestrator = Orchestrator(provider, "be kind")
    for number in range(20):
        await orchestrator.prompt(f"q{number}")
        roles = [message["role"] for message in sent(provider)]
        assert len(roles) <= 31
        assert roles[:2] == ["system", "user"]
        assert roles.count("system") == 1
    assert contents(provider)[-1] == "q19"
    assert contents(provider)[1] == "q5"
    assert "q0" not in contents(provider)


async def test_b75_a_new_history_replaces_what_was_remembered() -> None:
    provider = Scripted(["one", "two"])
    remembering = WindowedProvider(provider)
    await ask(remembering, "first")
    remembering.set_history([user("Hi"), assistant("Hello")], {})
    await ask(remembering, "second")
    assert contents(provider) == ["be kind", "Hi", "Hello", "second"]


@pytest.mark.parametrize(("given", "name"), [((None, {}), "history"), (([], None), "attachments_by_message_id")])
def test_b75_none_is_refused(given: tuple[Any, Any], name: str) -> None:
    with pytest.raises(MissingArgumentError, match=f"^{name} must not be None"):
        WindowedProvider(Scripted([])).set_history(*given)


@pytest.mark.parametrize("count", [29, 30, 31, 40])
async def test_b76_of_a_long_history_the_newest_whole_turns_are_sent(count: int) -> None:
    history = [user(f"m{number}") if number % 2 == 0 else assistant(f"m{number}") for number in range(count)]
    provider = Scripted(["yes"])
    remembering = WindowedProvider(provider)
    remembering.set_history(history, {})
    await ask(remembering, "And?")
    messages = sent(provider)[1:]
    assert len(messages) <= 30
    assert messages[0]["role"] == "user"
    assert messages[-2]["content"] == f"m{count - 1}"
    assert ("m0" in contents(provider)) is (count <= 29)


@pytest.mark.parametrize("window", [0, -1, True, 1.5, None])
def test_a_window_is_a_number_of_messages(window: Any) -> None:  # noqa: ANN401 - what is tested
    with pytest.raises(BadInput, match="window must be a whole number from 1"):
        WindowedProvider(Scripted([]), window=window)


async def test_a_window_of_one_remembers_nothing() -> None:
    provider = Scripted(["one", "two"])
    remembering = WindowedProvider(provider, window=1)
    await ask(remembering, "first")
    await ask(remembering, "second")
    assert contents(provider) == ["be kind", "second"]


async def test_tool_exchanges_are_remembered_whole() -> None:
    provider = Scripted([["Let me see.", call("echo", '{"text":"x"}')], "It is x.", "yes"])
    orchestrator = Orchestrator(provider, tools=[ECHO])
    await orchestrator.prompt("What is it?")
    await orchestrator.prompt("Sure?")
    first, calling, result, answer, second = sent(provider)
    assert (first["content"], calling["content"], result["content"]) == ("What is it?", "Let me see.", "x")
    assert calling["tool_calls"][0]["id"] == result["tool_call_id"] == "c1"
    assert (answer["content"], second["content"]) == ("It is x.", "Sure?")


async def test_a_turn_longer_than_the_window_is_remembered_without_its_tool_exchanges() -> None:
    calls = [call("echo", '{"text":"x"}', f"c{number}") for number in range(40)]
    provider = Scripted(["one", calls, "two", "three"])
    orchestrator = Orchestrator(provider, tools=[ECHO])
    await orchestrator.prompt("first")
    await orchestrator.prompt("second")
    assert len(sent(provider)) == 2 + 1 + 1 + 40
    await orchestrator.prompt("third")
    assert contents(provider) == ["second", "two", "third"]


async def test_a_failed_prompt_is_remembered_without_an_answer_as_in_the_history() -> None:
    provider = Scripted([ProviderError("no luck"), "yes"])
    orchestrator = Orchestrator(provider)
    with pytest.raises(ProviderError):
        await orchestrator.prompt("first")
    await orchestrator.prompt("second")
    assert contents(provider) == ["first", "second"]


async def test_a_partial_answer_is_forgotten() -> None:
    remembering = WindowedProvider(Breaking(ProviderError("no luck"), "Hel"))
    with pytest.raises(ProviderError):
        await ask(remembering, "first")
    assert [message["content"] for message in remembering._turn] == ["first"]


async def test_calls_cut_short_are_closed_before_the_next_request() -> None:
    running = anyio.Event()

    async def endless() -> str:
        running.set()
        await anyio.sleep_forever()
        return ""

    provider = Scripted([[call("endless")], "yes"])
    orchestrator = Orchestrator(provider, tools=[endless])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orchestrator.prompt, "first")
        with anyio.fail_after(WAIT_S):
            await running.wait()
        tasks.cancel_scope.cancel()
    await orchestrator.prompt("second")
    assert [message["role"] for message in sent(provider)] == ["user", "assistant", "tool", "user"]
    assert sent(provider)[2]["content"] == INTERRUPTED


async def test_an_answer_without_text_is_not_remembered() -> None:
    provider = Scripted([[], "yes"])
    remembering = WindowedProvider(provider)
    await ask(remembering, "first")
    await ask(remembering, "second")
    assert contents(provider) == ["be kind", "first", "second"]
