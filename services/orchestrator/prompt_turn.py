"""One prompt on its way, from the interceptors to the recorded answer (orchestrator.md, "A turn")."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, cast
from uuid import uuid4

import anyio
import anyio.to_thread
import structlog

from turnlog.domain.errors import TurnlogError
from turnlog.domain.history.chat import Attachment, ChatMessage, ChatRole
from turnlog.domain.history.messages import AgentMessage
from turnlog.services.agent.turn import Turn
from turnlog.services.orchestrator.connection import Connection
from turnlog.services.orchestrator.content_parts import user_content
from turnlog.services.orchestrator.conversation import Conversation
from turnlog.services.orchestrator.errors import PromptCancelledError, PromptTimeoutError
from turnlog.services.orchestrator.exchange_events import RequestEvent, ResponseEvent
from turnlog.services.orchestrator.grace import GRACE_S, with_grace
from turnlog.services.orchestrator.hooks import Hooks
from turnlog.services.orchestrator.interceptors import PendingPrompt
from turnlog.services.orchestrator.invoking import invoke
from turnlog.services.orchestrator.llm_provider import closing
from turnlog.services.orchestrator.recorder import TurnEnd, TurnRecorder
from turnlog.services.providers.provider import ProviderPart, ProviderRequest, ResponseMetadata

FAILED = "An error occurred. Please try again later."
TIMED_OUT = "The answer took too long. Please try again later."
INTERRUPTED = "The answer was interrupted."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TurnSetting:
    """What a prompt runs in. `response_timeout_s` is in seconds."""

    connection: Connection
    conversation: Conversation
    system_prompt: str
    hooks: Hooks
    recorder: TurnRecorder | None
    response_timeout_s: float


class PromptTurn:
    """Runs once. Afterwards `event` is what listeners are to be told; None if the prompt was rejected."""

    def __init__(self, setting: TurnSetting, text: str, attachments: tuple[Attachment, ...]) -> None:
        self._setting = setting
        self._text = text
        self._attachments = attachments
        self._message_id = str(uuid4())
        self._message: ChatMessage | None = None
        """The user message, once it is in the history."""
        self._turn: Turn | None = None
        self._answer = ""
        self._silence = anyio.CancelScope()
        self._end_given = False
        self.event: ResponseEvent | None = None

    async def run(self) -> None:
        """Raises whatever stopped the turn, cancellation included."""
        try:
            if await self._let_pass():
                await with_grace(self._begin)
                await self._ask()
                await with_grace(self._complete)
        except anyio.get_cancelled_exc_class():
            if self.event is None:
                with anyio.move_on_after(GRACE_S, shield=True) as scope:
                    await self._break_off("interrupted", PromptCancelledError(), INTERRUPTED)
                if scope.cancelled_caught:
                    _log.error("turn_end_not_recorded", reason="the time for it is over", limit=GRACE_S)
            raise
        except BaseException as error:
            if self.event is None:
                shown = TIMED_OUT if isinstance(error, TimeoutError) else FAILED
                await with_grace(partial(self._break_off, "failed", error, shown))
            raise

    async def _let_pass(self) -> bool:
        setting = self._setting
        pending = PendingPrompt(self._text, self._attachments)
        await pending.pass_through(setting.hooks.interceptors, setting.response_timeout_s)
        if pending.rejected:
            if pending.reason:
                setting.conversation.refuse(self._text, pending.reason, _now())
            return False
        self._text = pending.text
        event = RequestEvent(self._text, self._message_id, self._attachments)
        if setting.connection.controller is not None:
            await invoke(setting.connection.controller.on_request, event)
        for listener in setting.hooks.request_listeners:
            await invoke(listener, event)
        return True

    async def _begin(self) -> None:
        message = ChatMessage(ChatRole.USER, self._text, self._message_id, _now())
        if self._setting.recorder is not None:
            await self._setting.recorder.started(message, self._attachments)
        self._setting.conversation.ask(message, self._attachments)
        self._message = message

    async def _ask(self) -> None:
        setting = self._setting
        prompt = setting.system_prompt
        before: list[AgentMessage] = [{"role": "system", "content": prompt}] if prompt.strip() else []
        self._turn = turn = Turn(self, setting.connection.toolbox, self._text)
        if self._attachments:
            content: Any = await anyio.to_thread.run_sync(
                user_content, self._text, self._attachments, abandon_on_cancel=True
            )
            turn.messages[0]["content"] = content
        self._heard()
        with self._silence:
            async with aclosing(turn.run(before)) as pieces:
                async for piece in pieces:
                    self._answer += piece
                    setting.conversation.hear(piece)
        if self._silence.cancelled_caught:
            raise PromptTimeoutError(f"the provider gave no token for {setting.response_timeout_s:g} seconds")

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[ProviderPart, None]:
        """The provider's answer, each part of which starts the time limit anew."""
        async with closing(self._setting.connection.provider.stream(request)) as parts:
            async for part in parts:
                self._heard()
                yield part

    def _heard(self) -> None:
        self._silence.deadline = anyio.current_time() + self._setting.response_timeout_s

    async def _complete(self) -> None:
        await self._record("ok", None)
        self._setting.conversation.answer(self._answer, _now())
        self.event = ResponseEvent(self._answer, None, self._metadata)

    async def _break_off(self, outcome: Literal["failed", "interrupted"], error: BaseException, shown: str) -> None:
        self.event = ResponseEvent("", error, self._metadata)
        if self._message is None:
            return
        self._setting.conversation.give_up(shown, _now())
        try:
            await self._record(outcome, _described(error))
        except Exception as failure:  # noqa: BLE001 - what stopped the turn is what counts
            _log.exception("turn_end_not_recorded", kind=type(failure).__name__)

    async def _record(self, outcome: Literal["ok", "failed", "interrupted"], error: str | None) -> None:
        if self._setting.recorder is None or self._message is None or self._end_given:
            return
        # Once only, also if it fails: what a recorder was given may be in its log all the same.
        self._end_given = True
        end = TurnEnd(
            user_message=self._message,
            outcome=outcome,
            messages=self._messages(),
            text=self._answer,
            error=error,
            metadata=self._metadata,
        )
        await self._setting.recorder.finished(end)

    def _messages(self) -> tuple[AgentMessage, ...]:
        said = cast("AgentMessage", {"role": "user", "content": self._text})
        happened = [] if self._turn is None else self._turn.messages[1:]
        if happened and happened[-1] == {"role": "assistant", "content": ""}:
            happened = happened[:-1]
        return (said, *happened)

    @property
    def _metadata(self) -> ResponseMetadata:
        return ResponseMetadata() if self._turn is None else self._turn.metadata


def _now() -> datetime:
    return datetime.now(UTC)


def _described(error: BaseException) -> str:
    """Errors of our own tree hold nothing secret; of others only the type is sure not to."""
    return str(error) if isinstance(error, TurnlogError) else type(error).__name__
