"""Entries come back byte for byte, in pages and in streams (chat-history-api.md, GET)."""

import json

import asyncpg
import pytest

from tests.api import Api, agent_key, entry, fresh, team_stream
from tests.served import fetch
from turnlog.domain.session_key import session_id

EXACT = [
    rb'{"entryId":"e","text":"a\u0000b","k\u0000":"\u0000"}',
    rb'{"entryId":"e","text":"x\udc97y","\ud800":["\ud83d","\ude00","\ud83d\ude00"]}',
    rb'{"entryId":"e","text":"\"\\\/\b\f\n\r\t","slash":"/","del":"\u007f"}',
    b'{"entryId":"e","n":1.10e400,"m":-0,"o":-0.0,"p":1E+2,"q":0.10000000000000000000000000000000001,"r":1e-999}',
    b'{"entryId":"e","big":123456789012345678901234567890,"safe":9007199254740993,"long":' + b"9" * 5000 + b"}",
    b'{"z":1,"a":2,"entryId":"e","10":0,"9":0,"__proto__":{"x":1},"":null}',
    b'{"a":1,"a":2,"entryId":"x","a":{"b":1,"b":[]},"entryId":"e"}',
    b'{ "entryId" :\t"e" ,  "list" : [ 1 ,2, { } ] ,"nothing":[ ] }',
    b'{"entryId":"e","text":"\xc3\xa9 e\xcc\x81 \xe2\x80\xa8\xe2\x80\xa9\xc2\x85 \xef\xbf\xbf \xef\xbb\xbf \x7f"}',
    "{\"entryId\":\"e\",\"text\":\"\U0001f468‍\U0001f469‍\U0001f467 한국어 日本語 \U0010ffff\"}".encode(),
    b'{"entryId":"e","role":5,"kind":null,"text":{"not":"text"},"timestampMs":"x","origin":{"kind":"routine"}}',
    b'{"\\u0065ntryId":"e","\\u0041":"\\u0042"}',
    b'{"entryId":"\\u0065","x":true,"y":false,"z":null}',
]  # fmt: skip


@pytest.mark.parametrize("sent", EXACT)
async def test_an_entry_comes_back_byte_for_byte(api: Api, sent: bytes) -> None:
    team = fresh("t")
    key = f"agent:a1:team:{team}"
    assert (await api.save(key, sent)).status == 200
    assert (await api.page(key)).body == b'{"entries":[%s],"hasMore":false,"nextBefore":null}' % sent
    async with api.stream(team_stream(team)) as reader:
        (row,) = await reader.rows(1)
        assert row.text is not None
        if any(mark in sent for mark in (b"\xe2\x80\xa8", b"\xc2\x85")):
            assert row.data == json.loads(sent)
        else:
            assert row.text.encode() == sent


async def test_entries_keep_their_line_breaks_in_pages_and_lose_them_in_streams(api: Api) -> None:
    team = fresh("t")
    key = f"agent:a1:team:{team}"
    sent = b'{\r\n  "entryId": "e",\n\r  "text":\t"a\xe2\x80\xa8b\xc2\x85c"\n}'
    await api.save(key, sent)
    assert b'"entries":[%s]' % sent in (await api.page(key)).body
    async with api.stream(team_stream(team)) as reader:
        (row,) = await reader.rows(1)
        assert row.text is not None
        assert len(row.text.splitlines()) == 1
        assert row.data == json.loads(sent)


async def test_whitespace_around_entries_is_not_theirs(api: Api) -> None:
    key = agent_key()
    await api.save(key, b' \n{"entryId":"a" }\t', b'\r\n {"entryId":"b"}')
    assert b'"entries":[{"entryId":"a" },{"entryId":"b"}]' in (await api.page(key)).body


async def test_many_exact_entries_in_one_request(api: Api) -> None:
    key = agent_key()
    sent = [text.replace(b'"entryId":"e"', b'"entryId":"e%d"' % number) for number, text in enumerate(EXACT[:11])]
    assert (await api.save(key, *sent)).json()["stored"] == len(sent)
    assert b'"entries":[%s]' % b",".join(sent) in (await api.page(key)).body


async def test_a_stored_text_that_is_no_json_object_can_not_exist(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    assert await api.entries(key) == [entry(1)]
    change = "UPDATE transcript_entries SET entry = $2 WHERE session_id = $1"
    for text in ("{bad", "", '"text"', "[]", "{}{}"):
        with pytest.raises(asyncpg.CheckViolationError, match="entry_is_json"):
            await fetch(api.database, change, session_id(key), text)
    assert await api.entries(key) == [entry(1)]
