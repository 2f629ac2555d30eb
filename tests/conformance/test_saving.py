"""Cases 16-27: POST /api/chat-history."""

import gzip
import json
import zlib

import pytest

from tests.api import PATH, Api, agent_key, entry, fresh, numbered
from tests.served import fetch
from turnlog.domain.session_key import session_id

LIMIT = 2 * 1024 * 1024
REQUIRED = "sessionKey and entries[] required"


def body_of(key: str, size: int, entry_id: str = "big") -> bytes:
    """A save of one entry that is exactly `size` bytes long."""
    frame = b'{"sessionKey":"%s","entries":[{"entryId":"%s","text":"%%s"}]}' % (key.encode(), entry_id.encode())
    return frame % (b"x" * (size - len(frame) + 2))


async def test_16_a_repeated_entry_is_ignored(api: Api) -> None:
    key = agent_key()
    for _ in range(2):
        answer = await api.save(key, entry(1))
        assert (answer.status, answer.json()["ok"], answer.json()["saved"]) == (200, True, 1)
    await api.save(key, entry(1, text="another text, same id"))
    assert await api.entries(key) == [entry(1)]


async def test_16_twice_in_one_body_the_first_wins(api: Api) -> None:
    key = agent_key()
    answer = await api.save(key, entry(1, text="first"), entry(2), entry(1, text="second"))
    assert answer.json()["saved"] == 3
    assert await api.entries(key) == [entry(1, text="first"), entry(2)]


async def test_16_a_repeat_keeps_its_place(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1), entry(2))
    await api.save(key, entry(3), entry(1), entry(4))
    assert await api.ids(key) == ["e1", "e2", "e3", "e4"]


async def test_18_an_entry_id_belongs_to_its_session(api: Api) -> None:
    first, second = agent_key(), agent_key()
    assert (await api.save(first, entry(1, text="one"))).status == 200
    assert (await api.save(second, entry(1, text="two"))).status == 200
    assert await api.entries(first) == [entry(1, text="one")]
    assert await api.entries(second) == [entry(1, text="two")]


@pytest.mark.parametrize(
    "unusable",
    [
        b"null", b"{}", b"1", b'"text"', b"[]", b"true", b'{"entryId":""}', b'{"entryId":null}', b'{"entryId":1}',
        b'{"entryId":{"id":"x"}}', b'{"entryId":["x"]}', b'{"entryId":false}', b'{"entryid":"x"}', b"[[{}]]",
        b'{"entryId":"x","entryId":7}',
    ],
)  # fmt: skip
async def test_19_27_an_unusable_item_is_skipped(api: Api, unusable: bytes) -> None:
    key = agent_key()
    answer = await api.save(key, unusable, entry(1), unusable)
    assert (answer.status, answer.json()) == (200, {"ok": True, "saved": 3, "stored": 1})
    assert await api.entries(key) == [entry(1)]


async def test_19_nothing_usable_is_no_error(api: Api) -> None:
    key = agent_key()
    answer = await api.save(key, None, b"{}")
    assert (answer.status, answer.json()) == (200, {"ok": True, "saved": 2, "stored": 0})
    assert await api.entries(key) == []


async def test_20_a_timestamp_is_never_filled_in(api: Api) -> None:
    key = agent_key()
    missing = entry(1)
    del missing["timestampMs"]
    values: list[object] = [None, "yesterday", {}, -5, 1e300]
    posted = [missing, *(entry(2 + number, timestampMs=at) for number, at in enumerate(values))]
    await api.save(key, *posted)
    assert await api.entries(key) == posted
    assert "timestampMs" not in (await api.entries(key))[0]


async def test_22_the_bodys_session_key_counts_not_the_entrys(api: Api) -> None:
    key, other = agent_key(), agent_key()
    await api.save(key, entry(1, key=other))
    assert [item["sessionKey"] for item in await api.entries(key)] == [other]
    assert await api.entries(other) == []


@pytest.mark.parametrize(
    "body",
    [
        {}, {"sessionKey": "s", "entries": []}, {"sessionKey": "s", "entries": {}}, {"entries": [entry(1)]},
        {"sessionKey": "s"}, {"sessionKey": "", "entries": [entry(1)]}, {"sessionKey": 5, "entries": [entry(1)]},
        {"sessionKey": None, "entries": [entry(1)]}, {"sessionKey": ["s"], "entries": [entry(1)]},
        {"sessionKey": "s", "entries": "e"}, {"sessionKey": "s", "entries": None},
        {"SessionKey": "s", "entries": [entry(1)]},
    ],
)  # fmt: skip
async def test_23_key_and_entries_are_required(api: Api, body: object) -> None:
    answer = await api.post(PATH, body)
    assert (answer.status, answer.error()) == (400, REQUIRED)


