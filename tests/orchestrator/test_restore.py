"""A conversation that goes on from a saved history: cases B43 to B61."""

import gc
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.orchestrator.fakes import (
    NOTE,
    PICTURE,
    Cabinet,
    Remembering,
    assistant,
    call,
    said,
    sent,
    shown,
    user,
)
from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import ChatMessage, ChatRole
from turnlog.services.orchestrator.conversation import AttachmentPlace
from turnlog.services.orchestrator.errors import MissingArgumentError, ProviderInUseError
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.orchestrator.windowed_provider import WindowedProvider
from turnlog.services.providers.provider import ProviderRequest
from turnlog.services.providers.scripted import Scripted

EXCHANGE = [user("Hi", "id-1"), assistant("Hello")]


def test_b43_the_provider_is_told_the_history_once_and_the_history_is_as_given() -> None:
    provider = Remembering()
    orchestrator = Orchestrator(provider, history=EXCHANGE, attachments={"id-1": [NOTE]})
    assert provider.remembered == [(EXCHANGE, {"id-1": [NOTE]})]
    assert orchestrator.get_history() == tuple(EXCHANGE)


@pytest.mark.parametrize("field", ["history", "attachments"])
def test_b44_none_is_refused(field: str) -> None:
    given: dict[str, Any] = {field: None}
    with pytest.raises(MissingArgumentError, match=f"^{field} must not be None"):
        Orchestrator(Remembering(), **given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"history": [user("Hi"), {"role": "USER"}]}, r"history\[1\] must be a ChatMessage"),
        ({"attachments": [NOTE]}, "attachments must be a mapping"),
        ({"attachments": {"id-1": None}}, r"attachments\['id-1'\] must not be None"),
        ({"attachments": {"id-1": [None]}}, r"attachments\['id-1'\]\[0\] must not be None"),
        ({"system_prompt": None}, "system_prompt must be a string"),
        ({"user_name": None}, "user_name must be a string"),
        ({"assistant_name": 7}, "assistant_name must be a string"),
        ({"response_timeout_s": 0}, "response_timeout_s must be"),
        ({"response_timeout_s": float("nan")}, "response_timeout_s must be"),
    ],
)
def test_what_breaks_a_rule_is_named_and_the_provider_stays_free(given: dict[str, Any], text: str) -> None:
    provider = Remembering()
    with pytest.raises(BadInput, match=f"^{text}"):
        Orchestrator(provider, **given)
    assert provider.remembered == []
    Orchestrator(provider)


def test_b45_an_empty_history_is_told_too() -> None:
    provider = Remembering()
    orchestrator = Orchestrator(provider, history=[], attachments={})
    assert provider.remembered == [([], {})]
    assert orchestrator.get_history() == ()


def test_b46_b47_the_view_is_filled_in_order_with_names_and_the_times_that_are_known() -> None:
    time = datetime(2026, 1, 2, tzinfo=UTC)
    history = [ChatMessage(ChatRole.USER, "Hi", "id-1", time), assistant("Hello")]
    orchestrator = Orchestrator(Remembering(), history=history, user_name="Ada", assistant_name="Bot")
    assert shown(orchestrator) == [("Ada", "Hi"), ("Bot", "Hello")]
    assert [item.time for item in orchestrator.view()] == [time, None]


async def test_b46_names_and_times_of_live_messages_are_shown_too() -> None:
    orchestrator = Orchestrator(Scripted(["Hello"]), user_name="Ada", assistant_name="Bot")
    await orchestrator.prompt("Hi")
    assert shown(orchestrator) == [("Ada", "Hi"), ("Bot", "Hello")]
    assert [item.time for item in orchestrator.view()] == [message.time for message in orchestrator.get_history()]
    assert None not in {item.time for item in orchestrator.view()}


async def test_b48_restored_attachments_reach_view_and_provider() -> None:
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider, history=EXCHANGE, attachments={"id-1": [PICTURE, NOTE]})
    assert orchestrator.view()[0].attachments == (PICTURE, NOTE)
    await orchestrator.prompt("And?")
    assert [part["type"] for part in sent(provider)[0]["content"]] == ["text", "image_url", "text"]
    assert [message["role"] for message in sent(provider)] == ["user", "assistant", "user"]


def test_b49_attachments_of_unknown_and_assistant_messages_are_ignored() -> None:
    provider = Remembering()
    history = [user("Hi"), ChatMessage(ChatRole.ASSISTANT, "Hello", "id-2")]
    attachments: Any = {"id-2": [NOTE], "id-9": [NOTE], None: [NOTE]}
    orchestrator = Orchestrator(provider, history=history, attachments=attachments)
    assert provider.remembered == [(history, {})]
    assert [item.attachments for item in orchestrator.view()] == [(), ()]


def test_b50_a_click_on_a_restored_attachment_gives_its_message() -> None:
    orchestrator = Orchestrator(Remembering(), history=EXCHANGE, attachments={"id-1": [PICTURE, NOTE]})
    assert orchestrator.view()[0].attachment_place(1) == AttachmentPlace("id-1", 1)


