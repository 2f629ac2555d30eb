"""A conversation as JSON-able data and back (orchestrator.md, "Persistence")."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import ChatMessage, ChatRole
from turnlog.services.orchestrator.conversation import Conversation

VERSION = 1


class SavedMessage(TypedDict):
    """`time` in ISO 8601."""

    role: str
    content: str
    message_id: str | None
    time: str | None


class SavedState(TypedDict):
    """All that a restored orchestrator needs, besides what is handed over when it is reconnected."""

    version: int
    system_prompt: str
    user_name: str
    assistant_name: str
    history: list[SavedMessage]


def dumped(system_prompt: str, conversation: Conversation) -> SavedState:
    """The state as it stands."""
    return {
        "version": VERSION,
        "system_prompt": system_prompt,
        "user_name": conversation.user_name,
        "assistant_name": conversation.assistant_name,
        "history": [_saved(message) for message in conversation.history],
    }


def loaded(state: Mapping[str, Any]) -> tuple[str, Conversation]:
    """System prompt and conversation. Raises BadInput naming the field that breaks a rule."""
    if not isinstance(state, Mapping):
        raise BadInput("state must be an object")
    if state.get("version") != VERSION:
        raise BadInput(f"version must be {VERSION}")
    system_prompt, messages = state.get("system_prompt"), state.get("history")
    if not isinstance(system_prompt, str):
        raise BadInput("system_prompt must be a string")
    if not isinstance(messages, list):
        raise BadInput("history must be an array")
    history = [_message(message, f"history[{index}]") for index, message in enumerate(messages)]
    user_name: Any = state.get("user_name")
    assistant_name: Any = state.get("assistant_name")
    return system_prompt, Conversation(user_name, assistant_name, history)


def _saved(message: ChatMessage) -> SavedMessage:
    time = None if message.time is None else message.time.isoformat()
    return {"role": message.role.value, "content": message.content, "message_id": message.message_id, "time": time}


def _message(saved: object, place: str) -> ChatMessage:
    if not isinstance(saved, Mapping):
        raise BadInput(f"{place} must be an object")
    role, time = saved.get("role"), saved.get("time")
    if not isinstance(role, str) or role not in ("USER", "ASSISTANT"):
        raise BadInput(f"{place}.role must be USER or ASSISTANT")
    content: Any = saved.get("content")
    message_id: Any = saved.get("message_id")
    try:
        return ChatMessage(ChatRole(role), content, message_id, None if time is None else datetime.fromisoformat(time))
    except BadInput as error:
        raise BadInput(f"{place}.{error}") from None
    except (ValueError, TypeError):
        raise BadInput(f"{place}.time must be a time in ISO 8601, or null") from None
