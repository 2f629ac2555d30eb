"""What a turn leaves in the history: cases B1 to B14 and the outcomes of orchestrator.md, "A turn"."""

from datetime import UTC, datetime
from uuid import UUID

import anyio
import pytest

from tests.orchestrator.fakes import ECHO, WAIT_S, Breaking, Gated, call, said, shown
from turnlog.domain.history.chat import ChatRole
from turnlog.services.orchestrator.exchange_events import ResponseEvent
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.providers.provider import ProviderError, ResponseMetadata
from turnlog.services.providers.scripted import Scripted


async def test_b1_a_fresh_history_is_empty() -> None:
    orchestrator = Orchestrator(Scripted([]))
    assert orchestrator.get_history() == ()
    assert orchestrator.view() == ()


async def test_b2_b4_a_turn_leaves_the_user_with_an_id_and_the_assistant_without_one_both_with_their_time() -> None:
    orchestrator = Orchestrator(Scripted(["Response"]))
    before = datetime.now(UTC)
    await orchestrator.prompt("Hello")
    after = datetime.now(UTC)
    asked, answered = orchestrator.get_history()
    assert (asked.role, asked.content) == (ChatRole.USER, "Hello")
    assert (answered.role, answered.content, answered.message_id) == (ChatRole.ASSISTANT, "Response", None)
    assert asked.message_id is not None and str(UUID(asked.message_id)) == asked.message_id
    assert asked.time is not None and answered.time is not None
    assert before <= asked.time <= answered.time <= after


async def test_b3_tokens_become_one_message() -> None:
    orchestrator = Orchestrator(Scripted([["Hello", " ", "World"]]))
    await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi"), ("ASSISTANT", "Hello World")]


async def test_b5_a_history_that_was_read_does_not_grow() -> None:
    orchestrator = Orchestrator(Scripted(["one", "two"]))
    await orchestrator.prompt("first")
    history = orchestrator.get_history()
    await orchestrator.prompt("second")
    assert isinstance(history, tuple)
    assert len(history) == 2
    assert orchestrator.get_history()[:2] == history


async def test_b6_while_an_answer_streams_the_history_ends_with_the_user_and_the_view_with_what_came() -> None:
    provider = Gated("so far")
    orchestrator = Orchestrator(provider)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orchestrator.prompt, "Hi")
        with anyio.fail_after(WAIT_S):
            await provider.waiting.wait()
        assert said(orchestrator) == [("USER", "Hi")]
        assert shown(orchestrator) == [("You", "Hi"), ("Assistant", "so far")]
        provider.go_on.set()
    assert said(orchestrator) == [("USER", "Hi"), ("ASSISTANT", "so far and more")]
    assert shown(orchestrator) == [("You", "Hi"), ("Assistant", "so far and more")]


@pytest.mark.parametrize("answer", [[], ["", ""], [ResponseMetadata("stop")]])
async def test_b7_b8_an_answer_without_text_leaves_the_user_alone_and_is_no_error(answer: list[str]) -> None:
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(Scripted([answer]), response_listeners=[events.append])
    await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi")]
    assert shown(orchestrator) == [("You", "Hi")]
    assert [(event.response, event.error) for event in events] == [("", None)]


async def test_tool_calls_alone_leave_the_user_alone_and_are_no_error() -> None:
    events: list[ResponseEvent] = []
    script = Scripted([[call("echo", '{"text":"x"}')], []])
    orchestrator = Orchestrator(script, tools=[ECHO], response_listeners=[events.append])
    await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi")]
    assert [(event.response, event.error) for event in events] == [("", None)]
    assert [message["role"] for message in script.requests[1].messages] == ["user", "assistant", "tool"]


async def test_b8_white_space_is_an_answer() -> None:
    orchestrator = Orchestrator(Scripted([" "]))
    await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi"), ("ASSISTANT", " ")]


async def test_text_before_and_after_tool_calls_is_one_answer() -> None:
    script = Scripted([["Let me see. ", call("echo", '{"text":"x"}')], "It is x."])
    orchestrator = Orchestrator(script, tools=[ECHO])
    await orchestrator.prompt("Hi")
    assert said(orchestrator)[1] == ("ASSISTANT", "Let me see. It is x.")


async def test_b9_b11_an_error_at_once_is_raised_and_leaves_the_user_alone() -> None:
    error = ProviderError("no luck")
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(Breaking(error), response_listeners=[events.append])
    with pytest.raises(ProviderError) as raised:
        await orchestrator.prompt("Hi")
    assert raised.value is error
    assert said(orchestrator) == [("USER", "Hi")]
    assert [(event.response, event.error) for event in events] == [("", error)]


async def test_b11_a_stream_that_raises_when_it_is_called_is_no_different() -> None:
    class Refusing:
        def stream(self, _request: object) -> Gated:
            raise ProviderError("refused")

    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(Refusing(), response_listeners=[events.append])  # type: ignore[arg-type]  # as above
    with pytest.raises(ProviderError, match="refused"):
        await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi")]
    assert len(events) == 1


async def test_an_error_after_some_tokens_drops_them_and_shows_that_something_failed() -> None:
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(Breaking(ProviderError("no luck"), "Hel", "lo"), response_listeners=[events.append])
    with pytest.raises(ProviderError):
        await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi")]
    assert shown(orchestrator) == [("You", "Hi"), ("Assistant", "An error occurred. Please try again later.")]
    assert events[0].response == ""


async def test_b12_two_prompts_leave_four_messages_and_two_ids() -> None:
    orchestrator = Orchestrator(Scripted(["one", "two"]))
    await orchestrator.prompt("first")
    await orchestrator.prompt("second")
    history = orchestrator.get_history()
    assert len(history) == 4
    assert len({history[0].message_id, history[2].message_id, None}) == 3


async def test_b13_a_failed_turn_and_a_good_one_leave_two_users_and_an_assistant() -> None:
    orchestrator = Orchestrator(Scripted([ProviderError("no luck"), "yes"]))
    with pytest.raises(ProviderError):
        await orchestrator.prompt("first")
    await orchestrator.prompt("second")
    assert said(orchestrator) == [("USER", "first"), ("USER", "second"), ("ASSISTANT", "yes")]


async def test_b14_spaces_around_a_prompt_stay() -> None:
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider)
    await orchestrator.prompt("  Hi\n")
    assert said(orchestrator)[0] == ("USER", "  Hi\n")
    assert provider.requests[0].messages[0]["content"] == "  Hi\n"
