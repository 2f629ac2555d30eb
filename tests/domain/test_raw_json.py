"""JSON cut into raw parts: exactly, on the quick road and on the exact one."""

import json
import time
from typing import NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.domain.json_texts import Document, arrays, objects, strings, values
from turnlog.domain import raw_json
from turnlog.domain.raw_json import InvalidJson, check_text, one_line, split_array, split_object, string_value


@given(arrays(values()))
def test_an_array_splits_into_its_exact_elements(document: Document) -> None:
    assert split_array(document.text.encode()) == [value.encode() for _, value in document.parts]


@given(objects(values()))
def test_an_object_splits_into_its_exact_members_of_which_the_last_duplicate_counts(document: Document) -> None:
    expected = {json.loads(name or ""): value.encode() for name, value in document.parts}
    assert split_object(document.text.encode()) == expected


@given(arrays(values(lone_surrogates=False)) | objects(values(lone_surrogates=False), lone_surrogates=False))
def test_both_roads_cut_the_same(document: Document) -> None:
    data = document.text.encode()
    if document.text.lstrip().startswith("["):
        assert raw_json._exact(data, raw_json._elements) == split_array(data)
    else:
        assert dict(raw_json._exact(data, raw_json._members)) == split_object(data)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_BROKEN = st.text("[]{}\",:\\ \n\x0001.e-+tnu'/#N", max_size=12)


@given(_BROKEN | arrays(values()).flatmap(lambda d: st.integers(0, len(d.text)).map(lambda n: d.text[:n])))
@example("[NaN]")
@example("[Infinity]")
@example("[01]")
@example('["\n"]')
@example("[1,]")
@example('["\\ud800",]')
@example('["\\ud800" 1]')
@example('["\\ud800"]]')
@example("['\\ud800']")
@example('["\\ud800\\q"]')
@example('["\\ud800", 01]')
@example('["\\ud800", NaN]')
@example("\ufeff[]")
def test_what_is_no_json_array_is_refused_and_everything_else_is_split(text: str) -> None:
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_int=str)
    except ValueError:
        value = None
    if isinstance(value, list):
        assert len(split_array(text.encode())) == len(value)
    else:
        with pytest.raises(InvalidJson):
            split_array(text.encode())


@pytest.mark.parametrize(
    "text", ["", "null", "[]", '{"a"}', "{a:1}", '{"a":1,}', '{"a":1 "b":2}', '{"\\ud800"}', "{1:2}"]
)
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidJson):
        split_object(text.encode())


@pytest.mark.parametrize("data", [b'["\xff"]', b'["\xed\xa0\x80"]', b"\xc0\x80"])
def test_bytes_that_are_not_utf8_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidJson):
        check_text(data)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("inside", ["", '"\\ud800"', '"]]}}"'])
def test_500_levels_are_fine_and_501_are_not(opening: str, closing: str, inside: str) -> None:
    document = opening * 500 + (inside or "1") + closing * 500
    check_text(document.encode())
    assert split_array(f"[{document}]".encode()) == [document.encode()]
    with pytest.raises(InvalidJson):
        check_text(f"[{document}]".encode())


def test_brackets_inside_strings_are_no_levels() -> None:
    check_text(('["' + "[" * 2000 + '\\"[[\\\\","{"]').encode())


def test_many_siblings_are_no_levels() -> None:
    check_text(("[" + "{}," * 2000 + "[]]").encode())


@pytest.mark.parametrize("tail", ["", "\\", '"', '"\\'])
def test_a_hostile_unclosed_string_costs_linear_time(tail: str) -> None:
    document = ("[" * 500 + '{"' + '\\"' * 500_000 + tail).encode()
    started = time.perf_counter()
    with pytest.raises(InvalidJson):
        check_text(document + b"[" * 501 if tail == '"' else b"[" * 2 + document)
    assert time.perf_counter() - started < 2


@given(strings())
def test_a_raw_string_has_the_value_that_json_gives_it(text: str) -> None:
    assert string_value(text.encode()) == json.loads(text)


@pytest.mark.parametrize("raw", [b"", b"5", b"null", b"[]", b'{"a":"b"}', b"true"])
def test_another_value_is_no_string(raw: bytes) -> None:
    assert string_value(raw) is None


@given(values())
def test_one_line_is_the_same_json_in_one_line(text: str) -> None:
    line = one_line(text.encode())
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line) == json.loads(text)
