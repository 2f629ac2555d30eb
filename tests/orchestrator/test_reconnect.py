"""Saved states, pickles, and what is handed over afterwards: cases B62 to B73."""

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.orchestrator.fakes import (
    ECHO,
    NOTE,
    PICTURE,
    Cabinet,
    Recorder,
    Remembering,
    assistant,
    said,
    sent,
    shown,
    user,
)
from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import ChatMessage, ChatRole
from turnlog.services.orchestrator.conversation import AttachmentPlace
from turnlog.services.orchestrator.errors import AlreadyConnectedError, NotConnectedError, ProviderInUseError
from turnlog.services.orchestrator.exchange_events import RequestEvent, ResponseEvent
from turnlog.services.orchestrator.interceptors import PendingPrompt
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.providers.provider import ProviderError
from turnlog.services.providers.scripted import Scripted

HISTORY = [
    ChatMessage(ChatRole.USER, "Hi 🙂", "id-1", datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)),
    assistant("Hello"),
    user(""),
]
HEARD: list[object] = []


def hear(event: ResponseEvent | RequestEvent) -> None:
    HEARD.append(event)


def shout(prompt: PendingPrompt) -> None:
    prompt.replace(prompt.text.upper())


def dumped_and_loaded(orchestrator: Orchestrator) -> Orchestrator:
    return Orchestrator.load(json.loads(json.dumps(orchestrator.dump())))


def pickled(orchestrator: Orchestrator) -> Orchestrator:
    copy: Orchestrator = pickle.loads(pickle.dumps(orchestrator))  # noqa: S301 - just written
    return copy


