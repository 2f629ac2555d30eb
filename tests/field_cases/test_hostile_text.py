"""Text that breaks storages: C1, C3, C4, C7, C8, C53, C58, C59.

| case | tested now | waits for a later surface |
| - | - | - |
| C1 | U+0000 in values and member names comes back as sent, by page and stream | run status |
| C3 | lone surrogates are kept, answers are UTF-8, errors repeat none of the input | - |
| C4 | entries are never shortened, whatever a cut would split | previews with a length limit |
| C7 | no text column has a length: errors, authors and unknown members of any size | - |
| C8 | messages of 250,000 distinct words and of 2 MiB are saved and read | full-text search |
| C53 | an id is the same in page, stream and table | export |
| C58 | a batch is stored whole or not at all, wherever it fails | - |
| C59 | UTF-8 is stored as UTF-8, found by LIKE, and no longer than sent | - |
"""

import json
from typing import Any

import pytest

from tests.api import Api, agent_key, entry, fresh
from tests.plain_client import Answer
from tests.served import fetch

AGENT_STREAM = "/api/agents/{}/chat/stream"
NASTY = [
    "a\0b",
    "\0",
    "\udc97",
    "x\udc97y",
    "\ud83d",
    "\ude00\ud83d",
    "\ufffe\uffff",
    "\u2028\u2029",
    '"\\',
    "\r\n\t",
    "\x7f\x1b[0m",
]


async def delivered(api: Api, name: str, count: int) -> list[str]:
    """The agent's stored entries as a stream sends them: their exact texts."""
    async with api.stream(AGENT_STREAM.format(name)) as reader:
        return [event.text or "" for event in await reader.rows(count)]


def as_utf8(answer: Answer) -> str:
    """The body as text; fails if it isn't UTF-8."""
    return answer.body.decode("utf-8", "strict")


@pytest.mark.parametrize("place", ["text", "value", "key", "deep", "text and key"])
async def test_c01_c03_a_nul_or_lone_surrogate_comes_back_as_it_was_sent(api: Api, place: str) -> None:
    def members(text: str) -> dict[str, Any]:
        shapes: dict[str, dict[str, Any]] = {
            "text": {"text": text},
            "value": {"toolResult": {"out": text}},
            "key": {"toolResult": {text: 1}},
            "deep": {"toolResult": [[{"a": [{text: [text]}]}]]},
            "text and key": {"text": text, text: text},
        }
        return shapes[place]

    name = fresh("a")
    key = f"agent:{name}:native"
    sent = [entry(number, key=key) | members(text) for number, text in enumerate(NASTY)]
    for item in sent:
        answer = await api.save(key, item)
        assert (answer.status, answer.json()["stored"]) == (200, 1)
    page = await api.page(key)
    assert ",".join(map(json.dumps, sent)) in as_utf8(page)
    assert page.json()["entries"] == sent
    assert await delivered(api, name, len(sent)) == [json.dumps(item) for item in sent]


@pytest.mark.parametrize("field", ["sessionKey", "entryId", "resumeId", "noticeSessionKey", "roomId"])
async def test_c03_an_error_repeats_nothing_of_what_it_refuses(api: Api, field: str) -> None:
    key = agent_key()
    for bad in ("x\udc97y", "\0", "\ud83d" * 300, "k" * 1025):
        answer = await {
            "sessionKey": lambda bad: api.save(bad, entry(1)),
            "entryId": lambda bad: api.save(key, entry(1) | {"entryId": bad}),
            "resumeId": lambda bad: api.save_resume(key, bad),
            "noticeSessionKey": lambda bad: api.reset(key, notice=bad),
            "roomId": lambda bad: api.clear("t", bad),
        }[field](bad)
        assert answer.status == 400
        assert as_utf8(answer)
        text = answer.error()
        assert 0 < len(text) < 200
        assert "\0" not in text
        assert text.encode()  # fails on a lone surrogate
    assert await api.entries(key) == []


async def test_c04_no_character_is_ever_cut(api: Api) -> None:
    key = agent_key()
    pieces = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301", "\U0001f1e9\U0001f1ea", "한"]
    sent = [
        entry(f"{length}-{around}-{number}", "a" * (length - around) + piece)
        for length in (200, 256, 1024, 8160, 65_536)
        for around in range(1, 4)
        for number, piece in enumerate(pieces)
    ]
    raw = [json.dumps(item, ensure_ascii=False).encode() for item in sent]
    assert (await api.save(key, *raw)).status == 200
    assert b"[" + b",".join(raw) + b"]" in (await api.page(key)).body


@pytest.mark.parametrize("length", [255, 256, 300, 5_000, 70_000, 1_000_000])
async def test_c07_no_text_is_too_long_for_its_column(api: Api, length: int) -> None:
    key = agent_key()
    long = "e" * length
    sent = entry(1, errorMessage=long, author=long[:300_000], runId=long[:300_000])
    sent["m" * min(length, 100_000)] = True
    assert (await api.save(key, sent)).status == 200
    assert await api.entries(key) == [sent]