@pytest.mark.parametrize("content_type", ["text/plain", "", "multipart/form-data", "application/json-patch+json"])
async def test_24_another_content_type_is_invalid_json(api: Api, content_type: str) -> None:
    body = {"sessionKey": agent_key(), "entries": [entry(1)]}
    answer = await api.post(PATH, body, content_type=content_type)
    assert (answer.status, answer.error()) == (400, "invalid JSON")


@pytest.mark.parametrize(
    "body",
    [
        b"{bad", b"", b"[]", b'"text"', b"null", b"5", b'{"sessionKey":"s","entries":[{"entryId":"e"}]', b"{}{}",
        b'{"sessionKey":"s","entries":[NaN]}', b'{"sessionKey":"s","entries":[Infinity]}', b"{'a':1}",
        b'{"sessionKey":"s","entries":[{"entryId":"e","n":01}]}', b'{"sessionKey":"s","entries":[1,]}',
        b'{"sessionKey":"s","entries":[{"entryId":"\xff"}]}', b'\xef\xbb\xbf{"sessionKey":"s","entries":[1]}',
        b'{"sessionKey":"s","entries":[{"entryId":"e","t":"\t"}]}', b'{"sessionKey":"s","entries":[1]}\x00',
    ],
)  # fmt: skip
async def test_24_what_is_not_a_json_object_is_invalid_json(api: Api, body: bytes) -> None:
    answer = await api.post(PATH, body)
    assert (answer.status, answer.error()) == (400, "invalid JSON")


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"]
)
async def test_24_json_may_be_declared_in_several_ways(api: Api, content_type: str) -> None:
    key = agent_key()
    answer = await api.post(PATH, {"sessionKey": key, "entries": [entry(1)]}, content_type=content_type)
    assert answer.status == 200
    assert await api.entries(key) == [entry(1)]


async def test_25_gateway_url_and_arrival_are_kept_beside_the_entry(api: Api) -> None:
    key, posted = agent_key(), [entry(number) for number in range(4)]
    urls: list[object] = ["ws://gateway:18789/é", "", None, 7]
    assert (await api.post(PATH, {"sessionKey": key, "entries": [posted[0]], "gatewayUrl": urls[0]})).status == 200
    assert (await api.save(key, posted[1])).status == 200
    for url, item in zip(urls[2:], posted[2:], strict=True):
        assert (await api.post(PATH, {"sessionKey": key, "entries": [item], "gatewayUrl": url})).status == 200
    assert (await api.page(key)).json() == {"entries": posted, "hasMore": False, "nextBefore": None}
    rows = await fetch(
        api.database,
        "SELECT gateway_url, abs(extract(epoch FROM now()) * 1000 - arrived_ms) < 60000 AS recent "
        "FROM transcript_entries WHERE session_id = $1 ORDER BY row_id",
        session_id(key),
    )
    assert [tuple(row) for row in rows] == [(urls[0], True), ("", True), ("", True), ("", True)]


async def test_26_a_body_of_2_mib_is_stored_and_one_byte_more_is_not(api: Api) -> None:
    key = agent_key()
    full = body_of(key, LIMIT)
    assert len(full) == LIMIT
    assert (await api.post(PATH, full)).status == 200
    refused = await api.post(PATH, body_of(key, LIMIT + 1, "more"))
    assert (refused.status, refused.error()) == (413, f"request body is larger than {LIMIT} bytes")
    page = await api.page(key)
    assert page.body.count(b'"entryId"') == 1
    assert b"x" * 2_000_000 in page.body


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_26_the_limit_counts_after_decompression(api: Api, encoding: str) -> None:
    key = agent_key()
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    answer = await api.post(PATH, pack(body_of(key, LIMIT)), content_encoding=encoding)
    assert answer.status == 200
    refused = await api.post(PATH, pack(body_of(key, LIMIT + 1, "more")), content_encoding=encoding)
    assert (refused.status, refused.error()) == (413, f"request body is larger than {LIMIT} bytes")
    assert await api.ids(key) == ["big"]


async def test_26_the_limit_counts_a_chunked_body_too(api: Api) -> None:
    key = agent_key()
    for size, status in ((LIMIT, 200), (LIMIT + 1, 413)):
        body = body_of(key, size, f"e{size}")
        half = len(body) // 2
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:], b""))
        answer = await api.post(PATH, chunks, transfer_encoding="chunked")
        assert answer.status == status
    assert await api.ids(key) == [f"e{LIMIT}"]


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "compress"])
async def test_an_encoding_that_is_not_read_is_415(api: Api, encoding: str) -> None:
    answer = await api.post(PATH, {"sessionKey": "s", "entries": [entry(1)]}, content_encoding=encoding)
    assert answer.status == 415
    assert answer.error()


