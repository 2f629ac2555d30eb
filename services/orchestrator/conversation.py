"""What was said, and what of it is shown (orchestrator.md, "Types" and "Persistence")."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import Attachment, ChatMessage, ChatRole
from turnlog.services.orchestrator.llm_provider import AttachmentsByMessageId


class AttachmentPlace(NamedTuple):
    """Which attachment: that number, from 0, of the message with this id."""

    message_id: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class ViewItem:
    """One message as people see it: one of the history, an answer still on its way, or what came instead of one."""

    text: str
    author: str
    time: datetime | None = None
    attachments: tuple[Attachment, ...] = ()
    message_id: str | None = None

    def attachment_place(self, index: int) -> AttachmentPlace | None:
        """What a click on the attachment with this index means; None if there is none, or the message has no id."""
        if self.message_id is None or not 0 <= index < len(self.attachments):
            return None
        return AttachmentPlace(self.message_id, index)


class Conversation:
    """The history, which only grows, and the items shown."""

    def __init__(self, user_name: str, assistant_name: str, history: Sequence[ChatMessage]) -> None:
        """Raises BadInput for names that aren't strings."""
        for field, name in (("user_name", user_name), ("assistant_name", assistant_name)):
            if not isinstance(name, str):
                raise BadInput(f"{field} must be a string")
        self.user_name = user_name
        self.assistant_name = assistant_name
        self._history = list(history)
        self._items = [self._item(message) for message in self._history]
        self._answer: list[str] | None = None

    @property
    def history(self) -> tuple[ChatMessage, ...]:
        """All messages, as they stand now."""
        return tuple(self._history)

    @property
    def items(self) -> tuple[ViewItem, ...]:
        """What is shown now; the last item may be an answer that is still being written."""
        if not self._answer:
            return tuple(self._items)
        return (*self._items, ViewItem("".join(self._answer), self.assistant_name))

    def ask(self, message: ChatMessage, attachments: tuple[Attachment, ...]) -> None:
        """Add a user message; an answer begins."""
        self._history.append(message)
        self._items.append(replace(self._item(message), attachments=attachments))
        self._answer = []

    def hear(self, piece: str) -> None:
        """Show another piece of the answer."""
        if self._answer is not None:
            self._answer.append(piece)

    def answer(self, text: str, time: datetime) -> None:
        """The answer is complete. An empty one leaves no message."""
        self._answer = None
        if text:
            message = ChatMessage(ChatRole.ASSISTANT, text, time=time)
            self._history.append(message)
            self._items.append(self._item(message))

    def give_up(self, shown: str, time: datetime) -> None:
        """There is no answer; show this in its place."""
        self._answer = None
        self._items.append(ViewItem(shown, self.assistant_name, time))

    def refuse(self, text: str, reason: str, time: datetime) -> None:
        """Show a prompt that is no part of the history, and why."""
        self._items.append(ViewItem(text, self.user_name, time))
        self._items.append(ViewItem(reason, self.assistant_name, time))

    def attach(self, attachments: AttachmentsByMessageId) -> None:
        """Show these at the user messages that they belong to."""
        for number, item in enumerate(self._items):
            if item.message_id is not None and item.message_id in attachments:
                self._items[number] = replace(item, attachments=tuple(attachments[item.message_id]))

    def without_attachments(self) -> tuple[ViewItem, ...]:
        """What is shown, without files and without an unfinished answer."""
        return tuple(replace(item, attachments=()) for item in self._items)

    def show(self, items: Iterable[ViewItem]) -> None:
        """Show these instead of what the history says."""
        self._items = list(items)

    def _item(self, message: ChatMessage) -> ViewItem:
        if message.role is ChatRole.USER:
            return ViewItem(message.content, self.user_name, message.time, message_id=message.message_id)
        return ViewItem(message.content, self.assistant_name, message.time)
