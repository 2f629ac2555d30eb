"""What a recorder is told, and what follows if it refuses (orchestrator.md, "A turn" and "Persistence")."""

import anyio
import pytest
from structlog.testing import capture_logs

from tests.orchestrator.fakes import ECHO, NOTE, USED, Breaking, Gated, Recorder, call, said
from turnlog.domain.errors import Unavailable
from turnlog.services.orchestrator.exchange_events import ResponseEvent
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.providers.provider import ProviderError
from turnlog.services.providers.scripted import Scripted


async def test_an_answered_turn_is_recorded_with_its_tool_exchanges_before_the_listener_hears_of_it() -> None:
    recorder = Recorder()
    recorded: list[int] = []

    async def listen(_event: ResponseEvent) -> None:
        recorded.append(len(recorder.ends))

    script = Scripted([["Let me see. ", call("echo", '{"text":"x"}')], ["It is x.", USED]])
    orchestrator = Orchestrator(script, tools=[ECHO], recorder=recorder, response_listeners=[listen])
    await orchestrator.prompt("What is it?", [NOTE])
    asked = orchestrator.get_history()[0]
    assert recorder.begun == [(asked, (NOTE,))]
    (end,) = recorder.ends
    assert (end.user_message, end.outcome, end.error) == (asked, "ok", None)
    assert end.text == "Let me see. It is x."
    assert end.metadata is USED
    assert [(message["role"], message["content"]) for message in end.messages] == [
        ("user", "What is it?"),
        ("assistant", "Let me see. "),
        ("tool", "x"),
        ("assistant", "It is x."),
    ]
    assert recorded == [1]


async def test_an_answer_without_text_is_recorded_without_an_assistant_message() -> None:
    recorder = Recorder()
    await Orchestrator(Scripted([[USED]]), recorder=recorder).prompt("Hi")
    (end,) = recorder.ends
    assert (end.outcome, end.text) == ("ok", "")
    assert [message["role"] for message in end.messages] == ["user"]


@pytest.mark.parametrize(
    ("error", "text"), [(ProviderError("no luck"), "no luck"), (RuntimeError("key=secret"), "RuntimeError")]
)
async def test_a_failed_turn_is_recorded_with_its_error_and_no_secrets(error: Exception, text: str) -> None:
    recorder = Recorder()
    with pytest.raises(type(error)):
        await Orchestrator(Breaking(error, "Hel", USED), recorder=recorder).prompt("Hi")
    (end,) = recorder.ends
    assert (end.outcome, end.text, end.error, end.metadata) == ("failed", "Hel", text, USED)
    assert [message["role"] for message in end.messages] == ["user"]


async def test_a_timeout_is_recorded_as_a_failure() -> None:
    recorder = Recorder()
    with pytest.raises(TimeoutError):
        await Orchestrator(Gated("Hel"), recorder=recorder, response_timeout_s=0.02).prompt("Hi")
    assert [(end.outcome, end.text) for end in recorder.ends] == [("failed", "Hel")]


async def test_a_start_that_is_not_recorded_leaves_nothing_and_is_raised() -> None:
    events: list[ResponseEvent] = []

    async def refuse() -> None:
        if not events:
            raise Unavailable("the log is away")

    provider = Scripted(["yes"])
    recorder = Recorder(on_started=refuse)
    orchestrator = Orchestrator(provider, recorder=recorder, response_listeners=[events.append])
    with pytest.raises(Unavailable) as raised:
        await orchestrator.prompt("Hi")
    assert (orchestrator.get_history(), orchestrator.view(), provider.requests) == ((), (), [])
    assert [(event.response, event.error) for event in events] == [("", raised.value)]
    assert recorder.calls == ["started"]
    await orchestrator.prompt("again")
    assert said(orchestrator) == [("USER", "again"), ("ASSISTANT", "yes")]


async def test_an_answer_that_is_not_recorded_is_not_remembered_and_the_failure_is_raised() -> None:
    events: list[ResponseEvent] = []

    async def refuse() -> None:
        raise Unavailable("the log is away")

    recorder = Recorder(on_finished=refuse)
    orchestrator = Orchestrator(Scripted(["yes"]), recorder=recorder, response_listeners=[events.append])
    with pytest.raises(Unavailable) as raised:
        await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi")]
    assert [(event.response, event.error) for event in events] == [("", raised.value)]
    assert recorder.calls == ["started", "finished"]


async def test_a_failure_that_is_not_recorded_is_logged_and_the_first_error_raised() -> None:
    async def refuse() -> None:
        raise Unavailable("the log is away")

    orchestrator = Orchestrator(Breaking(ProviderError("no luck")), recorder=Recorder(on_finished=refuse))
    with capture_logs() as logs, pytest.raises(ProviderError, match="no luck"):
        await orchestrator.prompt("Hi")
    assert [(line["event"], line["kind"]) for line in logs] == [("turn_end_not_recorded", "Unavailable")]


async def test_the_answer_is_in_the_history_only_once_it_is_recorded() -> None:
    lengths: list[int] = []

    async def look() -> None:
        await anyio.lowlevel.checkpoint()
        lengths.append(len(orchestrator.get_history()))

    orchestrator = Orchestrator(Scripted(["yes"]), recorder=Recorder(on_started=look, on_finished=look))
    await orchestrator.prompt("Hi")
    assert lengths == [0, 1]
    assert len(orchestrator.get_history()) == 2
