"""JSON documents with their parts known, for property tests: whitespace, escapes, numbers as people send them."""

from typing import NamedTuple

from hypothesis import strategies as st

SPACE = st.text(" \t\n\r", max_size=2)
ESCAPES = ('\\"', "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\u0000", "\\u00e9", "\\ud83d\\ude00")
LONE_SURROGATES = ("\\ud800", "\\udfff", "\\uD83Dx", "\\ud800\\ud800")
_PLAIN = st.characters(min_codepoint=0x20, codec="utf-8", exclude_characters='"\\')
NUMBERS = st.sampled_from(["0", "-0", "1.0", "1e5", "1E+400", "-1.50e-7", "12345678901234567890123", "9" * 400])


class Document(NamedTuple):
    """A JSON array or object, and its parts: (None or member name as raw JSON string, raw value)."""

    text: str
    parts: list[tuple[str | None, str]]


@st.composite
def strings(draw: st.DrawFn, lone_surrogates: bool = True) -> str:
    """A raw JSON string, quotes included."""
    odd = st.sampled_from(ESCAPES + (LONE_SURROGATES if lone_surrogates else ()))
    return '"' + "".join(draw(st.lists(_PLAIN | odd, max_size=6))) + '"'


def values(lone_surrogates: bool = True) -> st.SearchStrategy[str]:
    """Any raw JSON value."""
    scalars = st.sampled_from(["true", "false", "null"]) | NUMBERS | strings(lone_surrogates)

    def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return (arrays(inner) | objects(inner, lone_surrogates)).map(lambda document: document.text.strip())

    return st.recursive(scalars, containers, max_leaves=8)


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> Document:
    """An array of these values."""
    items = draw(st.lists(inner, max_size=4))
    return Document(_joined(draw, "[", items, "]"), [(None, item) for item in items])


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[str], lone_surrogates: bool = True) -> Document:
    """An object of these values; names may repeat."""
    members = draw(st.lists(st.tuples(strings(lone_surrogates), inner), max_size=4))
    items = [name + draw(SPACE) + ":" + draw(SPACE) + value for name, value in members]
    return Document(_joined(draw, "{", items, "}"), list(members))


def _joined(draw: st.DrawFn, opening: str, items: list[str], closing: str) -> str:
    spaced = [draw(SPACE) + item + draw(SPACE) for item in items] or [draw(SPACE)]
    return draw(SPACE) + opening + ",".join(spaced) + closing + draw(SPACE)
