"""Who is told what, when, and on which thread: cases B24 to B26, B34 to B41."""

import threading
from functools import partial

import anyio
import anyio.from_thread
import pytest
from structlog.testing import capture_logs

from tests.orchestrator.fakes import NOTE, USED, WAIT_S, Breaking, Cabinet, Gated, Remembering, said, shown, user
from turnlog.domain.errors import BadInput
from turnlog.services.orchestrator.errors import PromptTimeoutError
from turnlog.services.orchestrator.exchange_events import RequestEvent, ResponseEvent
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.providers.provider import ProviderError, ResponseMetadata
from turnlog.services.providers.scripted import Scripted


def refuse(_event: object) -> None:
    raise RuntimeError("not today")


async def test_b24_b25_request_listeners_hear_every_prompt_with_the_id_that_it_will_have() -> None:
    requests: list[RequestEvent] = []
    orchestrator = Orchestrator(Scripted(["one", "two"]), request_listeners=[requests.append])
    await orchestrator.prompt("first")
    await orchestrator.prompt("second", [NOTE])
    history = orchestrator.get_history()
    assert [event.message_id for event in requests] == [history[0].message_id, history[2].message_id]
    assert [(event.text, event.attachments) for event in requests] == [("first", ()), ("second", (NOTE,))]


async def test_b26_a_request_listener_that_raises_stops_the_prompt_and_not_the_next() -> None:
    refusals = [RuntimeError("not today")]
    events: list[ResponseEvent] = []

    async def refuse_once(_event: RequestEvent) -> None:
        if refusals:
            raise refusals.pop()

    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider, request_listeners=[refuse_once], response_listeners=[events.append])
    with pytest.raises(RuntimeError, match="not today") as raised:
        await orchestrator.prompt("first")
    assert (orchestrator.get_history(), orchestrator.view(), provider.requests) == ((), (), [])
    assert [(event.response, event.error) for event in events] == [("", raised.value)]
    await orchestrator.prompt("second")
    assert said(orchestrator) == [("USER", "second"), ("ASSISTANT", "yes")]


async def test_b34_b35_response_listeners_hear_each_turn_once_in_order_with_the_history_complete() -> None:
    heard: list[tuple[str, BaseException | None, int]] = []

    def listen(event: ResponseEvent) -> None:
        heard.append((event.response, event.error, len(orchestrator.get_history())))

    orchestrator = Orchestrator(Scripted(["one", "two"]), response_listeners=[listen])
    await orchestrator.prompt("first")
    await orchestrator.prompt("second")
    assert heard == [("one", None, 2), ("two", None, 4)]


async def test_b36_a_response_listener_that_raises_is_logged_and_breaks_nothing() -> None:
    events: list[ResponseEvent] = []
    cabinet = Cabinet()
    orchestrator = Orchestrator(Scripted(["yes"]), response_listeners=[refuse, events.append], controller=cabinet)
    with capture_logs() as logs:
        await orchestrator.prompt("Hi")
    assert len(orchestrator.get_history()) == 2
    assert [event.response for event in events] == ["yes"]
    assert [event.response for event in cabinet.responses] == ["yes"]
    assert [(line["event"], line["kind"]) for line in logs] == [("response_listener_failed", "RuntimeError")]


async def test_b37_nobody_is_told_of_a_restore() -> None:
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(Remembering(), history=[user("Hi")], response_listeners=[events.append])
    restored = Orchestrator.load(orchestrator.dump(), response_listeners=[events.append])
    await restored.reconnect(Remembering()).apply()
    assert events == []


async def test_b38_an_event_carries_the_providers_own_metadata() -> None:
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(Scripted([["yes", USED], "no"]), response_listeners=[events.append])
    await orchestrator.prompt("first")
    await orchestrator.prompt("second")
    assert events[0].metadata is USED
    assert events[1].metadata == ResponseMetadata()


async def test_b38_a_failure_carries_the_metadata_seen_before_it() -> None:
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(Breaking(ProviderError("no"), "Hel", USED), response_listeners=[events.append])
    with pytest.raises(ProviderError):
        await orchestrator.prompt("Hi")
    assert events[0].metadata is USED


