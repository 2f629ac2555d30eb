"""The benchmark's turn: user 200 B and assistant 1,200 B of incompressible text as two full entries."""

import base64
import itertools
import os

import orjson

from turnlog.domain.entries import Entry

USER_BYTES = 200
ASSISTANT_BYTES = 1200

_numbers = itertools.count(1)
_run = os.urandom(6).hex()


def new_turn(session_key: str) -> list[Entry]:
    """Two entries with ids never used before."""
    number = next(_numbers)
    return [
        _entry(session_key, f"{_run}-{number:012d}-u", "user", USER_BYTES),
        _entry(session_key, f"{_run}-{number:012d}-a", "assistant", ASSISTANT_BYTES),
    ]


def joined(turn: list[Entry]) -> bytes:
    """The turn's own bytes, as the floor stores them."""
    return b",".join(entry.text for entry in turn)


def post_body(session_key: str, turn: list[Entry]) -> bytes:
    """The request that saves the turn."""
    return b'{"sessionKey":%s,"entries":[%s]}' % (orjson.dumps(session_key), joined(turn))


def _entry(session_key: str, entry_id: str, role: str, size: int) -> Entry:
    text = base64.b64encode(os.urandom(size * 3 // 4)).decode()[:size]
    body = orjson.dumps(
        {
            "entryId": entry_id,
            "role": role,
            "kind": role,
            "text": text,
            "sessionKey": session_key,
            "runId": None,
            "source": "runtime-chat",
            "timestampMs": 1761650000000,
            "sequenceKey": 1761650000000,
            "confirmed": True,
            "fingerprint": entry_id,
        }
    )
    return Entry(entry_id, body)
