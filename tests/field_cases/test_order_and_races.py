"""Order, equal times and writers that meet: C18, C20, C21, C23, C47, C56.

| case | tested now | waits for a later surface |
| - | - | - |
| C18 | no clock decides: 200 writes of one writer within moments, epochs included, none refused as stale | - |
| C20 | another writer's saves raise no epoch and refuse nothing | a running turn's notes |
| C21 | one idempotency key is one write, however many senders race | starting runs |
| C23 | order is arrival, whatever the times say, by page, walk and stream | - |
| C47 | after reset, clear and delete an old epoch saves nothing, the new one does | response ids in runs |
| C56 | any write may be a conversation's first | - |
"""

from typing import Any

import pytest

from tests.api import Api, agent_key, entry, fresh, numbered, together

AT = 1_761_650_000_000


async def test_c18_two_hundred_writes_in_a_moment_are_never_stale(api: Api) -> None:
    key = agent_key()
    epoch = await api.epoch(key)
    for number in range(100):
        assert (await api.save(key, entry(number, timestampMs=AT, sequenceKey=AT))).status == 200
        assert (await api.save_resume(key, f"r{number}", epoch)).status == 200
    assert await api.ids(key) == [f"e{number}" for number in range(100)]
    assert await api.resume_id(key) == "r99"


async def test_c18_two_hundred_writes_at_once_are_never_stale(api: Api) -> None:
    key = agent_key()
    epoch = await api.epoch(key)
    answers: list[Any] = []
    for start in range(0, 200, 40):
        saves = [api.save(key, entry(start + number, timestampMs=AT + 0.1)) for number in range(20)]
        points = [api.save_resume(key, f"r{start + number}", epoch) for number in range(20)]
        answers += await together(*saves, *points)
    assert {answer.status for answer in answers} == {200}
    assert len(await api.ids(key)) == 100


async def test_c20_another_writer_makes_nothing_stale(api: Api) -> None:
    team = fresh("t")
    key, room, mate = (f"agent:{rest}" for rest in (f"a:team:{team}", f"a:team:{team}:room:r", f"b:team:{team}"))
    epoch = await api.epoch(key)
    for number in range(5):
        assert (await api.save(key, entry(number))).status == 200
        assert (await api.save(key, entry(f"note{number}", source="history"))).status == 200
        assert (await api.save(mate, entry(number))).status == 200
        assert (await api.clear(team, "r")).status == 200
        assert (await api.reset(mate, room)).status == 200
        assert (await api.delete(room)).status == 200
        assert (await api.save_resume(key, f"r{number}", epoch)).status == 200
    assert await api.ids(key) == [f"{kind}{number}" for number in range(5) for kind in ("e", "enote")]
    assert (await api.epoch(key), await api.resume_id(key)) == (epoch, "r4")


async def test_c21_two_sends_at_once_with_one_key_are_one(api: Api) -> None:
    key = agent_key()
    for number in range(100):
        sent = [api.save(key, entry(number), idempotency_key=f"{key}-{number}") for _ in range(2)]
        answers = await together(*sent)
        assert {answer.status for answer in answers} == {200}
        assert len({answer.headers["turnlog-position"] for answer in answers}) == 1
    assert await api.ids(key) == [f"e{number}" for number in range(100)]


async def test_c21_two_different_sends_at_once_with_one_key_are_one_and_a_refusal(api: Api) -> None:
    key = agent_key()
    for number in range(20):
        sent = [api.save(key, entry(f"{number}{half}"), idempotency_key=f"{key}-{number}") for half in "ab"]
        answers = await together(*sent)
        assert sorted(answer.status for answer in answers) == [200, 422]
        stored = "ab"[[answer.status for answer in answers].index(200)]
        assert (await api.ids(key))[-1] == f"e{number}{stored}"
    assert len(await api.ids(key)) == 20


