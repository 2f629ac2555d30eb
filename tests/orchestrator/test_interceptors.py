"""Prompts replaced, rejected, postponed: cases B79 to B81."""

import threading
from collections.abc import Callable

import anyio
import pytest
from structlog.testing import capture_logs

from tests.orchestrator.fakes import NOTE, WAIT_S, said, sent, shown
from turnlog.domain.errors import BadInput
from turnlog.services.orchestrator.errors import PromptTimeoutError
from turnlog.services.orchestrator.exchange_events import RequestEvent, ResponseEvent
from turnlog.services.orchestrator.interceptors import PendingPrompt, Postponement
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.providers.scripted import Scripted


async def test_b79_a_replacement_is_what_everybody_sees() -> None:
    requests: list[RequestEvent] = []

    def shout(prompt: PendingPrompt) -> None:
        prompt.replace(prompt.text.upper())

    async def exclaim(prompt: PendingPrompt) -> None:
        prompt.replace(prompt.text + "!")

    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider, interceptors=[shout, exclaim], request_listeners=[requests.append])
    await orchestrator.prompt("hi", [NOTE])
    assert requests[0].text == "HI!"
    assert said(orchestrator)[0] == ("USER", "HI!")
    assert shown(orchestrator)[0] == ("You", "HI!")
    assert sent(provider)[0]["content"][0] == {"type": "text", "text": "HI!"}


async def test_b40_b80_a_rejected_prompt_leaves_no_trace_and_the_next_is_taken() -> None:
    rejecting = [True]
    events: list[ResponseEvent] = []

    def reject_once(prompt: PendingPrompt) -> None:
        if rejecting:
            rejecting.pop()
            prompt.reject()

    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider, interceptors=[reject_once], response_listeners=[events.append])
    await orchestrator.prompt("first")
    assert (orchestrator.get_history(), orchestrator.view(), provider.requests, events) == ((), (), [], [])
    await orchestrator.prompt("second")
    assert said(orchestrator) == [("USER", "second"), ("ASSISTANT", "yes")]


async def test_b80_a_reason_is_shown_under_the_prompt_as_it_was_written() -> None:
    def reject(prompt: PendingPrompt) -> None:
        prompt.replace("something else")
        prompt.reject("That is private.")

    def never(_prompt: PendingPrompt) -> None:
        raise AssertionError("asked after a rejection")

    orchestrator = Orchestrator(Scripted([]), interceptors=[reject, never])
    await orchestrator.prompt("my number")
    assert orchestrator.get_history() == ()
    assert shown(orchestrator) == [("You", "my number"), ("Assistant", "That is private.")]


class Postponing:
    """Postpones what comes, and says so."""

    def __init__(self) -> None:
        self.has_postponed = anyio.Event()
        self.prompt: PendingPrompt | None = None
        self.postponement: Postponement | None = None

    async def __call__(self, prompt: PendingPrompt) -> None:
        self.prompt, self.postponement = prompt, prompt.postpone()
        self.has_postponed.set()


async def decided(decide: Callable[[PendingPrompt, Postponement], None]) -> tuple[Orchestrator, list[ResponseEvent]]:
    """Postpone a prompt, drop one meanwhile, then decide."""
    events: list[ResponseEvent] = []
    postponing = Postponing()
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider, interceptors=[postponing], response_listeners=[events.append])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orchestrator.prompt, "first")
        with anyio.fail_after(WAIT_S):
            await postponing.has_postponed.wait()
        with capture_logs() as logs:
            await orchestrator.prompt("meanwhile")
        assert [line["event"] for line in logs] == ["prompt_dropped"]
        assert (orchestrator.get_history(), provider.requests) == ((), [])
        assert postponing.prompt is not None and postponing.postponement is not None
        decide(postponing.prompt, postponing.postponement)
    return orchestrator, events


async def test_b81_a_postponed_prompt_goes_on_when_told_to() -> None:
    orchestrator, events = await decided(lambda _, postponement: postponement.proceed())
    assert said(orchestrator) == [("USER", "first"), ("ASSISTANT", "yes")]
    assert len(events) == 1


async def test_b81_a_postponed_prompt_may_be_let_on_from_a_thread_with_another_text() -> None:
    def decide(prompt: PendingPrompt, postponement: Postponement) -> None:
        def let_on() -> None:
            prompt.replace("better")
            postponement.proceed()
            postponement.fail(RuntimeError("too late"))

        threading.Thread(target=let_on).start()

    orchestrator, _ = await decided(decide)
    assert said(orchestrator) == [("USER", "better"), ("ASSISTANT", "yes")]


async def test_b81_a_postponed_prompt_may_still_be_rejected() -> None:
    def decide(prompt: PendingPrompt, postponement: Postponement) -> None:
        prompt.reject()
        postponement.proceed()

    orchestrator, events = await decided(decide)
    assert (orchestrator.get_history(), events) == ((), [])


async def test_b81_a_postponed_prompt_may_fail() -> None:
    error = RuntimeError("checked, and refused")
    with pytest.RaisesGroup(RuntimeError):
        await decided(lambda _, postponement: postponement.fail(error))


@pytest.mark.parametrize("fails", [True, False])
async def test_b81_a_failed_or_forgotten_postponement_leaves_an_empty_history(fails: bool) -> None:
    error = RuntimeError("checked, and refused")
    events: list[ResponseEvent] = []

    def postpone(prompt: PendingPrompt) -> None:
        postponement = prompt.postpone()
        if fails:
            postponement.fail(error)

    orchestrator = Orchestrator(
        Scripted([]), interceptors=[postpone], response_listeners=[events.append], response_timeout_s=0.02
    )
    with pytest.raises(RuntimeError if fails else PromptTimeoutError) as raised:
        await orchestrator.prompt("Hi")
    assert (orchestrator.get_history(), orchestrator.view()) == ((), ())
    assert [(event.response, event.error) for event in events] == [("", raised.value)]


async def test_an_interceptor_that_raises_stops_the_prompt_and_not_the_next() -> None:
    events: list[ResponseEvent] = []

    def replace_by_nothing(prompt: PendingPrompt) -> None:
        if prompt.text == "first":
            prompt.replace("  ")

    orchestrator = Orchestrator(
        Scripted(["yes"]), interceptors=[replace_by_nothing], response_listeners=[events.append]
    )
    with pytest.raises(BadInput, match="text must be a string that isn't blank") as raised:
        await orchestrator.prompt("first")
    assert orchestrator.get_history() == ()
    assert [event.error for event in events] == [raised.value]
    await orchestrator.prompt("second")
    assert len(orchestrator.get_history()) == 2
