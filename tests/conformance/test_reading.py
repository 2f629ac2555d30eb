"""Cases 1-15: GET /api/chat-history."""

import pytest

from tests.api import PATH, Api, agent_key, entry, numbered, target, team_stream

EMPTY = b'{"entries":[],"hasMore":false,"nextBefore":null}'


def texts(entries: list[dict[str, object]]) -> list[object]:
    return [item["text"] for item in entries]


def messages(first: int, last: int) -> list[str]:
    return [f"m{number}" for number in range(first, last + 1)]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("", id="01-missing"),
        pytest.param("?sessionKey=", id="02-empty"),
        pytest.param("?sessionKey", id="02-bare"),
        pytest.param("?sessionKey=x&sessionKey=y", id="03-repeated"),
        pytest.param("?sessionKey[a]=x", id="03-bracketed"),
        pytest.param("?sessionKey%5Ba%5D=x", id="03-bracketed-encoded"),
        pytest.param("?sessionKey[]=x", id="03-array"),
        pytest.param("?sessionkey=x", id="01-another-name"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_01_02_03_one_plain_session_key_is_required(api: Api, method: str, query: str) -> None:
    answer = await api.ask(method, PATH + query)
    assert (answer.status, answer.error()) == (400, "sessionKey required")


async def test_04_an_unknown_session_is_an_empty_page(api: Api) -> None:
    answer = await api.page(agent_key())
    assert (answer.status, answer.body) == (200, EMPTY)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


async def test_05_entries_come_back_in_posted_order(api: Api) -> None:
    key, posted = agent_key(), numbered(range(1, 6))
    assert (await api.save(key, *posted)).status == 200
    assert (await api.page(key)).json() == {"entries": posted, "hasMore": False, "nextBefore": None}


async def test_05_entries_of_several_requests_come_back_in_posted_order(api: Api) -> None:
    key, posted = agent_key(), numbered(range(12))
    for item in posted:
        await api.save(key, item)
    assert await api.entries(key) == posted


async def test_06_07_a_session_is_read_page_by_page_from_its_end(api: Api) -> None:
    key = agent_key()
    await api.save(key, *numbered(range(1, 251)))
    newest = (await api.page(key, limit=200)).json()
    assert texts(newest["entries"]) == messages(51, 250)
    assert newest["hasMore"] is True
    assert isinstance(newest["nextBefore"], int)
    older = (await api.page(key, limit=200, before=newest["nextBefore"])).json()
    assert texts(older["entries"]) == messages(1, 50)
    assert (older["hasMore"], older["nextBefore"]) == (False, None)


async def test_06_next_before_is_the_row_id_of_the_oldest_row_that_streams_show(api: Api) -> None:
    agent = agent_key()
    await api.save(agent, *numbered(range(9)))
    async with api.stream(f"/api/agents/{agent.split(':')[1]}/chat/stream") as reader:
        rows = await reader.rows(9)
    assert (await api.page(agent, limit=4)).json()["nextBefore"] == rows[5].id
    assert await api.ids(agent, before=str(rows[5].id)) == [f"e{n}" for n in range(5)]


@pytest.mark.parametrize("count", [1, 200])
async def test_08_exactly_a_page_has_nothing_more(api: Api, count: int) -> None:
    key = agent_key()
    await api.save(key, *numbered(range(count)))
    page = (await api.page(key, limit=count)).json()
    assert (len(page["entries"]), page["hasMore"], page["nextBefore"]) == (count, False, None)


async def test_09_no_page_is_longer_than_1000(api: Api) -> None:
    key = agent_key()
    await api.save(key, *numbered(range(1, 1206)))
    for limit in ("5000", "1001", "1000", "9" * 400):
        page = (await api.page(key, limit=limit)).json()
        assert texts(page["entries"]) == messages(206, 1205)
        assert page["hasMore"] is True


@pytest.mark.parametrize(
    ("limit", "length"),
    [
        ("abc", 200), ("", 200), ("0", 200), ("-1", 200), ("-5", 200), ("-9999", 200), ("NaN", 200), ("-", 200),
        ("00", 200), ("12abc", 12), (" 7", 7), ("+5", 5), ("3.9", 3), ("1e3", 1), ("007", 7), ("\t9", 9), ("201", 201),
        ("\u0663", 200), ("1,000", 1), ("Infinity", 200),
    ],
)  # fmt: skip
async def test_10_11_limit_is_the_leading_integer_else_200(api: Api, limit: str, length: int) -> None:
    key = agent_key()
    await api.save(key, *numbered(range(1, 206)))
    page = (await api.page(key, limit=limit)).json()
    assert texts(page["entries"]) == messages(206 - length, 205)
    assert page["hasMore"] is True
    assert isinstance(page["nextBefore"], int)


async def test_10_without_a_limit_a_page_has_200(api: Api) -> None:
    key = agent_key()
    await api.save(key, *numbered(range(1, 206)))
    assert texts(await api.entries(key)) == messages(6, 205)


@pytest.mark.parametrize(
    "before",
    [
        "not-a-number", "", "1.5", "1e3", "5 ", "9007199254740992", "-9007199254740992", "9" * 300, "0x10", "null",
        "\u0663", "1_0",
    ],
)  # fmt: skip
async def test_12_what_is_no_safe_integer_is_no_cursor(api: Api, before: str) -> None:
    key, posted = agent_key(), numbered(range(3))
    await api.save(key, *posted)
    assert (await api.page(key, before=before)).json() == {"entries": posted, "hasMore": False, "nextBefore": None}


@pytest.mark.parametrize("before", ["0", "-1", "-9007199254740991", "1"])
async def test_12_nothing_lies_before_the_first_row(api: Api, before: str) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    assert (await api.page(key, before=before)).body == EMPTY


async def test_12_everything_lies_before_the_largest_integer(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    assert await api.entries(key, before=2**53 - 1) == [entry(1)]


async def test_14_interleaved_sessions_are_read_apart(api: Api) -> None:
    first, second = agent_key(), agent_key()
    for number in range(11):
        await api.save(first, entry(f"a{number}"))
        await api.save(second, entry(f"b{number}"))
    for key, letter in ((first, "a"), (second, "b")):
        walked = [item["entryId"] for page in [page async for page in api.walk(key, limit=3)][::-1] for item in page]
        assert walked == [f"e{letter}{number}" for number in range(11)]


async def test_14_a_walk_sees_every_row_once_whatever_is_appended_meanwhile(api: Api) -> None:
    key = agent_key()
    await api.save(key, *numbered(range(1, 31)))
    seen: list[object] = []
    late = 100
    async for page in api.walk(key, limit=4):
        seen[:0] = texts(page)
        await api.save(key, entry(late))
        late += 1
    assert seen == messages(1, 30)


async def test_15_arrival_decides_the_order_not_the_clock_of_the_sender(api: Api) -> None:
    key = agent_key()
    times = [5_000, 4_000, None, -1, 4_000.5, 9e300]
    posted = [entry(number, timestampMs=at) for number, at in enumerate(times)]
    for item in posted:
        await api.save(key, item)
    assert await api.entries(key) == posted


@pytest.mark.parametrize("suffix", ["#cleared:1761650000000", "#cleared:", "#cleared:x:more"])
async def test_a_reserved_key_reads_as_empty(api: Api, suffix: str) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    assert (await api.page(key + suffix)).body == EMPTY


@pytest.mark.parametrize("key", ["%00", "a%00b", "%ED%A0%80", "%FF", "x" * 5000, "%", "%zz"])
async def test_a_key_that_can_not_be_stored_reads_as_empty(api: Api, key: str) -> None:
    answer = await api.ask("GET", f"{PATH}?sessionKey={key}")
    assert (answer.status, answer.body) == (200, EMPTY)


async def test_head_answers_as_get_without_the_body(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    full = await api.page(key)
    head = await api.ask("HEAD", target(PATH, sessionKey=key))
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(full.body))


async def test_a_page_of_a_team_session_agrees_with_the_stream(api: Api) -> None:
    key = f"agent:a1:team:{agent_key()}"
    await api.save(key, *numbered(range(5)))
    async with api.stream(team_stream(key.partition(":team:")[2])) as reader:
        assert [row.data for row in await reader.rows(5)] == await api.entries(key)
