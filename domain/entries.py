"""Transcript entries: raw JSON objects with an `entryId` (chat-history-api.md, POST)."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from turnlog.domain.errors import BadInput
from turnlog.domain.positions import ROWS_PER_EVENT
from turnlog.domain.raw_json import InvalidJson, split_object, string_value
from turnlog.domain.session_key import check_name


class Entry(NamedTuple):
    """A usable entry: its id and its exact JSON text."""

    entry_id: str
    text: bytes


class _Identified(msgspec.Struct):
    entryId: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815 - the wire name


_decoder = msgspec.json.Decoder(_Identified)


def usable_entries(items: Sequence[bytes]) -> list[Entry]:
    """The items that are objects with a non-empty string `entryId`, in order; the others are left out.

    Raises BadInput if an id breaks the rules for names or more than 4,096 are usable.
    """
    found: list[Entry] = []
    for item in items:
        entry_id = entry_id_of(item)
        if entry_id:
            check_name(entry_id, "entryId")
            found.append(Entry(entry_id, item))
    if len(found) > ROWS_PER_EVENT:
        raise BadInput("too many entries")
    return found


def entry_id_of(item: bytes) -> str | None:
    """The entry's id, or None if the item isn't an object with a string `entryId`. The last duplicate counts."""
    try:
        raw = bytes(_decoder.decode(item).entryId)
    except msgspec.ValidationError:
        return None
    except (msgspec.MsgspecError, RecursionError):
        try:
            raw = split_object(item).get("entryId", b"")
        except InvalidJson:
            return None
    return string_value(raw)