async def test_b51_a_history_is_longer_than_what_a_provider_remembers() -> None:
    history = [message for number in range(20) for message in (user(f"q{number}", str(number)), assistant("a"))]
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider, history=history)
    assert orchestrator.get_history() == tuple(history)
    await orchestrator.prompt("And?")
    assert len(sent(provider)) <= 30
    assert len(orchestrator.get_history()) == 42


def test_b52_a_provider_that_refuses_the_history_can_be_used_again() -> None:
    provider = Remembering(refusal=RuntimeError("too much"))
    with pytest.raises(RuntimeError, match="too much") as raised:
        Orchestrator(provider, history=EXCHANGE)
    provider.refusal = None
    assert Orchestrator(provider, history=EXCHANGE).get_history() == tuple(EXCHANGE)
    assert raised.value.__traceback__ is not None, "what failed is still referred to, and yet holds nothing"


async def test_b53_b54_a_provider_whose_memory_lives_elsewhere_may_ignore_the_history() -> None:
    class Elsewhere(Scripted):
        def set_history(self, *_arguments: object) -> None:
            pass

    provider = Elsewhere(["yes"])
    orchestrator = Orchestrator(provider, "be kind", history=EXCHANGE)
    assert shown(orchestrator) == [("You", "Hi"), ("Assistant", "Hello")]
    await orchestrator.prompt("And?")
    assert sent(provider) == [{"role": "system", "content": "be kind"}, {"role": "user", "content": "And?"}]


async def test_b55_new_messages_follow_the_restored_ones() -> None:
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider, "be kind", history=EXCHANGE)
    await orchestrator.prompt("And?")
    assert said(orchestrator) == [("USER", "Hi"), ("ASSISTANT", "Hello"), ("USER", "And?"), ("ASSISTANT", "yes")]
    assert sent(provider) == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "And?"},
    ]


async def test_b57_lists_may_change_after_they_were_handed_over() -> None:
    provider = Scripted(["yes"])
    history, files = list(EXCHANGE), [NOTE]
    attachments = {"id-1": files}
    orchestrator = Orchestrator(provider, history=history, attachments=attachments)
    history.clear()
    files.clear()
    attachments.clear()
    assert orchestrator.get_history() == tuple(EXCHANGE)
    await orchestrator.prompt("And?")
    assert len(sent(provider)[0]["content"]) == 2


def test_b58_messages_are_kept_as_given_without_inventing_ids() -> None:
    history = [user("a"), user("b"), assistant("c"), assistant("d"), user("")]
    assert Orchestrator(Remembering(), history=history).get_history() == tuple(history)


def test_b59_no_provider_is_refused() -> None:
    with pytest.raises(TypeError, match="provider must not be None"):
        Orchestrator(None)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(BadInput, match=r"provider must have a method stream"):
        Orchestrator("gpt")  # type: ignore[arg-type]  # what is tested


async def test_b60_a_provider_belongs_to_one_orchestrator_and_the_second_changes_nothing() -> None:
    provider = Remembering(["yes"])
    first = Orchestrator(provider, history=EXCHANGE)
    with pytest.raises(ProviderInUseError, match="belongs to another orchestrator"):
        Orchestrator(provider)
    assert provider.remembered == [(EXCHANGE, {})]
    await first.prompt("And?")
    assert len(first.get_history()) == 4


def test_b60_a_provider_is_free_once_its_orchestrator_is_gone() -> None:
    provider = Remembering()
    first = Orchestrator(provider)
    del first
    gc.collect()
    Orchestrator(provider)


async def test_b60_a_stateless_provider_is_shared_through_memories_of_its_own() -> None:
    shared = Scripted(["one", "two", "three"])
    first = Orchestrator(WindowedProvider(shared))
    second = Orchestrator(WindowedProvider(shared))
    await first.prompt("first")
    await second.prompt("second")
    assert sent(shared) == [{"role": "user", "content": "second"}]
    await first.prompt("third")
    assert [message["content"] for message in sent(shared)] == ["first", "one", "third"]


def test_b61_a_failed_construction_leaves_the_provider_free() -> None:
    provider = Remembering()
    with pytest.raises(TypeError):
        Orchestrator(provider, tools=[lambda text: text])
    Orchestrator(provider)


@pytest.mark.parametrize("system_prompt", ["", "  \n"])
async def test_b78_a_blank_system_prompt_is_not_sent(system_prompt: str) -> None:
    provider = Scripted(["yes"])
    await Orchestrator(provider, system_prompt).prompt("Hi")
    assert sent(provider) == [{"role": "user", "content": "Hi"}]


async def test_a_controllers_tools_are_offered_and_run() -> None:
    provider = Scripted([[call("drawer", '{"number":7}')], lambda request: str(last(request))])
    orchestrator = Orchestrator(provider, controller=Cabinet())
    await orchestrator.prompt("What is in drawer 7?")
    assert said(orchestrator)[1] == ("ASSISTANT", "drawer 7 is empty")


def last(request: ProviderRequest) -> str | None:
    return request.messages[-1]["content"]
