"""Prompts that their caller gives up (orchestrator.md, "A turn", last row)."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest
from structlog.testing import capture_logs

from tests.orchestrator.fakes import USED, WAIT_S, Breaking, Cabinet, Gated, Recorder, said, shown
from turnlog.services.orchestrator import grace, listening, prompt_turn
from turnlog.services.orchestrator.errors import PromptCancelledError
from turnlog.services.orchestrator.exchange_events import ResponseEvent
from turnlog.services.orchestrator.interceptors import PendingPrompt
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.providers.provider import ProviderError, ProviderRequest
from turnlog.services.providers.scripted import Scripted

Cancel = Callable[[Orchestrator, anyio.Event], Awaitable[None]]


async def by_scope(orchestrator: Orchestrator, when: anyio.Event) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orchestrator.prompt, "Hi")
        with anyio.fail_after(WAIT_S):
            await when.wait()
        tasks.cancel_scope.cancel()


async def by_task(orchestrator: Orchestrator, when: anyio.Event) -> None:
    task = asyncio.ensure_future(orchestrator.prompt("Hi"))
    with anyio.fail_after(WAIT_S):
        await when.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture(params=[by_scope, by_task])
def cancel(request: pytest.FixtureRequest) -> Cancel:
    given: Cancel = request.param
    return given


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (listening, prompt_turn):
        monkeypatch.setattr(module, "GRACE_S", 0.05)
    monkeypatch.setattr(grace.with_grace, "__defaults__", (0.05,))


async def test_a_cancelled_answer_is_recorded_as_far_as_it_came_and_leaves_the_user_alone(cancel: Cancel) -> None:
    provider = Gated("so", " far", USED)
    recorder, cabinet = Recorder(), Cabinet()
    events: list[ResponseEvent] = []

    async def listen(event: ResponseEvent) -> None:
        await anyio.lowlevel.checkpoint()
        assert len(recorder.ends) == 1
        events.append(event)

    orchestrator = Orchestrator(
        provider, recorder=recorder, response_listeners=[listen, events.append], controller=cabinet
    )
    await cancel(orchestrator, provider.waiting)
    assert said(orchestrator) == [("USER", "Hi")]
    assert shown(orchestrator) == [("You", "Hi"), ("Assistant", "The answer was interrupted.")]
    (end,) = recorder.ends
    assert (end.outcome, end.text, end.error) == ("interrupted", "so far", "the prompt was cancelled")
    assert [(event.response, type(event.error), event.metadata) for event in events] == [
        ("", PromptCancelledError, USED)
    ] * 2
    assert len(cabinet.responses) == 1
    assert provider.is_closed


async def test_a_cancelled_prompt_frees_the_orchestrator(cancel: Cancel) -> None:
    provider = Gated("so far")
    orchestrator = Orchestrator(provider)
    await cancel(orchestrator, provider.waiting)
    provider.go_on.set()
    await orchestrator.prompt("again")
    assert said(orchestrator) == [("USER", "Hi"), ("USER", "again"), ("ASSISTANT", "so far and more")]


async def test_a_start_that_is_recorded_although_cancelled_is_ended_too(cancel: Cancel) -> None:
    recording = anyio.Event()

    async def take_a_while() -> None:
        recording.set()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    provider, recorder = Scripted(["never"]), Recorder(on_started=take_a_while)
    orchestrator = Orchestrator(provider, recorder=recorder)
    await cancel(orchestrator, recording)
    assert said(orchestrator) == [("USER", "Hi")]
    assert [(end.outcome, end.text) for end in recorder.ends] == [("interrupted", "")]
    assert provider.requests == []


async def test_an_answer_that_is_recorded_although_cancelled_is_kept_and_told(cancel: Cancel) -> None:
    recording = anyio.Event()
    events: list[ResponseEvent] = []

    async def take_a_while() -> None:
        recording.set()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    recorder = Recorder(on_finished=take_a_while)
    orchestrator = Orchestrator(Scripted(["yes"]), recorder=recorder, response_listeners=[events.append])
    await cancel(orchestrator, recording)
    assert said(orchestrator) == [("USER", "Hi"), ("ASSISTANT", "yes")]
    assert [(event.response, event.error) for event in events] == [("yes", None)]
    assert [end.outcome for end in recorder.ends] == ["ok"]


@pytest.mark.usefixtures("short_grace")
async def test_a_start_that_takes_too_long_after_a_cancellation_leaves_nothing(cancel: Cancel) -> None:
    recording = anyio.Event()
    events: list[ResponseEvent] = []

    async def take_for_ever() -> None:
        recording.set()
        await anyio.sleep_forever()

    recorder = Recorder(on_started=take_for_ever)
    orchestrator = Orchestrator(Scripted([]), recorder=recorder, response_listeners=[events.append])
    with anyio.fail_after(WAIT_S):
        await cancel(orchestrator, recording)
    assert (orchestrator.get_history(), recorder.calls) == ((), ["started"])
    assert [type(event.error) for event in events] == [PromptCancelledError]


@pytest.mark.usefixtures("short_grace")
async def test_an_end_that_takes_too_long_after_a_cancellation_is_logged_and_told(cancel: Cancel) -> None:
    provider = Gated("so far")
    events: list[ResponseEvent] = []
    recorder = Recorder(on_finished=anyio.sleep_forever)
    orchestrator = Orchestrator(provider, recorder=recorder, response_listeners=[events.append])
    with capture_logs() as logs, anyio.fail_after(WAIT_S):
        await cancel(orchestrator, provider.waiting)
    assert [line["event"] for line in logs] == ["turn_end_not_recorded"]
    assert (recorder.ends, len(events)) == ([], 1)


@pytest.mark.usefixtures("short_grace")
async def test_a_cancelled_listener_keeps_no_other_from_being_told(cancel: Cancel) -> None:
    listening_now = anyio.Event()
    calls: list[str] = []

    async def take_for_ever(_event: ResponseEvent) -> None:
        calls.append("first")
        listening_now.set()
        await anyio.sleep_forever()

    async def listen(event: ResponseEvent) -> None:
        await anyio.lowlevel.checkpoint()
        calls.append(event.response)

    orchestrator = Orchestrator(Scripted(["yes"]), response_listeners=[take_for_ever, listen])
    with anyio.fail_after(WAIT_S):
        await cancel(orchestrator, listening_now)
    assert calls == ["first", "yes"]
    assert len(orchestrator.get_history()) == 2


async def test_a_prompt_cancelled_while_postponed_leaves_nothing(cancel: Cancel) -> None:
    postponed = anyio.Event()
    events: list[ResponseEvent] = []

    async def postpone(prompt: PendingPrompt) -> None:
        prompt.postpone()
        postponed.set()

    orchestrator = Orchestrator(
        Scripted(["never"]), interceptors=[postpone], response_listeners=[events.append], recorder=Recorder()
    )
    await cancel(orchestrator, postponed)
    assert (orchestrator.get_history(), orchestrator.view()) == ((), ())
    assert [type(event.error) for event in events] == [PromptCancelledError]


@pytest.mark.usefixtures("short_grace")
async def test_without_a_cancellation_the_end_of_a_failed_turn_has_the_time_it_needs() -> None:
    async def take_longer_than_the_grace() -> None:
        await anyio.sleep(0.15)

    recorder = Recorder(on_finished=take_longer_than_the_grace)
    with pytest.raises(ProviderError):
        await Orchestrator(Breaking(ProviderError("no luck")), recorder=recorder).prompt("Hi")
    assert [end.outcome for end in recorder.ends] == ["failed"]


async def test_a_failure_that_is_being_recorded_when_the_caller_cancels_is_still_told_as_a_failure(
    cancel: Cancel,
) -> None:
    recording = anyio.Event()
    events: list[ResponseEvent] = []

    async def take_a_while() -> None:
        recording.set()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    error = ProviderError("no luck")
    recorder = Recorder(on_finished=take_a_while)
    orchestrator = Orchestrator(Breaking(error), recorder=recorder, response_listeners=[events.append])
    await cancel(orchestrator, recording)
    assert [event.error for event in events] == [error]
    assert [end.outcome for end in recorder.ends] == ["failed"]


async def test_a_sync_listener_that_does_not_end_keeps_no_caller_from_leaving() -> None:
    let_on = threading.Event()
    loop, begun = asyncio.get_running_loop(), anyio.Event()

    def wait(_event: ResponseEvent) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert let_on.wait(WAIT_S)

    orchestrator = Orchestrator(Scripted(["yes"]), response_listeners=[wait])
    try:
        with anyio.fail_after(WAIT_S / 2):
            await by_scope(orchestrator, begun)
    finally:
        let_on.set()
    assert len(orchestrator.get_history()) == 2


class Answer:
    """An answer that is no generator: nobody closes it unless told to."""

    def __init__(self) -> None:
        self.waiting = anyio.Event()
        self.is_closed = False

    def stream(self, _request: ProviderRequest) -> "Answer":
        return self

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> str:
        self.waiting.set()
        await anyio.sleep_forever()
        return ""

    async def aclose(self) -> None:
        self.is_closed = True


async def test_whatever_iterator_an_answer_is_it_is_closed_when_the_caller_leaves(cancel: Cancel) -> None:
    answer = Answer()
    await cancel(Orchestrator(answer), answer.waiting)
    assert answer.is_closed
