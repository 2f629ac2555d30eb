"""Cases 29-33: POST /api/chat-history/reset-context."""

import time

import pytest

from tests.api import RESET, Api, agent_key, entry, fresh, team_stream, together


async def test_29_a_reset_adds_a_divider_and_moves_nothing(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1), entry(2))
    before = time.time() * 1000
    answer = await api.reset(key)
    assert (answer.status, list(answer.json())) == (200, ["ok", "entry"])
    divider = answer.json()["entry"]
    assert before - 5_000 < divider["timestampMs"] < time.time() * 1000 + 5_000
    assert divider["entryId"].startswith("context-reset-")
    assert divider["text"].startswith("Starting fresh")
    assert divider == {
        "entryId": divider["entryId"], "role": "system", "kind": "meta", "text": divider["text"], "sessionKey": key,
        "runId": None, "source": "local-send", "timestampMs": divider["timestampMs"],
        "sequenceKey": divider["timestampMs"], "confirmed": True, "fingerprint": divider["entryId"],
    }  # fmt: skip
    assert await api.entries(key) == [entry(1), entry(2), divider]


async def test_29_the_answered_divider_is_the_stored_one_byte_for_byte(api: Api) -> None:
    team = fresh("t")
    key = f"agent:a1:team:{team}"
    async with api.stream(team_stream(team)) as reader:
        answer = await api.reset(key)
        (row,) = await reader.rows(1)
    assert row.text is not None
    assert answer.body == b'{"ok":true,"entry":%s}' % row.text.encode()
    assert (await api.page(key)).body == b'{"entries":[%s],"hasMore":false,"nextBefore":null}' % row.text.encode()


async def test_29_each_reset_makes_one_divider(api: Api) -> None:
    key = agent_key()
    dividers = [(await api.reset(key)).json()["entry"] for _ in range(3)]
    assert len({divider["entryId"] for divider in dividers}) == 3
    assert await api.entries(key) == dividers


async def test_29_resets_at_the_same_time_make_one_divider_each(api: Api) -> None:
    key = agent_key()
    answers = await together(*(api.reset(key) for _ in range(8)))
    made = {answer.json()["entry"]["entryId"] for answer in answers}
    assert len(made) == 8
    assert set(await api.ids(key)) == made


async def test_29_what_is_said_after_a_reset_stands_below_the_divider(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    divider = (await api.reset(key)).json()["entry"]
    await api.save(key, entry(2), entry(1))
    assert await api.ids(key) == ["e1", divider["entryId"], "e2"]


async def test_31_the_notice_goes_to_the_first_usable_key(api: Api) -> None:
    first, second = (f"agent:{name}:team:{fresh('t')}" for name in ("a", "b"))
    for keys in (["", first], [first, second], [None, 5, first, second]):
        answer = await api.post(RESET, {"sessionKeys": keys})
        assert answer.json()["entry"]["sessionKey"] == first
    for other in (7, None, [second], {"sessionKey": second}):
        answer = await api.post(RESET, {"sessionKeys": [first, second], "noticeSessionKey": other})
        assert answer.json()["entry"]["sessionKey"] == first
    assert await api.entries(second) == []
    assert len(await api.entries(first)) == 7


@pytest.mark.parametrize(
    "body",
    [
        {}, {"sessionKeys": []}, {"sessionKeys": [42]}, {"sessionKeys": [""]}, {"sessionKeys": "x"},
        {"sessionKeys": None}, {"sessionKeys": {"0": "x"}}, {"sessionKeys": [None, [], {}]}, {"sessionkeys": ["x"]},
        {"sessionKeys": [], "noticeSessionKey": "x"},
    ],
)  # fmt: skip
async def test_32_a_usable_key_is_required(api: Api, body: object) -> None:
    answer = await api.post(RESET, body)
    assert (answer.status, answer.error()) == (400, "sessionKeys[] required")


@pytest.mark.parametrize("headers", [{}, {"content_type": "application/json"}, {"content_type": "text/plain"}])
async def test_32_no_body_has_no_key(api: Api, headers: dict[str, str]) -> None:
    answer = await api.ask("POST", RESET, given=headers)
    assert (answer.status, answer.error()) == (400, "sessionKeys[] required")


@pytest.mark.parametrize("body", [b"{bad", b"[]", b"null", b'"x"'])
async def test_32_what_is_not_a_json_object_is_invalid_json(api: Api, body: bytes) -> None:
    answer = await api.post(RESET, body)
    assert (answer.status, answer.error()) == (400, "invalid JSON")


@pytest.mark.parametrize("notice", ["elsewhere", ""])
async def test_33_a_notice_key_outside_the_list_changes_nothing(api: Api, notice: str) -> None:
    team = fresh("t")
    keys = [f"agent:{name}:team:{team}" for name in ("a", "b")]
    for key in keys:
        await api.save(key, entry(1))
        await api.save_resume(key, "resume")
    answer = await api.reset(*keys, notice=notice)
    assert (answer.status, answer.error()) == (400, "noticeSessionKey must be one of sessionKeys")
    for key in keys:
        assert await api.entries(key) == [entry(1)]
        assert await api.resume_id(key) == "resume"
        assert await api.epoch(key) == 0


async def test_a_team_is_reset_as_one(api: Api) -> None:
    team = fresh("t")
    keys = [f"agent:{name}:team:{team}" for name in ("a", "b", "c")]
    for key in keys[:2]:
        await api.save(key, entry(1))
        await api.save_resume(key, "resume")
    answer = await api.reset(*keys, keys[0], notice=keys[1])
    assert answer.json()["entry"]["sessionKey"] == keys[1]
    epochs = {await api.epoch(key) for key in keys}
    assert len(epochs) == 1
    assert min(epochs) > 0
    for key in keys:
        assert await api.resume_id(key) is None
    assert [len(await api.entries(key)) for key in keys] == [1, 2, 0]
    assert answer.headers["turnlog-position"].count("-") == 1


async def test_keys_of_several_streams_are_all_reset_with_one_divider(api: Api) -> None:
    keys = [agent_key(), f"agent:a:team:{fresh('t')}", fresh("opaque"), agent_key()]
    for key in keys:
        await api.save(key, entry(1))
        await api.save_resume(key, "resume")
    answer = await api.reset(*keys, notice=keys[2])
    assert answer.status == 200
    named = [position.partition("-")[0] for position in answer.headers["turnlog-position"].split(",")]
    assert 1 <= len(named) == len(set(named)) <= 4
    for key in keys:
        assert await api.resume_id(key) is None
        assert await api.epoch(key) > 0
    assert [len(await api.entries(key)) for key in keys] == [1, 1, 2, 1]


async def test_a_reset_with_an_unusable_key_name_changes_nothing(api: Api) -> None:
    key = agent_key()
    await api.save_resume(key, "resume")
    for bad in ("a\x00b", "\ud800", "x" * 1025, f"{key}#cleared:1"):
        answer = await api.reset(key, bad)
        assert answer.status == 400
        assert answer.error().startswith("sessionKey")
    assert await api.resume_id(key) == "resume"
    assert await api.entries(key) == []
