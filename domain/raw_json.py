"""JSON text cut into its raw parts, byte for byte: what was sent is what is stored and what is answered.

The quick path is msgspec. It refuses lone-surrogate escapes (`"\\ud800"`), which are legal JSON, so documents that it
refuses get a second look by the standard library, slower and just as exact. Neither path turns a number or a string
into a Python value and back.
"""

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

import msgspec

from turnlog.domain.errors import BadInput

T = TypeVar("T")

MAX_NESTING = 500
"""Deepest nesting accepted, in levels of arrays and objects (chat-history-api.md, POST)."""

# Possessive, and an unclosed string runs to the end: no input makes it look at a byte twice.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_string_decoder = msgspec.json.Decoder(str)


class InvalidJson(BadInput):
    """The bytes aren't one JSON value of the wanted kind, or are nested too deep."""


def check_text(data: bytes) -> None:
    """Refuse bytes that aren't UTF-8 or nest deeper than `MAX_NESTING`. Raises InvalidJson. Runs before any parser."""
    try:
        data.decode()
    except UnicodeDecodeError:
        raise InvalidJson("invalid JSON") from None
    if data.count(b"[") + data.count(b"{") <= MAX_NESTING:
        return
    depth = 0
    for byte in _STRING.sub(b"", data).translate(None, _NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        if depth > MAX_NESTING:
            raise InvalidJson("invalid JSON")


def split_object(data: bytes) -> dict[str, bytes]:
    """The members of a JSON object as raw bytes; of duplicate names the last one counts. Raises InvalidJson."""
    try:
        return {name: bytes(raw) for name, raw in _object_decoder.decode(data).items()}
    except (msgspec.MsgspecError, RecursionError):
        return dict(_exact(data, _members))


def split_array(data: bytes) -> list[bytes]:
    """The elements of a JSON array as raw bytes. Raises InvalidJson."""
    try:
        return [bytes(raw) for raw in _array_decoder.decode(data)]
    except (msgspec.MsgspecError, RecursionError):
        return _exact(data, _elements)


def string_value(raw: bytes) -> str | None:
    """The text of a raw JSON string (lone surrogates kept), or None if it is another kind of value."""
    if not raw.startswith(b'"'):
        return None
    try:
        return _string_decoder.decode(raw)
    except msgspec.MsgspecError:
        value: str = json.loads(raw)
        return value


def one_line(raw: bytes) -> bytes:
    """The same JSON with CR and LF turned into spaces; inside JSON they can only stand between tokens."""
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


_scan = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse).raw_decode


def _exact(data: bytes, cut: Callable[[str], list[T]]) -> list[T]:
    try:
        return cut(data.decode())
    except (ValueError, IndexError, RecursionError):
        raise InvalidJson("invalid JSON") from None


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _members(text: str) -> list[tuple[str, bytes]]:
    at = _opened(text, "{")
    found: list[tuple[str, bytes]] = []
    if text[at] == "}":
        return _closed(text, at, found)
    while True:
        if text[at] != '"':
            _refuse("a member name was expected")
        name, at = _scan(text, at)
        at = _after_space(text, at)
        if text[at] != ":":
            _refuse("a colon was expected")
        raw, at = _value(text, _after_space(text, at + 1))
        found.append((name, raw))
        if text[at] == "}":
            return _closed(text, at, found)
        at = _comma(text, at)


def _elements(text: str) -> list[bytes]:
    at = _opened(text, "[")
    found: list[bytes] = []
    if text[at] == "]":
        return _closed(text, at, found)
    while True:
        raw, at = _value(text, at)
        found.append(raw)
        if text[at] == "]":
            return _closed(text, at, found)
        at = _comma(text, at)


def _opened(text: str, bracket: str) -> int:
    at = _after_space(text, 0)
    if text[at] != bracket:
        _refuse(f"{bracket} was expected")
    return _after_space(text, at + 1)


def _value(text: str, at: int) -> tuple[bytes, int]:
    _, end = _scan(text, at)
    return text[at:end].encode(), _after_space(text, end)


def _comma(text: str, at: int) -> int:
    if text[at] != ",":
        _refuse("a comma was expected")
    return _after_space(text, at + 1)


def _closed(text: str, at: int, found: list[T]) -> list[T]:
    if _after_space(text, at + 1) != len(text):
        _refuse("something follows the value")
    return found