async def test_c21_of_two_endings_at_once_with_one_key_one_takes_place(api: Api) -> None:
    key = agent_key()
    answers = await together(*(api.reset(key, idempotency_key=f"{key}-reset") for _ in range(10)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert len(await api.ids(key)) == 1


@pytest.mark.parametrize("times", [[AT], [0], [-1.5, 2**63, 0.1], [AT, AT - 1], [None, "soon", AT]])
async def test_c23_order_is_arrival_whatever_the_times_say(api: Api, times: list[Any]) -> None:
    name = fresh("a")
    key = f"agent:{name}:native"
    sent = [
        entry(n, timestampMs=times[n % len(times)], sequenceKey=times[-1]) for n in (*range(50), *range(99, 50, -1))
    ]
    assert (await api.save(key, *sent[:50])).status == 200
    for item in sent[50:60]:
        assert (await api.save(key, item)).status == 200
    assert (await api.save(key, *sent[60:])).status == 200
    for _ in range(20):
        assert await api.entries(key, limit=1000) == sent
    walked = [page async for page in api.walk(key, limit=7)]
    assert [item for page in reversed(walked) for item in page] == sent
    async with api.stream(f"/api/agents/{name}/chat/stream") as reader:
        assert [event.data for event in await reader.rows(len(sent))] == sent


@pytest.mark.parametrize("ending", ["reset", "clear", "delete"])
async def test_c47_what_an_ending_left_behind_chains_into_nothing(api: Api, ending: str) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    before = await api.epoch(key)
    assert (await api.save_resume(key, "old", before)).status == 200
    await api.save(key, *numbered(range(3)))
    ended = (
        await {"reset": api.reset, "delete": api.delete}[ending](key) if ending != "clear" else await api.clear(team)
    )
    assert ended.status == 200
    now = await api.epoch(key)
    assert now > before
    for _ in range(3):
        late = await api.save_resume(key, "late", before)
        if ending == "delete":
            assert (late.status, late.error()) == (410, "the session was deleted meanwhile")
        else:
            assert (late.status, late.json()["epoch"]) == (409, now)
    assert await api.resume_id(key) is None
    assert (await api.save_resume(key, "new", now)).status == 200
    assert (await api.save_resume(key, "late", before)).status in (409, 410)
    assert await api.resume_id(key) == "new"


async def test_c47_a_save_that_races_a_reset_is_before_it_or_refused(api: Api) -> None:
    key = agent_key()
    for turn in range(15):
        epoch = await api.epoch(key)
        saves = [api.save_resume(key, f"r{turn}", epoch) for _ in range(3)]
        *answers, ended = await together(*saves, api.reset(key))
        assert ended.status == 200
        assert {answer.status for answer in answers} <= {200, 409}
        assert await api.resume_id(key) is None


FIRSTS = ["save", "save_resume", "clear_resume", "reset", "clear", "delete", "page", "stream"]


@pytest.mark.parametrize("first", FIRSTS)
async def test_c56_anything_may_be_the_first_of_a_conversation(api: Api, first: str) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    match first:
        case "save":
            answer = await api.save(key, entry("first"))
        case "save_resume":
            answer = await api.save_resume(key, "r")
        case "clear":
            answer = await api.clear(team)
        case "stream":
            async with api.stream(f"/api/teams/{team}/chat/stream"):
                answer = await api.page(key)
        case _:
            answer = await getattr(api, first)(key)
    assert answer.status == 200
    first_ids = {"save": ["efirst"], "reset": [(await api.ids(key) or [""])[0]]}.get(first, [])
    assert (await api.save(key, *numbered(range(3)))).status == 200
    assert await api.ids(key) == [*first_ids, "e0", "e1", "e2"]


async def test_c56_a_hundred_conversations_begin_at_once(api: Api) -> None:
    team = fresh("t")
    keys = [f"agent:a{number}:team:{team}" for number in range(100)]
    for start in range(0, 100, 25):
        answers = await together(*(api.save(key, entry(1)) for key in keys[start : start + 25] for _ in range(2)))
        assert {answer.status for answer in answers} == {200}
    for key in keys:
        assert await api.ids(key) == ["e1"]
