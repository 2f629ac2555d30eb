"""The caller's name of a conversation, and what follows from it: stream, scopes, table id (chat-history-api.md).

Parsing is linear in the length of the key, whatever the key holds.
"""

import hashlib
import re
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from turnlog.domain.errors import BadInput

MAX_KEY_BYTES = 1024
"""Longest session key or entry id, in UTF-8 bytes."""

_LINE_BREAKS = re.compile("[\r\n\u2028\u2029]")
_TEAM = ":team:"
_ROOM = ":room:"
_CLEARED = "#cleared:"

GENERAL = "general"
ALL = "*"


class TeamKey(NamedTuple):
    """A teammate's session in a team's General chat (`room_id` None) or in one of its rooms."""

    agent_id: str
    team_id: str
    room_id: str | None


class Scope(NamedTuple):
    """What one Clear ends: `general`, `room:<id>` or `*` of a team."""

    team_id: str
    name: str

    def subject(self) -> str:
        """The event subject of a clear with this scope."""
        return f"team:{self.team_id}:{self.name}"


def parse_team_key(key: str) -> TeamKey | None:
    """The team, agent and room of a key, or None if it isn't a team key.

    Split at the rightmost `:team:` with non-empty sides; a trailing `:team:` falls back one.
    """
    if not key.startswith("agent:") or _LINE_BREAKS.search(key):
        return None
    body = key[len("agent:") :]
    cut = body.rfind(_TEAM)
    if cut >= 0 and cut + len(_TEAM) == len(body):
        cut = body.rfind(_TEAM, 0, cut + len(_TEAM) - 1)
    if cut <= 0:
        return None
    agent_id, rest = body[:cut], body[cut + len(_TEAM) :]
    team_id, marker, room_id = rest.partition(_ROOM)
    if marker and team_id and room_id:
        return TeamKey(agent_id, team_id, room_id)
    return TeamKey(agent_id, rest, None)


def agent_id_of(key: str) -> str | None:
    """The agent a key belongs to: the text between its first and second colon, or None."""
    if not key.startswith("agent:") or _LINE_BREAKS.search(key):
        return None
    agent_id, colon, _ = key[len("agent:") :].partition(":")
    return agent_id if colon and agent_id else None


@lru_cache(maxsize=4096)
def stream_of(key: str) -> str:
    """The unit of ordering a key belongs to: `team:<id>`, `agent:<id>`, or the key itself."""
    team = parse_team_key(key)
    if team is not None:
        return team_stream(team.team_id)
    agent_id = agent_id_of(key)
    return key if agent_id is None else f"agent:{agent_id}"


def team_stream(team_id: str) -> str:
    """The stream of all session keys of one team, its rooms included."""
    return f"team:{team_id}"


@lru_cache(maxsize=4096)
def scopes_of(key: str) -> tuple[Scope, ...]:
    """The scopes whose Clear ends this key: its General or room, and `*`."""
    team = parse_team_key(key)
    if team is None:
        return ()
    name = GENERAL if team.room_id is None else f"room:{team.room_id}"
    return (Scope(team.team_id, name), Scope(team.team_id, ALL))


def scope_covers(scope: Scope, key: str) -> bool:
    """True if a Clear of this scope ends this key."""
    return scope in scopes_of(key)


@lru_cache(maxsize=4096)
def session_id(key: str) -> UUID:
    """The key's id inside the tables: the first 16 bytes of its SHA-256. Derived, so equal after every rebuild."""
    return UUID(bytes=hashlib.sha256(key.encode()).digest()[:16])


def entry_hash(session: UUID, entry_id: str) -> UUID:
    """The id under which an entry is known within its session: SHA-256 over both, first 16 bytes."""
    return UUID(bytes=hashlib.sha256(session.bytes + entry_id.encode()).digest()[:16])


def is_reserved(key: str) -> bool:
    """Keys holding `#cleared:` address what Clear set aside; nobody may write to them."""
    return _CLEARED in key


def check_name(value: str, field: str) -> None:
    """Refuse text that can't name a session or an entry. Raises BadInput naming `field`."""
    if "\x00" in value:
        raise BadInput(f"{field} must not contain U+0000")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise BadInput(f"{field} must not contain lone surrogates") from None
    if size > MAX_KEY_BYTES:
        raise BadInput(f"{field} must be at most {MAX_KEY_BYTES} bytes")