async def test_damaged_compression_is_400(api: Api) -> None:
    whole = gzip.compress(json.dumps({"sessionKey": "s", "entries": [entry(1)]}).encode())
    for body in (whole[:-4], whole + b"x", b"no gzip"):
        answer = await api.post(PATH, body, content_encoding="gzip")
        assert (answer.status, answer.error()) == (400, "the compressed body is damaged")


async def test_another_charset_is_415(api: Api) -> None:
    body = {"sessionKey": "s", "entries": [entry(1)]}
    answer = await api.post(PATH, body, content_type="application/json; charset=latin1")
    assert answer.status == 415
    assert answer.error()


@pytest.mark.parametrize(
    ("bad_id", "error"),
    [
        (b"x" * 1025, "entryId must be at most 1024 bytes"),
        ("é".encode() * 513, "entryId must be at most 1024 bytes"),
        (rb"a\u0000b", "entryId must not contain U+0000"),
        (rb"\ud800", "entryId must not contain lone surrogates"),
        (rb"\udc97x", "entryId must not contain lone surrogates"),
    ],
)
async def test_27_a_broken_entry_id_refuses_the_whole_request(api: Api, bad_id: bytes, error: str) -> None:
    key = agent_key()
    answer = await api.save(key, *numbered(range(3)), b'{"entryId":"%s"}' % bad_id, entry(4))
    assert (answer.status, answer.error()) == (400, error)
    assert await api.entries(key) == []


@pytest.mark.parametrize(
    ("bad_key", "error"),
    [
        (b"x" * 1025, "sessionKey must be at most 1024 bytes"),
        (rb"a\u0000b", "sessionKey must not contain U+0000"),
        (rb"\ud800", "sessionKey must not contain lone surrogates"),
        (b"agent:a1:native#cleared:1", "sessionKey is reserved"),
        (b"#cleared:", "sessionKey is reserved"),
    ],
)
async def test_a_key_that_names_nothing_is_refused(api: Api, bad_key: bytes, error: str) -> None:
    answer = await api.post(PATH, b'{"sessionKey":"%s","entries":[{"entryId":"e"}]}' % bad_key)
    assert (answer.status, answer.error()) == (400, error)


async def test_names_of_1024_bytes_are_stored(api: Api) -> None:
    key = fresh() + "é" * 504
    entry_id = "\U0001f9e6" * 256
    assert len(key.encode()) == len(entry_id.encode()) == 1024
    assert (await api.save(key, {"entryId": entry_id})).status == 200
    assert await api.ids(key) == [entry_id]


async def test_a_batch_of_4096_is_stored_and_one_more_is_not(api: Api) -> None:
    key = agent_key()
    items = [b'{"entryId":"%d"}' % number for number in range(4097)]
    refused = await api.save(key, *items)
    assert (refused.status, refused.error()) == (400, "too many entries")
    assert await api.entries(key) == []
    answer = await api.save(key, *items[:4096], None)
    assert (answer.status, answer.json()) == (200, {"ok": True, "saved": 4097, "stored": 4096})
    walked = [item["entryId"] for page in [page async for page in api.walk(key, limit=1000)][::-1] for item in page]
    assert walked == [str(number) for number in range(4096)]


async def test_the_last_of_duplicate_members_counts(api: Api) -> None:
    key = agent_key()
    twice = b'{"entryId":"first","entryId":"last","text":"a","text":"b"}'
    body = b'{"sessionKey":"nobody","entries":[],"entries":[%s],"sessionKey":"%s"}' % (twice, key.encode())
    assert (await api.post(PATH, body)).status == 200
    assert b'"entries":[%s]' % twice in (await api.page(key)).body
    await api.save(key, b'{"entryId":"last"}', b'{"entryId":"first"}')
    assert await api.ids(key) == ["last", "first"]


async def test_500_levels_are_stored_and_501_are_not(api: Api) -> None:
    key = agent_key()
    # The body's object, its array and the entry are three of the levels.
    deep = b'{"entryId":"%d","deep":' + b"[" * 497 + b"%s" + b"]" * 497 + b"}"
    assert (await api.save(key, deep % (1, b'"[[[["'))).status == 200
    refused = await api.save(key, deep % (2, b"{}"))
    assert (refused.status, refused.error()) == (400, "invalid JSON")
    assert b'"entries":[%s]' % (deep % (1, b'"[[[["')) in (await api.page(key)).body


@pytest.mark.parametrize("url", [rb"\ud800", rb"\u0000"])
async def test_a_gateway_url_that_no_text_column_holds_is_refused(api: Api, url: bytes) -> None:
    key = agent_key()
    body = b'{"sessionKey":"%s","gatewayUrl":"%s","entries":[{"entryId":"e"}]}' % (key.encode(), url)
    answer = await api.post(PATH, body)
    assert answer.status == 400
    assert answer.error().startswith("gatewayUrl must not contain")
    assert await api.entries(key) == []
