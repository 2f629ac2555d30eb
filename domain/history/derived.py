"""Transcript entries of clients that send no agent messages, read as messages (history-restore.md, "Provider-valid
replay").

User and assistant entries become messages. Thinking and meta entries don't. Tool entries carry no call id, so they
can't either, and a repair names each.
"""

from typing import Any, NamedTuple

import msgspec

from turnlog.domain.history.messages import AgentMessage
from turnlog.domain.raw_json import InvalidJson, split_object, string_value

_SPOKEN = ("user", "assistant")


class ReadEntry(NamedTuple):
    """What replay and chat views need of an entry. `timestamp_ms` is the client's own clock (Unix ms), if it sent one.

    `role` is `user` or `assistant` for what was said, `tool` for a tool entry, None for everything else.
    """

    entry_id: str
    role: str | None
    text: str
    timestamp_ms: float | None


class _Entry(msgspec.Struct):
    entryId: str = ""  # noqa: N815 - wire names
    role: str | None = None
    kind: str | None = None
    text: str | None = None
    timestampMs: float | None = None  # noqa: N815


_decoder = msgspec.json.Decoder(_Entry)


def read_entry(text: bytes) -> ReadEntry:
    """The entry's meaning. Fields of a wrong type count as missing."""
    try:
        entry = _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        entry = _lenient(text)
    return ReadEntry(entry.entryId, _role(entry.role, entry.kind), entry.text or "", entry.timestampMs)


def message_of(entry: ReadEntry) -> AgentMessage | None:
    """The message that the entry stands for, or None."""
    if entry.role == "user":
        return {"role": "user", "content": entry.text}
    if entry.role == "assistant":
        return {"role": "assistant", "content": entry.text}
    return None


def _role(role: str | None, kind: str | None) -> str | None:
    """The kind decides where there is one: an assistant's thinking has role `assistant` too."""
    if kind is None:
        return role if role in _SPOKEN or role == "tool" else None
    if kind == "tool" or kind in _SPOKEN:
        return kind
    return None


def _lenient(text: bytes) -> _Entry:
    """Each field by itself, for lone surrogates and fields of another type."""
    try:
        members = split_object(text)
    except InvalidJson:
        return _Entry()
    texts: dict[str, Any] = {name: string_value(members.get(name, b"")) for name in ("role", "kind", "text")}
    stamp: float | None
    try:
        stamp = msgspec.json.decode(members.get("timestampMs", b"null"), type=float | None)
    except msgspec.MsgspecError:
        stamp = None
    return _Entry(string_value(members.get("entryId", b"")) or "", **texts, timestampMs=stamp)
