"""What callers hand over, checked and copied."""

from collections.abc import Mapping, Sequence

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import Attachment, ChatMessage, ChatRole
from turnlog.services.orchestrator.errors import MissingArgumentError
from turnlog.services.orchestrator.llm_provider import AttachmentsByMessageId


def checked_history(history: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """A copy. Raises MissingArgumentError for None, BadInput for anything but messages."""
    if history is None:
        raise MissingArgumentError("history")
    messages = tuple(history)
    for index, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            raise BadInput(f"history[{index}] must be a ChatMessage")
    return messages


def checked_attachments(attachments: Sequence[Attachment], field: str = "attachments") -> tuple[Attachment, ...]:
    """A copy. Raises MissingArgumentError for None or a None among them, BadInput for anything but attachments."""
    if attachments is None:
        raise MissingArgumentError(field)
    files = tuple(attachments)
    for index, file in enumerate(files):
        if file is None:
            raise MissingArgumentError(f"{field}[{index}]")
        if not isinstance(file, Attachment):
            raise BadInput(f"{field}[{index}] must be an Attachment")
    return files


def attachments_of(
    history: Sequence[ChatMessage], attachments: AttachmentsByMessageId
) -> dict[str, tuple[Attachment, ...]]:
    """Those that belong to user messages of the history; others are left out. Raises like `checked_attachments`."""
    if attachments is None:
        raise MissingArgumentError("attachments")
    if not isinstance(attachments, Mapping):
        raise BadInput("attachments must be a mapping of message ids to attachments")
    known = {message.message_id for message in history if message.role is ChatRole.USER}
    files = {key: checked_attachments(value, f"attachments[{key!r}]") for key, value in attachments.items()}
    return {key: value for key, value in files.items() if key is not None and key in known}


def checked_timeout(seconds: float) -> float:
    """`seconds` as it is. Raises BadInput unless it is a number above 0."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise BadInput("response_timeout_s must be a number of seconds above 0")
    return seconds
