"""Filling sessions before something is measured."""

import anyio
import orjson

from tests.bench.raw_http import RawHttp
from turnlog.domain.entries import Entry
from turnlog.services.composition import Turnlog

ENTRIES_A_SAVE = 2000


def small_entry(entry_id: str, text: str = "x" * 40) -> bytes:
    """A short entry, where only the number of rows matters."""
    return orjson.dumps({"entryId": entry_id, "role": "user", "kind": "user", "text": text})


async def fill(log: Turnlog, session_key: str, messages: int) -> None:
    """Give the session this many short messages, applied."""
    position = None
    for start in range(0, messages, ENTRIES_A_SAVE):
        count = min(ENTRIES_A_SAVE, messages - start)
        ids = [f"{session_key}-{start + number}" for number in range(count)]
        entries = [Entry(entry_id, small_entry(entry_id)) for entry_id in ids]
        position = (await log.conversations.save_entries(session_key, entries)).position
    if position is not None:
        await log.applied.reach(position, timeout_ms=600_000)


async def fill_over_http(port: int, session_key: str, messages: int, text: str = "x" * 40) -> None:
    """The same over HTTP, and wait until a GET with the last position answers."""
    client = await RawHttp.open(port)
    position = ""
    for start in range(0, messages, ENTRIES_A_SAVE):
        count = min(ENTRIES_A_SAVE, messages - start)
        items = b",".join(small_entry(f"{session_key}-{start + number}", text) for number in range(count))
        body = b'{"sessionKey":%s,"entries":[%s]}' % (orjson.dumps(session_key), items)
        answer = await client.post("/api/chat-history", body)
        assert answer.status == 200, answer
        position = answer.position or position
    with anyio.fail_after(600):
        path = f"/api/chat-history?sessionKey={session_key}&limit=1"
        while (await client.get(path, b"Turnlog-After: %s\r\n" % position.encode())).status == 503:
            pass
    client.close()
