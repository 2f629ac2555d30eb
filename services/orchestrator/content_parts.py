"""A user's text and attachments as the content of a chat-completions message (orchestrator.md, "Persistence")."""

import base64
import html
from collections.abc import Sequence
from email.message import Message
from typing import Any

import structlog

from turnlog.domain.history.chat import Attachment

_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}
"""Names that the form has for formats which MIME calls otherwise."""

_log = structlog.get_logger(__name__)


def user_content(text: str, attachments: Sequence[Attachment]) -> str | list[dict[str, Any]]:
    """The text alone, or a list of parts. Attachments of types that no provider takes are left out with a warning.

    Takes time in proportion to the attachments' bytes, so run it off the event loop.
    """
    parts = [part for part in map(_part, attachments) if part is not None]
    if len(parts) < len(attachments):
        _log.warning(
            "attachments_not_sent", count=len(attachments) - len(parts), reason="no provider takes their MIME types"
        )
    if not parts:
        return text
    return [{"type": "text", "text": text}, *parts] if text else parts


def _part(attachment: Attachment) -> dict[str, Any] | None:
    header = Message()
    header["content-type"] = attachment.mime_type.replace("\r", " ").replace("\n", " ")
    kind = header.get_content_type() if "/" in attachment.mime_type else ""
    family, _, subtype = kind.partition("/")
    if family == "image":
        return {"type": "image_url", "image_url": {"url": _data_url(kind, attachment.data)}}
    if family == "text":
        return {"type": "text", "text": _text(attachment, header.get_content_charset("utf-8"))}
    if family == "audio":
        data = base64.b64encode(attachment.data).decode()
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS.get(subtype, subtype)}}
    if family == "video" or kind == "application/pdf":
        file = {"filename": attachment.name, "file_data": _data_url(kind, attachment.data)}
        return {"type": "file", "file": file}
    return None


def _data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _text(attachment: Attachment, charset: str) -> str:
    try:
        text = attachment.data.decode(charset, errors="replace")
    except LookupError:
        text = attachment.data.decode(errors="replace")
    return f'<attachment filename="{html.escape(attachment.name)}">\n{text}\n</attachment>'
