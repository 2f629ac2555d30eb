"""Log records, ids, session keys and JSON in plain Python: the naive model shares no code with `domain/`."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

ERASABLE = frozenset(
    {
        "turn.appended",
        "turn.started",
        "turn.released",
        "history.restored",
        "resumepoint.saved",
        "attachment.added",
        "session.forked",
    }
)
TYPE_NUMBERS = {
    "genesis": 1,
    "turn.appended": 2,
    "turn.started": 3,
    "turn.released": 4,
    "history.restored": 5,
    "resumepoint.saved": 6,
    "attachment.added": 7,
    "session.forked": 8,
    "context.reset": 9,
    "chat.cleared": 10,
    "session.deleted": 11,
    "erasure.completed": 12,
    "quarantine.decided": 13,
    "producer.fenced": 14,
    "tick": 15,
}


@dataclass(frozen=True)
class LogRecord:
    """One record of the partition; `data` None means erased. `type` lacks prefix and version, `event_id` is hex."""

    offset: int
    appended_ms: int
    event_id: str
    type: str
    stream: str
    subject: str
    data: bytes | None
    attempt: int = 1
    sent_after: int | None = None
    key_hash: bytes | None = None
    request_hash: bytes | None = None
    producer: str | None = None
    actor: str | None = None
    ignorable: bool = False

    def __str__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value is not None and value is not False}
        return ", ".join(f"{name} {value}" for name, value in given.items())


def subject_id(subject: str) -> str:
    """First 16 bytes of the SHA-256, hex."""
    return hashlib.sha256(subject.encode()).hexdigest()[:32]


def entry_hash(session_key: str, entry_id: str) -> str:
    """SHA-256 over the session's id and the entry's, first 16 bytes, hex."""
    return hashlib.sha256(bytes.fromhex(subject_id(session_key)) + entry_id.encode()).hexdigest()[:32]


def scopes_of(key: str) -> list[tuple[str, str]]:
    """(team, scope) pairs whose clear ends this key; empty for keys outside any team."""
    if not key.startswith("agent:") or any(mark in key for mark in "\r\n\u2028\u2029"):
        return []
    # Greedy: the rightmost `:team:` that has something on both sides.
    match = re.fullmatch(r"agent:(.+):team:(.+)", key, re.DOTALL)
    if match is None:
        return []
    team, _, room = match[2].partition(":room:")
    if team and room:
        return [(team, f"room:{room}"), (team, "*")]
    return [(match[2], "general"), (match[2], "*")]


def stream_of(key: str) -> str:
    """The unit of ordering: the team's, the agent's, or the key's own."""
    scopes = scopes_of(key)
    if scopes:
        return f"team:{scopes[0][0]}"
    match = re.fullmatch("agent:([^:\r\n\u2028\u2029]+):[^\r\n\u2028\u2029]*", key)
    return key if match is None else f"agent:{match[1]}"


_scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode


def value_of(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value of the text; numbers as their text."""
    return json.loads(text, parse_int=str, parse_float=str)


def raw_members(text: str) -> dict[str, str]:
    """The members of a JSON object as their exact texts; of equal names the last counts."""
    members: dict[str, str] = {}
    at = _skip(text, 0, "{")
    while text[at] != "}":
        name, at = _scan(text, at)
        start = _skip(text, _skip(text, at), ":")
        _, at = _scan(text, start)
        members[name] = text[start:at]
        at = _skip(text, _skip(text, at), ",")
    return members


def raw_elements(text: str) -> list[str]:
    """The elements of a JSON array as their exact texts."""
    elements: list[str] = []
    at = _skip(text, 0, "[")
    while text[at] != "]":
        _, end = _scan(text, at)
        elements.append(text[at:end])
        at = _skip(text, _skip(text, end), ",")
    return elements


def _skip(text: str, at: int, mark: str = "") -> int:
    """Past white space, and past the mark if it stands here."""
    while text[at] in " \t\r\n":
        at += 1
    if mark and text[at] == mark:
        at = _skip(text, at + 1)
    return at


def usable_entry_id(text: str) -> str | None:
    """The entry's id if it is an object whose `entryId` may name an entry, else None."""
    value = value_of(text)
    entry_id = value.get("entryId") if isinstance(value, dict) else None
    # Numbers come out as text, so look at the raw member: only a JSON string starts with a quote.
    if not isinstance(entry_id, str) or not raw_members(text)["entryId"].startswith('"'):
        return None
    if not entry_id or "\0" in entry_id or any("\ud800" <= char <= "\udfff" for char in entry_id):
        return None
    return entry_id if len(entry_id.encode()) <= 1024 else None


def text_of(raw: dict[str, str], name: str) -> str | None:
    """The string under a name, None if it is absent or null."""
    value: str | None = value_of(raw.get(name, "null"))
    return value


def number_of(raw: dict[str, str], name: str) -> int | None:
    """The integer under a name, None if it is absent or null."""
    return None if raw.get(name, "null") == "null" else int(raw[name])
