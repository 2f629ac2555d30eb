"""Query strings as the reference reads them: JavaScript's decoding, parseInt, and what counts as one plain value."""

import re
from urllib.parse import unquote_to_bytes

from turnlog.domain.errors import BadInput
from turnlog.domain.positions import MAX_SAFE_INTEGER

DEFAULT_LIMIT = 200
MAX_LIMIT = 1000

_MALFORMED = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_PARSE_INT = re.compile(r"[\s\ufeff]*([+-]?[0-9]+)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


def decode_component(raw: bytes) -> str:
    """One name or value: `+` is a space, and what decodeURIComponent refuses stays as it is."""
    plain = raw.replace(b"+", b" ")
    if b"%" in plain and not _MALFORMED.search(plain):
        try:
            return unquote_to_bytes(plain).decode()
        except UnicodeDecodeError:
            pass
    try:
        return plain.decode()
    except UnicodeDecodeError:
        return plain.decode("latin-1")


def parse_query(raw: bytes) -> list[tuple[str, str]]:
    """All parameters in order."""
    pairs = (part.partition(b"=") for part in raw.split(b"&") if part)
    return [(decode_component(name), decode_component(value)) for name, _, value in pairs]


def one_value(query: list[tuple[str, str]], name: str) -> str | None:
    """The value of a parameter that is there exactly once and not as `name[...]`, else None."""
    bracketed = name + "["
    found: str | None = None
    for key, value in query:
        if key == name:
            if found is not None:
                return None
            found = value
        elif key.startswith(bracketed):
            return None
    return found


def session_key_of(query: list[tuple[str, str]]) -> str:
    """The session key. Raises BadInput if it is missing, empty, repeated or bracketed."""
    key = one_value(query, "sessionKey")
    if not key:
        raise BadInput("sessionKey required")
    return key


def limit_of(query: list[tuple[str, str]], *, default: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> int:
    """The page size: the leading integer, `default` without one or below 1, at most `most`."""
    for key, value in query:
        if key == "limit":
            match = _PARSE_INT.match(value)
            if match is None:
                return default
            digits = match[1].lstrip("+").lstrip("0")
            if not digits or digits.startswith("-"):
                return default
            return most if len(digits) > len(str(most)) else min(int(digits), most)
    return default


def before_of(query: list[tuple[str, str]]) -> int | None:
    """The row id to stay below: a whole safe integer, else None."""
    text = one_value(query, "before")
    if text is None or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else None


def cursor_of(text: str | None) -> int:
    """A stream cursor: a row id; 0 for what isn't a number or is negative."""
    if text is None or not _INTEGER.fullmatch(text):
        return 0
    return min(max(int(text), 0), MAX_SAFE_INTEGER)
