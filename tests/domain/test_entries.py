"""Which transcript entries are usable (chat-history-api.md, POST)."""

import json

import pytest
from hypothesis import given

from tests.domain.json_texts import Document, objects, strings, values
from turnlog.domain.entries import Entry, entry_id_of, usable_entries
from turnlog.domain.errors import BadInput


def test_items_without_a_usable_id_are_left_out_in_order() -> None:
    good, other = b'{"entryId":"e1"}', b'{ "n":1,"entryId":"e2" }'
    bad = [b"null", b"5", b"[]", b"{}", b'{"entryId":""}', b'{"entryId":{}}', b'{"entryId":["e"]}']
    assert usable_entries([*bad, good, *bad, other]) == [Entry("e1", good), Entry("e2", other)]


def test_the_last_of_two_entry_ids_counts() -> None:
    assert entry_id_of(b'{"entryId":"a","entryId":"b"}') == "b"
    assert entry_id_of(b'{"entryId":"a","entryId":5}') is None
    assert entry_id_of(b'{"entryId":"a","t":"\\ud800","entryId":"b"}') == "b"


def test_an_escaped_member_name_is_the_same_name() -> None:
    assert entry_id_of(b'{"entry\\u0049d":"e"}') == "e"
    assert entry_id_of(b'{"entry\\u0049d":"e","t":"\\ud800"}') == "e"


@given(objects(values()), strings())
def test_an_id_is_found_whatever_stands_beside_it(document: Document, raw_id: str) -> None:
    inside = document.text.strip()[1:]
    item = f'{{"entryId":{raw_id}{"," if document.parts else ""}{inside}'.encode()
    if "entryId" not in {json.loads(name or "") for name, _ in document.parts}:
        assert entry_id_of(item) == json.loads(raw_id)


@pytest.mark.parametrize("entry_id", ["a\\u0000", "\\ud800", "x" * 1025])
def test_an_id_that_breaks_the_rules_for_names_refuses_the_whole_request(entry_id: str) -> None:
    with pytest.raises(BadInput, match="entryId must"):
        usable_entries([b'{"entryId":"ok"}', f'{{"entryId":"{entry_id}"}}'.encode()])


def test_4096_usable_entries_are_fine_and_one_more_is_not() -> None:
    items = [b'{"entryId":"e"}'] * 4096
    assert len(usable_entries([*items, b"null"])) == 4096
    with pytest.raises(BadInput, match="too many entries"):
        usable_entries([*items, b'{"entryId":"e"}'])


@pytest.mark.parametrize("item", [b"", b"{", b'{"entryId":"e"', b'{"entryId":"e"}x', b'{"a":"\\q","entryId":"e"}'])
def test_what_is_no_json_has_no_id(item: bytes) -> None:
    assert entry_id_of(item) is None