@pytest.mark.parametrize("parts", [(), ("Hel",)])
async def test_b39_a_provider_that_falls_silent_ends_in_a_timeout(parts: tuple[str, ...]) -> None:
    provider = Gated(*parts)
    events: list[ResponseEvent] = []
    orchestrator = Orchestrator(provider, response_timeout_s=0.02, response_listeners=[events.append])
    with pytest.raises(TimeoutError, match=r"no token for 0\.02 seconds"):
        await orchestrator.prompt("Hi")
    assert said(orchestrator) == [("USER", "Hi")]
    assert shown(orchestrator)[1] == ("Assistant", "The answer took too long. Please try again later.")
    assert [(event.response, type(event.error)) for event in events] == [("", PromptTimeoutError)]
    assert provider.is_closed


async def test_b39_every_token_starts_the_time_limit_anew() -> None:
    starts: list[float] = []

    class Slow:
        async def stream(self, _request: object):  # type: ignore[no-untyped-def]  # noqa: ANN202 - an async generator
            for _ in range(12):
                starts.append(anyio.current_time())
                yield "."
                await anyio.sleep(0.05)

    orchestrator = Orchestrator(Slow(), response_timeout_s=0.5)
    await orchestrator.prompt("Hi")
    assert said(orchestrator)[1] == ("ASSISTANT", "." * 12)
    assert starts[-1] - starts[0] > 0.5


async def test_b41_a_controller_that_raises_stops_the_prompt_before_the_request_listeners() -> None:
    requests: list[RequestEvent] = []
    events: list[ResponseEvent] = []
    refusal = RuntimeError("not now")
    cabinet = Cabinet(refusal)
    orchestrator = Orchestrator(
        Scripted([]), controller=cabinet, request_listeners=[requests.append], response_listeners=[events.append]
    )
    with pytest.raises(RuntimeError, match="not now"):
        await orchestrator.prompt("Hi")
    assert orchestrator.get_history() == ()
    assert requests == []
    assert [event.error for event in events] == [refusal]
    assert [event.error for event in cabinet.responses] == [refusal]


async def test_sync_listeners_run_in_a_thread_and_async_ones_on_the_event_loop() -> None:
    here = threading.get_ident()
    threads: dict[str, int] = {}

    def sync(name: str, _event: object) -> None:
        threads[name] = threading.get_ident()

    async def on_loop(name: str, _event: object) -> None:
        threads[name] = threading.get_ident()

    class Caller:
        async def __call__(self, _event: ResponseEvent) -> None:
            threads["object"] = threading.get_ident()

    orchestrator = Orchestrator(
        Scripted(["yes"]),
        interceptors=[partial(sync, "intercepted")],
        request_listeners=[partial(sync, "requested"), partial(on_loop, "requested async")],
        response_listeners=[partial(sync, "answered"), partial(on_loop, "answered async"), Caller()],
    )
    await orchestrator.prompt("Hi")
    assert {name for name, thread in threads.items() if thread == here} == {
        "requested async",
        "answered async",
        "object",
    }
    assert set(threads) >= {"intercepted", "requested", "answered"}


async def test_a_sync_listener_that_waits_holds_up_nobody_else() -> None:
    begun, let_on = threading.Event(), threading.Event()

    def wait(_event: ResponseEvent) -> None:
        begun.set()
        assert let_on.wait(WAIT_S)

    orchestrator = Orchestrator(Scripted(["yes"]), response_listeners=[wait])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orchestrator.prompt, "Hi")
        with anyio.fail_after(WAIT_S):
            while not begun.is_set():
                await anyio.sleep(0.001)
        assert len(orchestrator.get_history()) == 2
        let_on.set()


async def test_a_sync_listener_may_prompt_again_from_its_thread() -> None:
    def ask_once_more(event: ResponseEvent) -> None:
        if event.response == "one":
            anyio.from_thread.run(orchestrator.prompt, "second")

    orchestrator = Orchestrator(Scripted(["one", "two"]), response_listeners=[ask_once_more])
    await orchestrator.prompt("first")
    assert said(orchestrator)[-1] == ("ASSISTANT", "two")


def test_what_cannot_be_called_is_no_listener() -> None:
    with pytest.raises(BadInput, match="listeners must be functions"):
        Orchestrator(Scripted([]), response_listeners=[7])  # type: ignore[list-item]  # what is tested


@pytest.mark.parametrize(
    ("values", "field"),
    [((1, None, USED), "response"), (("", "oops", USED), "error"), (("", None, None), "metadata")],
)
def test_an_event_names_the_field_that_is_wrong(values: tuple[object, object, object], field: str) -> None:
    with pytest.raises(BadInput, match=f"^{field} must be"):
        ResponseEvent(*values)  # type: ignore[arg-type]  # what is tested