async def test_c07_everything_kept_in_a_column_of_its_own_takes_what_its_limit_allows(api: Api) -> None:
    key = "k" * (1024 - 16) + fresh()[:16]
    body = {"sessionKey": key, "gatewayUrl": "https://" + "g" * 20_000, "entries": [entry("i" * 1023)]}
    assert (await api.post("/api/chat-history", body)).status == 200
    assert await api.ids(key) == ["e" + "i" * 1023]
    assert (await api.save_resume(key, "r" * 1024)).status == 200
    assert await api.resume_id(key) == "r" * 1024


@pytest.mark.parametrize("words", [1, 250_000])
async def test_c08_a_message_of_many_distinct_words_is_saved_and_read(api: Api, words: int) -> None:
    key = agent_key()
    text = " ".join(f"{number:x}z" for number in range(words))
    assert (await api.save(key, entry(1, text))).status == 200
    assert await api.entries(key) == [entry(1, text)]


async def test_c08_a_body_of_exactly_two_mebibytes_is_saved_and_one_byte_more_is_not(api: Api) -> None:
    key = agent_key()
    frame = json.dumps({"sessionKey": key, "entries": [entry(1, "")]})
    words = " ".join(f"w{number}" for number in range(300_000))
    text = words[: 2 * 1024 * 1024 - len(frame)]
    body = frame.replace('"text": ""', f'"text": "{text}"')
    assert (await api.post("/api/chat-history", (body + " ").encode())).status == 413
    assert await api.entries(key) == []
    assert (await api.post("/api/chat-history", body.encode())).status == 200
    assert await api.entries(key) == [entry(1, text)]


IDS = [
    "e-1",
    " e-1",
    "E-1",
    "é",
    "e\u0301",
    "1",
    "01",
    "null",
    "\U0001f9e6",
    "a b",
    "%",
    "'",
    '"',
    "\u2028",
    "x" * 1024,
]


async def test_c53_an_id_is_the_same_everywhere_and_only_equals_itself(api: Api) -> None:
    name = fresh("a")
    key = f"agent:{name}:native"
    sent = [entry(1) | {"entryId": entry_id} for entry_id in IDS]
    assert (await api.save(key, *sent)).json()["stored"] == len(IDS)
    await api.save(key, *sent)
    assert await api.ids(key) == IDS
    assert [json.loads(text)["entryId"] for text in await delivered(api, name, len(IDS))] == IDS
    rows = await fetch(
        api.database,
        "SELECT e.entry FROM transcript_entries e JOIN sessions s USING (session_id) WHERE s.session_key = $1"
        " ORDER BY e.row_id",
        key,
    )
    assert [json.loads(row["entry"])["entryId"] for row in rows] == IDS


BAD_ITEMS = [
    '{"entryId":"a\\u0000"}',
    '{"entryId":"\\ud800"}',
    '{"entryId":"' + "x" * 1025 + '"}',
    '{"entryId":',
    "[1e",
    "nul",
]


@pytest.mark.parametrize("at", [0, 41, 44])
async def test_c58_a_batch_that_fails_anywhere_stores_nothing(api: Api, at: int) -> None:
    key = agent_key()
    items = [json.dumps(entry(number)).encode() for number in range(45)]
    for bad in BAD_ITEMS:
        assert (await api.save(key, *items[:at], bad.encode(), *items[at:])).status == 400
        assert await api.entries(key) == []
    assert (await api.save(key, *items)).status == 200
    assert await api.ids(key) == [f"e{number}" for number in range(45)]


async def test_c58_no_batch_within_the_limit_is_split(api: Api) -> None:
    for count in (1, 20, 21, 45, 999, 4_096):
        key = agent_key()
        sent = [{"entryId": f"e{number}"} for number in range(count)]
        assert (await api.save(key, *sent)).json()["stored"] == count
        pages = [page async for page in api.walk(key, limit=1000)]
        assert [item for page in reversed(pages) for item in page] == sent
    key = agent_key()
    assert (await api.save(key, *({"entryId": f"e{number}"} for number in range(4_097)))).status == 400
    assert await api.entries(key) == []


@pytest.mark.parametrize(
    "text", ["한국어 검색", "日本語の検索", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "Ελληνικά ѣ"]
)
async def test_c59_utf8_stays_utf8_and_is_found_by_like(api: Api, text: str) -> None:
    key = agent_key()
    marker = fresh("m")
    raw = json.dumps(entry(marker, text * 50), ensure_ascii=False).encode()
    assert (await api.save(key, raw)).status == 200
    assert raw in (await api.page(key)).body
    rows = await fetch(
        api.database,
        "SELECT octet_length(entry) FROM transcript_entries WHERE entry LIKE $1 AND entry LIKE $2",
        f"%{text}%",
        f"%{marker}%",
    )
    assert [row[0] for row in rows] == [len(raw)]
