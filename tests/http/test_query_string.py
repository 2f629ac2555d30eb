"""Query strings as JavaScript reads them."""

import pytest

from turnlog.domain.errors import BadInput
from turnlog.services.http.query_string import (
    before_of,
    cursor_of,
    decode_component,
    limit_of,
    parse_query,
    session_key_of,
)


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        ("", 200), ("limit=", 200), ("limit=abc", 200), ("limit=0", 200), ("limit=-1", 200), ("limit=-5", 200),
        ("limit=5000", 1000), ("limit=1000", 1000), ("limit=999", 999), ("limit=12abc", 12), ("limit=1e3", 1),
        ("limit=%2B7", 7), ("limit=+7", 7), ("limit=%20%097.9", 7), ("limit=0x10", 200), ("limit=007", 7),
        ("limit=" + "9" * 5000, 1000), ("limit=" + "0" * 5000 + "3", 3), ("limit=5&limit=6", 5), ("limit=%D9%A3", 200),
        ("limit=-0", 200), ("limit=Infinity", 200),
    ],
)  # fmt: skip
def test_limit_is_read_as_parse_int_reads_it(query: str, limit: int) -> None:
    assert limit_of(parse_query(query.encode())) == limit


@pytest.mark.parametrize(
    ("query", "before"),
    [
        ("", None), ("before=", None), ("before=abc", None), ("before=1.5", None), ("before=1e3", None),
        ("before=12x", None), ("before=0", 0), ("before=-5", -5), ("before=4096", 4096),
        ("before=9007199254740991", 2**53 - 1), ("before=9007199254740992", None),
        ("before=-9007199254740991", 1 - 2**53),
        ("before=" + "9" * 9000, None), ("before=1&before=2", None), ("before[]=1", None),
    ],
)  # fmt: skip
def test_before_counts_only_as_a_whole_safe_integer(query: str, before: int | None) -> None:
    assert before_of(parse_query(query.encode())) == before


@pytest.mark.parametrize(
    "query",
    [
        "", "sessionKey", "sessionKey=", "sessionKey=x&sessionKey=y", "sessionKey[a]=x", "sessionKey%5Ba%5D=x",
        "sessionKey[]=x", "sessionKey=x&sessionKey[a]=y", "sessionkey=x", "session%4Bey=x&sessionKey=y",
    ],
)  # fmt: skip
def test_the_session_key_is_one_plain_value(query: str) -> None:
    with pytest.raises(BadInput, match=r"^sessionKey required$"):
        session_key_of(parse_query(query.encode()))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"agent%3Aa1%3Anative", "agent:a1:native"), (b"a+b", "a b"), (b"a%2Bb", "a+b"), (b"%zz%41", "%zz%41"),
        (b"100%", "100%"),
        (b"%ff%41", "%ff%41"), (b"%ED%A0%80", "%ED%A0%80"), (b"%F0%9F%98%80", "\U0001f600"), (b"%00", "\x00"),
        ("é".encode(), "é"), (b"\xe9", "é"),
    ],
)  # fmt: skip
def test_what_decode_uri_component_refuses_stays_as_it_is(raw: bytes, text: str) -> None:
    assert decode_component(raw) == text


@pytest.mark.parametrize(
    ("text", "cursor"),
    [(None, 0), ("", 0), ("abc", 0), ("-1", 0), ("5", 5), ("1.5", 0), ("9" * 400, 0), ("9" * 30, 2**53 - 1)],
)
def test_a_stream_cursor_is_a_row_id_or_the_start(text: str | None, cursor: int) -> None:
    assert cursor_of(text) == cursor
