"""Members of a JSON body, read one by one: each error names its field."""

from collections.abc import Mapping

import msgspec

from turnlog.domain.errors import BadInput
from turnlog.domain.positions import MAX_SAFE_INTEGER
from turnlog.domain.raw_json import string_value

_int_decoder = msgspec.json.Decoder(int)


def text_of(members: Mapping[str, bytes], name: str) -> str:
    """A string that must be there. Raises BadInput."""
    raw = members.get(name, b"null")
    value = optional_text_of(members, name) if raw.startswith(b'"') else None
    if not value:
        raise BadInput(f"{name} must be a non-empty string")
    return value


def optional_text_of(members: Mapping[str, bytes], name: str) -> str | None:
    """A string, or None if it is missing or null. Raises BadInput for another kind, and for lone surrogates."""
    raw = members.get(name, b"null")
    if raw == b"null":
        return None
    value = string_value(raw)
    if value is None:
        raise BadInput(f"{name} must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{name} must not contain lone surrogates") from None
    return value


def count_of(members: Mapping[str, bytes], name: str) -> int | None:
    """An integer from 0 to 2^53-1, or None if it is missing or null. Raises BadInput."""
    raw = members.get(name, b"null")
    if raw == b"null":
        return None
    try:
        count = _int_decoder.decode(raw)
    except msgspec.MsgspecError:
        count = -1
    if not 0 <= count <= MAX_SAFE_INTEGER:
        raise BadInput(f"{name} must be an integer from 0 to 2^53-1")
    return count


def epoch_of(members: Mapping[str, bytes]) -> int | None:
    """The epoch that the work began under."""
    return count_of(members, "epoch")
