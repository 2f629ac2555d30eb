"""Messages and attachments of a conversation: each field is judged, none can be changed (orchestrator.md, "Types")."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import Attachment, ChatMessage, ChatRole


def test_id_and_time_may_be_missing_and_the_content_may_be_empty() -> None:
    message = ChatMessage(ChatRole.USER, "")
    assert (message.message_id, message.time) == (None, None)


@pytest.mark.parametrize("field", ["role", "content"])
def test_role_and_content_are_required(field: str) -> None:
    given: dict[str, Any] = {"role": ChatRole.USER, "content": "Hi"}
    del given[field]
    with pytest.raises(TypeError, match=field):
        ChatMessage(**given)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"role": "USER"}, "role must be"),
        ({"role": None}, "role must be"),
        ({"content": None}, "content must be a string"),
        ({"content": b"Hi"}, "content must be a string"),
        ({"message_id": 7}, "message_id must be a string or None"),
        ({"time": "now"}, "time must be a datetime or None"),
        ({"time": datetime(2026, 1, 2)}, "time must carry a time zone"),  # noqa: DTZ001 - what is tested
    ],
)
def test_a_message_names_the_field_that_is_wrong(change: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"role": ChatRole.USER, "content": "Hi", "time": datetime(2026, 1, 2, tzinfo=UTC)}
    with pytest.raises(BadInput, match=f"^{text}"):
        ChatMessage(**{**given, **change})


@pytest.mark.parametrize(
    ("field", "value"), [("name", None), ("mime_type", 7), ("data", "text"), ("data", bytearray())]
)
def test_an_attachment_names_the_field_that_is_wrong(field: str, value: object) -> None:
    given: dict[str, Any] = {"name": "a", "mime_type": "text/plain", "data": b""}
    with pytest.raises(BadInput, match=f"^{field} must be"):
        Attachment(**{**given, field: value})


def test_neither_can_be_changed() -> None:
    message: Any = ChatMessage(ChatRole.USER, "Hi")
    attachment: Any = Attachment("a", "text/plain", b"")
    with pytest.raises(FrozenInstanceError):
        message.content = "Ho"
    with pytest.raises(FrozenInstanceError):
        attachment.data = b"x"
