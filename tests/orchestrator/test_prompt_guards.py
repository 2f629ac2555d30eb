"""Prompts that don't begin a turn: cases B16 to B22, B40, B63."""

import anyio
import pytest
from structlog.testing import capture_logs

from tests.orchestrator.fakes import WAIT_S, Breaking, Gated, said
from turnlog.domain.errors import BadInput
from turnlog.services.orchestrator.errors import NotConnectedError
from turnlog.services.orchestrator.exchange_events import RequestEvent, ResponseEvent
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.providers.provider import ProviderError
from turnlog.services.providers.scripted import Scripted


@pytest.mark.parametrize("text", [None, "", "   ", "\n\t"])
async def test_b16_b40_a_blank_prompt_does_nothing(text: str | None) -> None:
    provider = Scripted([])
    requests: list[RequestEvent] = []
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(
        provider, request_listeners=[requests.append], response_listeners=[events.append], interceptors=[_never]
    )
    await orchestrator.prompt(text)
    assert (orchestrator.get_history(), requests, events, provider.requests) == ((), [], [], [])


def _never(_prompt: object) -> None:
    raise AssertionError("a blank prompt reached an interceptor")


async def test_b16_blankness_is_judged_before_all_else() -> None:
    restored = Orchestrator.load(Orchestrator(Scripted([])).dump())
    await restored.prompt(" ", None)  # type: ignore[arg-type]  # wrong too, but not looked at
    with pytest.raises(NotConnectedError):
        await restored.prompt("Hi", None)  # type: ignore[arg-type]  # as above


async def test_b17_b40_a_prompt_during_another_is_dropped_with_a_warning() -> None:
    provider = Gated("one")
    requests: list[RequestEvent] = []
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(provider, request_listeners=[requests.append], response_listeners=[events.append])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orchestrator.prompt, "first")
        with anyio.fail_after(WAIT_S):
            await provider.waiting.wait()
        with capture_logs() as logs:
            await orchestrator.prompt("second")
        assert [(line["event"], line["log_level"]) for line in logs] == [("prompt_dropped", "warning")]
        assert events == []
        provider.go_on.set()
    assert said(orchestrator) == [("USER", "first"), ("ASSISTANT", "one and more")]
    assert (provider.asked, len(requests), len(events)) == (1, 1, 1)


async def test_b18_after_an_answer_or_a_failure_the_next_prompt_is_taken() -> None:
    orchestrator = Orchestrator(Scripted(["one", ProviderError("no luck"), "three"]))
    await orchestrator.prompt("first")
    with pytest.raises(ProviderError):
        await orchestrator.prompt("second")
    await orchestrator.prompt("third")
    assert said(orchestrator)[-1] == ("ASSISTANT", "three")


async def test_b21_a_response_listener_may_prompt_again() -> None:
    answers: list[str] = []

    async def ask_once_more(event: ResponseEvent) -> None:
        answers.append(event.response)
        if len(answers) == 1:
            await orchestrator.prompt("second")

    orchestrator = Orchestrator(Scripted(["one", "two"]), response_listeners=[ask_once_more])
    await orchestrator.prompt("first")
    assert answers == ["one", "two"]
    assert said(orchestrator) == [
        ("USER", "first"),
        ("ASSISTANT", "one"),
        ("USER", "second"),
        ("ASSISTANT", "two"),
    ]


async def test_b21_a_listener_may_prompt_again_after_a_failure() -> None:
    async def ask_once_more(event: ResponseEvent) -> None:
        if event.error is not None:
            await orchestrator.prompt("again")

    orchestrator = Orchestrator(Scripted([ProviderError("no luck"), "yes"]), response_listeners=[ask_once_more])
    with pytest.raises(ProviderError):
        await orchestrator.prompt("first")
    assert said(orchestrator) == [("USER", "first"), ("USER", "again"), ("ASSISTANT", "yes")]


class Grave(BaseException):
    """Worse than an error."""


async def test_b22_what_is_worse_than_an_error_frees_the_orchestrator_too() -> None:
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(Breaking(Grave()), response_listeners=[events.append])
    for _ in range(2):
        with pytest.raises(Grave):
            await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi"), ("USER", "Hi")]
    assert [type(event.error) for event in events] == [Grave, Grave]


async def test_a_prompt_that_is_no_text_is_refused() -> None:
    orchestrator = Orchestrator(Scripted(["yes"]))
    with pytest.raises(BadInput, match="text"):
        await orchestrator.prompt(7)  # type: ignore[arg-type]  # what is tested
    await orchestrator.prompt("Hi")
    assert len(orchestrator.get_history()) == 2
