"""The orchestrator: one person, one model, what they said, and who wants to know (orchestrator.md)."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import anyio
import structlog

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import Attachment, ChatMessage
from turnlog.services.agent.tools import Tool, ToolFunction
from turnlog.services.orchestrator.connection import Connection, checked_provider, connected
from turnlog.services.orchestrator.controller import Controller
from turnlog.services.orchestrator.conversation import Conversation, ViewItem
from turnlog.services.orchestrator.errors import AlreadyConnectedError, NotConnectedError
from turnlog.services.orchestrator.exchange_events import RequestListener, ResponseListener
from turnlog.services.orchestrator.given_values import (
    attachments_of,
    checked_attachments,
    checked_history,
    checked_timeout,
)
from turnlog.services.orchestrator.hooks import Hooks, checked_hooks
from turnlog.services.orchestrator.interceptors import Interceptor
from turnlog.services.orchestrator.listening import Announcement
from turnlog.services.orchestrator.llm_provider import AttachmentsByMessageId, LLMProvider
from turnlog.services.orchestrator.prompt_turn import PromptTurn, TurnSetting
from turnlog.services.orchestrator.reconnecting import Handover, Reconnection
from turnlog.services.orchestrator.recorder import TurnRecorder
from turnlog.services.orchestrator.saved_state import SavedState, dumped, loaded
from turnlog.services.providers.provider import Provider

RESPONSE_TIMEOUT_S = 600.0
USER_NAME = "You"
ASSISTANT_NAME = "Assistant"
NO_ATTACHMENTS: AttachmentsByMessageId = MappingProxyType({})

_log = structlog.get_logger(__name__)


class Orchestrator:
    """A conversation. One turn runs at a time; prompts meanwhile are dropped.

    A provider without `set_history` is given a memory (`WindowedProvider`); one that has it is told `history` and
    `attachments` (by message id; those of user messages count) at once. It belongs to this orchestrator for as long as
    that exists. A blank system prompt is not sent. `response_timeout_s` is the longest time in seconds without a token,
    tools that run meanwhile included, and without the decision on a postponed prompt. Without a `recorder` the history
    is kept in memory alone.
    """

    _system_prompt: str
    _conversation: Conversation
    _hooks: Hooks
    _response_timeout_s: float
    _connection: Connection | None
    _recorder: TurnRecorder | None
    _busy: bool
    _is_pickling: bool

    def __init__(
        self,
        provider: LLMProvider | Provider,
        system_prompt: str = "",
        *,
        history: Sequence[ChatMessage] = (),
        attachments: AttachmentsByMessageId = NO_ATTACHMENTS,
        tools: Iterable[ToolFunction | Tool] = (),
        controller: Controller | None = None,
        interceptors: Iterable[Interceptor] = (),
        request_listeners: Iterable[RequestListener] = (),
        response_listeners: Iterable[ResponseListener] = (),
        recorder: TurnRecorder | None = None,
        user_name: str = USER_NAME,
        assistant_name: str = ASSISTANT_NAME,
        response_timeout_s: float = RESPONSE_TIMEOUT_S,
    ) -> None:
        """Raises BadInput naming the field (MissingArgumentError for None), TypeError or ValueError for tools,
        ProviderInUseError, and what the provider's `set_history` raises. The provider is free then.
        """
        checked_provider(provider)
        messages = checked_history(history)
        files = attachments_of(messages, attachments)
        if not isinstance(system_prompt, str):
            raise BadInput("system_prompt must be a string")
        hooks = checked_hooks(interceptors, request_listeners, response_listeners)
        conversation = Conversation(user_name, assistant_name, messages)
        conversation.attach(files)
        self._set_up(system_prompt, conversation, hooks, checked_timeout(response_timeout_s))
        self._connection = connected(provider, tools, controller, (messages, files))
        self._recorder = recorder

    async def prompt(self, text: str | None, attachments: Sequence[Attachment] = ()) -> None:
        """Ask the model and wait for the end of the turn, listeners included. The answer joins the history.

        Does nothing for a blank text, and drops the prompt with a warning while another turn runs. Raises
        NotConnectedError, BadInput, and what stopped the turn: the response listeners have been told then.
        """
        if text is None or (isinstance(text, str) and not text.strip()):
            return
        connection = self._connection
        if connection is None:
            raise NotConnectedError
        if self._busy:
            _log.warning("prompt_dropped", reason="the turn before it has not ended")
            return
        if not isinstance(text, str):
            raise BadInput("text must be a string")
        setting = TurnSetting(
            connection, self._conversation, self._system_prompt, self._hooks, self._recorder, self._response_timeout_s
        )
        turn = PromptTurn(setting, text, checked_attachments(attachments))
        self._busy = True
        try:
            await turn.run()
        except anyio.get_cancelled_exc_class():
            self._busy = False
            await self._announcement(turn, connection).make_in_grace()
            raise
        except BaseException:
            self._busy = False
            await self._announcement(turn, connection).make()
            raise
        self._busy = False
        await self._announcement(turn, connection).make()

    def get_history(self) -> tuple[ChatMessage, ...]:
        """What was said, as it stands now; while an answer streams, it ends with the user message."""
        return self._conversation.history

    def view(self) -> tuple[ViewItem, ...]:
        """What people see now: the history, an answer as far as it came, and what was shown instead of one."""
        return self._conversation.items

    def dump(self) -> SavedState:
        """System prompt, display names and history as JSON-able data."""
        return dumped(self._system_prompt, self._conversation)

    @classmethod
    def load(
        cls,
        state: Mapping[str, Any],
        *,
        interceptors: Iterable[Interceptor] = (),
        request_listeners: Iterable[RequestListener] = (),
        response_listeners: Iterable[ResponseListener] = (),
        response_timeout_s: float = RESPONSE_TIMEOUT_S,
    ) -> Self:
        """A disconnected orchestrator from what `dump` gave. Raises BadInput naming the field that breaks a rule."""
        _, conversation = loaded(state)
        orchestrator = cls.__new__(cls)
        orchestrator.__setstate__(
            {
                "saved": state,
                "shown": conversation.items,
                "response_timeout_s": checked_timeout(response_timeout_s),
                "hooks": checked_hooks(interceptors, request_listeners, response_listeners),
            }
        )
        return orchestrator

    def reconnect(self, provider: LLMProvider | Provider) -> Reconnection:
        """Prepare to connect a restored orchestrator. Raises AlreadyConnectedError, MissingArgumentError (a TypeError)
        for None and BadInput for what is no provider.
        """
        checked_provider(provider)
        if self._connection is not None:
            raise AlreadyConnectedError
        return Reconnection(provider, self._apply)

    async def _apply(self, handover: Handover) -> None:
        if self._connection is not None:
            raise AlreadyConnectedError
        history = self._conversation.history
        files = attachments_of(history, handover.attachments)
        replayed = (history, files) if history else None
        self._connection = connected(handover.provider, handover.tools, handover.controller, replayed)
        self._recorder = handover.recorder
        self._conversation.attach(files)
        self._busy = False

    def _set_up(self, system_prompt: str, conversation: Conversation, hooks: Hooks, response_timeout_s: float) -> None:
        self._system_prompt = system_prompt
        self._conversation = conversation
        self._hooks = hooks
        self._response_timeout_s = response_timeout_s
        self._connection = None
        self._recorder = None
        self._busy = False
        self._is_pickling = False

    def _announcement(self, turn: PromptTurn, connection: Connection) -> Announcement:
        return Announcement(turn.event, self._hooks.response_listeners, connection.controller)

    def __getstate__(self) -> dict[str, Any]:
        """What `dump` gives, the items shown without files, the time limit, and the hooks that pickle."""
        return {
            "saved": self.dump(),
            "shown": self._conversation.without_attachments(),
            "response_timeout_s": self._response_timeout_s,
            "hooks": self._pickling_hooks(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        system_prompt, conversation = loaded(state["saved"])
        conversation.show(state["shown"])
        self._set_up(system_prompt, conversation, state["hooks"], state["response_timeout_s"])

    def _pickling_hooks(self) -> Hooks:
        if self._is_pickling:
            # A listener that refers to this orchestrator is being tried out.
            return Hooks()
        self._is_pickling = True
        try:
            return self._hooks.that_pickle()
        finally:
            self._is_pickling = False