@pytest.fixture(params=[dumped_and_loaded, pickled])
def restored(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 - a function
    return request.param


def conversation(**given: Any) -> Orchestrator:  # noqa: ANN401 - of the constructor
    return Orchestrator(Remembering(), "be kind", history=HISTORY, user_name="Ada", assistant_name="Bot", **given)


def test_b62_b71_a_round_trip_keeps_history_and_names(restored: Any) -> None:  # noqa: ANN401 - a function
    before = conversation()
    after = restored(before)
    assert after.get_history() == before.get_history()
    assert after.view() == before.view()
    assert after.dump() == before.dump()


def test_a_state_holds_what_is_needed_and_no_files() -> None:
    assert conversation(attachments={"id-1": [NOTE]}).dump() == {
        "version": 1,
        "system_prompt": "be kind",
        "user_name": "Ada",
        "assistant_name": "Bot",
        "history": [
            {"role": "USER", "content": "Hi 🙂", "message_id": "id-1", "time": "2026-01-02T03:04:05.678901+00:00"},
            {"role": "ASSISTANT", "content": "Hello", "message_id": None, "time": None},
            {"role": "USER", "content": "", "message_id": None, "time": None},
        ],
    }


def test_a_pickle_holds_no_files_and_neither_provider_nor_tools_nor_controller() -> None:
    before = conversation(attachments={"id-1": [NOTE]}, tools=[ECHO], controller=Cabinet(), recorder=Recorder())
    data = pickle.dumps(before)
    assert NOTE.data not in data
    for name in (b"Remembering", b"Cabinet", b"Recorder", b"echo"):
        assert name not in data


async def test_b63_a_prompt_before_the_reconnection_says_what_to_do(restored: Any) -> None:  # noqa: ANN401 - a function
    orchestrator = restored(conversation())
    with pytest.raises(NotConnectedError, match=r"call reconnect\(provider\)"):
        await orchestrator.prompt("Hi")
    assert len(orchestrator.get_history()) == 3


async def test_b64_b69_a_new_provider_is_told_the_history_and_nothing_else_changes(restored: Any) -> None:  # noqa: ANN401
    orchestrator = restored(conversation())
    provider = Remembering()
    view = orchestrator.view()
    reconnection = orchestrator.reconnect(provider)
    assert provider.remembered == []
    await reconnection.apply()
    assert provider.remembered == [(HISTORY, {})]
    assert orchestrator.get_history() == tuple(HISTORY)
    assert orchestrator.view() == view


async def test_b64_attachments_that_are_handed_over_reach_provider_and_view(restored: Any) -> None:  # noqa: ANN401
    orchestrator = restored(conversation(attachments={"id-1": [NOTE]}))
    assert orchestrator.view()[0].attachments == ()
    provider = Remembering()
    await orchestrator.reconnect(provider).with_attachments({"id-1": [PICTURE, NOTE], "id-9": [NOTE]}).apply()
    assert provider.remembered == [(HISTORY, {"id-1": [PICTURE, NOTE]})]
    assert orchestrator.view()[0].attachment_place(1) == AttachmentPlace("id-1", 1)


async def test_b65_an_empty_history_is_not_told() -> None:
    provider = Remembering()
    await dumped_and_loaded(Orchestrator(Remembering())).reconnect(provider).with_attachments({"id-1": [NOTE]}).apply()
    assert provider.remembered == []


async def test_b66_a_connected_orchestrator_cannot_be_reconnected() -> None:
    orchestrator = conversation()
    with pytest.raises(AlreadyConnectedError):
        orchestrator.reconnect(Remembering())
    loaded = dumped_and_loaded(orchestrator)
    with pytest.raises(TypeError, match="provider must not be None"):
        loaded.reconnect(None)  # type: ignore[arg-type]  # what is tested
    early, late = loaded.reconnect(Remembering()), loaded.reconnect(Remembering())
    await early.apply()
    with pytest.raises(AlreadyConnectedError):
        await late.apply()


@pytest.mark.parametrize("name", ["tools", "controller", "attachments", "recorder"])
def test_b66_none_cannot_be_handed_over(name: str) -> None:
    reconnection = dumped_and_loaded(conversation()).reconnect(Remembering())
    with pytest.raises(TypeError, match=f"^{name} must not be None"):
        getattr(reconnection, f"with_{name}")(None)


async def test_b68_tools_controller_and_recorder_are_there_only_if_handed_over(restored: Any) -> None:  # noqa: ANN401
    def before() -> Orchestrator:
        return conversation(tools=[ECHO], controller=Cabinet(), recorder=Recorder())

    bare = Remembering(["yes"])
    orchestrator = restored(before())
    await orchestrator.reconnect(bare).apply()
    await orchestrator.prompt("Hi")
    assert bare.requests[0].tools == ()

    full, cabinet, recorder = Remembering(["yes"]), Cabinet(), Recorder()
    orchestrator = restored(before())
    reconnection = orchestrator.reconnect(full).with_tools([ECHO]).with_controller(cabinet).with_recorder(recorder)
    await reconnection.apply()
    await orchestrator.prompt("Hi")
    assert [tool.name for tool in full.requests[0].tools] == ["echo", "drawer"]
    assert (len(cabinet.requests), len(cabinet.responses), recorder.calls) == (1, 1, ["started", "finished"])


async def test_b71_a_pickle_keeps_listeners_interceptors_and_the_time_limit() -> None:
    HEARD.clear()
    before = conversation(
        interceptors=[shout], request_listeners=[hear], response_listeners=[hear], response_timeout_s=7.0
    )
    after = pickled(before)
    await after.reconnect(Remembering(["yes"])).apply()
    await after.prompt("again")
    assert [type(event) for event in HEARD] == [RequestEvent, ResponseEvent]
    assert said(after)[-2] == ("USER", "AGAIN")
    assert after._response_timeout_s == 7.0


async def test_b71_listeners_that_do_not_pickle_are_left_behind() -> None:
    HEARD.clear()
    after = pickled(conversation(response_listeners=[lambda _: HEARD.append("lost"), hear]))
    await after.reconnect(Remembering(["yes"])).apply()
    await after.prompt("again")
    assert [type(event) for event in HEARD] == [ResponseEvent]


async def test_b71_a_saved_state_keeps_no_listeners() -> None:
    HEARD.clear()
    after = dumped_and_loaded(conversation(response_listeners=[hear]))
    await after.reconnect(Remembering(["yes"])).apply()
    await after.prompt("again")
    assert HEARD == []


class Page:
    """Listens to the orchestrator that it owns."""

    pickled = 0

    def __init__(self) -> None:
        self.heard = 0
        self.orchestrator = Orchestrator(Remembering(["one"]), response_listeners=[self.listen])

    def listen(self, _event: ResponseEvent) -> None:
        self.heard += 1

    def __getstate__(self) -> dict[str, Any]:
        type(self).pickled += 1
        return self.__dict__


async def test_b71_an_object_that_listens_to_its_own_orchestrator_is_pickled_as_one() -> None:
    page: Page = pickle.loads(pickle.dumps(Page()))  # noqa: S301 - just written
    await page.orchestrator.reconnect(Remembering(["two"])).apply()
    await page.orchestrator.prompt("Hi")
    assert page.heard == 1
    assert Page.pickled == 2, "once to see whether it pickles, once for good"


async def test_b69_a_pickle_keeps_what_was_shown_instead_of_an_answer() -> None:
    orchestrator = Orchestrator(Scripted([ProviderError("no luck")]))
    with pytest.raises(ProviderError):
        await orchestrator.prompt("Hi")
    assert shown(pickled(orchestrator)) == shown(orchestrator)
    assert shown(dumped_and_loaded(orchestrator)) == [("You", "Hi")]


async def test_b72_after_a_reconnection_the_same_history_grows(restored: Any) -> None:  # noqa: ANN401 - a function
    orchestrator = restored(conversation())
    provider = Scripted(["yes"])
    await orchestrator.reconnect(provider).apply()
    await orchestrator.prompt("And?")
    assert said(orchestrator)[3:] == [("USER", "And?"), ("ASSISTANT", "yes")]
    assert [message["content"] for message in sent(provider)] == ["be kind", "Hi 🙂", "Hello", "", "And?"]


async def test_b73_a_provider_that_refuses_the_history_leaves_all_as_it_was_and_is_free(restored: Any) -> None:  # noqa: ANN401
    orchestrator = restored(conversation())
    refusing = Remembering(["yes"], refusal=RuntimeError("too much"))
    with pytest.raises(RuntimeError, match="too much"):
        await orchestrator.reconnect(refusing).apply()
    with pytest.raises(NotConnectedError):
        await orchestrator.prompt("Hi")
    refusing.refusal = None
    await orchestrator.reconnect(refusing).apply()
    await orchestrator.prompt("Hi")
    assert len(orchestrator.get_history()) == 5


async def test_a_provider_in_use_cannot_be_handed_over() -> None:
    provider = Remembering()
    first = Orchestrator(provider)
    with pytest.raises(ProviderInUseError):
        await dumped_and_loaded(conversation()).reconnect(provider).apply()
    assert provider.remembered == [([], {})]
    assert first.get_history() == ()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "version must be 1"),
        ({"system_prompt": None}, "system_prompt must be a string"),
        ({"user_name": 7}, "user_name must be a string"),
        ({"history": {}}, "history must be an array"),
        ({"history": [7]}, r"history\[0\] must be an object"),
        ({"history": [{"role": "user", "content": ""}]}, r"history\[0\].role must be USER or ASSISTANT"),
        ({"history": [{"role": [], "content": ""}]}, r"history\[0\].role must be USER or ASSISTANT"),
        ({"history": [{"role": "USER"}]}, r"history\[0\].content must be a string"),
        ({"history": [{"role": "USER", "content": "", "time": "noon"}]}, r"history\[0\].time must be"),
        ({"history": [{"role": "USER", "content": "", "time": 7}]}, r"history\[0\].time must be"),
        (
            {"history": [{"role": "USER", "content": "", "time": "2026-01-02T03:04:05"}]},
            r"history\[0\].time must carry",
        ),
    ],
)
def test_a_broken_state_is_refused_by_name(change: dict[str, Any], text: str) -> None:
    with pytest.raises(BadInput, match=f"^{text}"):
        Orchestrator.load({**conversation().dump(), **change})
    with pytest.raises(BadInput, match="state must be an object"):
        Orchestrator.load([])  # type: ignore[arg-type]  # what is tested
