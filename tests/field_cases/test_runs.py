"""What runs append, for which no route exists yet: C7, C18, C20, C21, C47, by the services within one process.

| case | tested now | waits for a later surface |
| - | - | - |
| C7 | errors of 5,000 characters and authors of 300 go into an event and through the fold | where they are shown |
| C18 | 200 turns in a row, each on condition of the position before, none refused as stale | - |
| C20 | a note by somebody else during a run refuses nothing of the run | - |
| C21 | of runs that start at the same time one holds the session, a hundred times over | queues shown to callers |
| C47 | work begun before a reset stores its words outside the context and its resume point nowhere | - |
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest

from tests.api import agent_key, fresh, together
from tests.own_task import in_own_task
from tests.postgres_server import Database
from tests.served import own_store
from turnlog.domain.entries import Entry
from turnlog.domain.errors import Conflict
from turnlog.domain.event_data import EventData, ResumePointData, TurnAppended, TurnReleased, TurnStarted
from turnlog.domain.events import EventType
from turnlog.domain.session_key import stream_of
from turnlog.infra.settings import load_settings
from turnlog.services.composition import Turnlog, open_turnlog
from turnlog.services.event_factory import Origin
from turnlog.services.verdicts import Answer, Verdicts

LEASE_MS = 60_000
WAIT_MS = 20_000


@dataclass(frozen=True, slots=True)
class Runs:
    """A running turnlog, and what a runner asks it."""

    turnlog: Turnlog
    verdicts: Verdicts

    async def ask(self, event_type: EventType, key: str, data: EventData) -> Answer:
        """Append and wait for the verdict, which is kept for requests with an idempotency key."""
        origin = Origin(idempotency_key=fresh(), request_hash=bytes(32))
        return await self.verdicts.ask(event_type, stream_of(key), key, data, origin)

    async def start(self, key: str, run_id: str) -> bool:
        """Whether a run that asks for the session gets it."""
        data = TurnStarted(session_key=key, run_id=run_id, lease=LEASE_MS)
        try:
            await self.ask(EventType.TURN_STARTED, key, data)
        except Conflict:
            return False
        return True

    async def ids(self, key: str) -> list[str]:
        """The session's entry ids."""
        page = await self.turnlog.reading.page(key, limit=1000)
        return [entry["entryId"] for entry in msgspec.json.decode(b"[%s]" % page.entries)]


@pytest.fixture(scope="module")
async def runs(
    postgres_server: Database, template_database: Database, log_settings: dict[str, str]
) -> AsyncIterator[Runs]:
    """A turnlog in this process, on each log."""
    async with (
        own_store(postgres_server, template_database, log_settings) as (_, store),
        in_own_task(open_turnlog(load_settings(store))) as turnlog,
    ):
        yield Runs(turnlog, Verdicts(turnlog.database, turnlog.log, turnlog.applied, wait_ms=WAIT_MS))


def entry(entry_id: str) -> msgspec.Raw:
    """An entry with nothing but its id."""
    return msgspec.Raw(b'{"entryId":"%s"}' % entry_id.encode())


async def test_c07_long_texts_are_stored(runs: Runs) -> None:
    key = agent_key()
    data = TurnAppended(
        session_key=key, entries=[entry("e")], outcome="failed", error="x" * 5_000, agent="a" * 300, model="m" * 300,
        finish_reason="f" * 5_000, run_id="r" * 300,
    )  # fmt: skip
    assert (await runs.ask(EventType.TURN_APPENDED, key, data)).stored == 1
    assert await runs.ids(key) == ["e"]


async def test_c18_two_hundred_conditional_turns_are_never_stale(runs: Runs) -> None:
    key, last = agent_key(), 0
    for number in range(200):
        data = TurnAppended(session_key=key, entries=[entry(f"e{number}")], if_position=last)
        last = (await runs.ask(EventType.TURN_APPENDED, key, data)).position.offset
    assert await runs.ids(key) == [f"e{number}" for number in range(200)]
    stale = TurnAppended(session_key=key, entries=[entry("stale")], if_position=last - 1)
    with pytest.raises(Conflict):
        await runs.ask(EventType.TURN_APPENDED, key, stale)


async def test_c20_a_note_during_a_run_refuses_nothing(runs: Runs) -> None:
    key = agent_key()
    assert await runs.start(key, "run")
    await runs.turnlog.conversations.save_entries(key, [Entry("note", b'{"entryId":"note"}')])
    reply = TurnAppended(session_key=key, entries=[entry("reply")], run_id="run", epoch=0)
    assert (await runs.ask(EventType.TURN_APPENDED, key, reply)).stored == 1
    await runs.turnlog.conversations.save_resume_point(key, "codex", "after", epoch=0)
    await runs.ask(EventType.TURN_RELEASED, key, TurnReleased(session_key=key, run_id="run"))
    assert await runs.ids(key) == ["note", "reply"]
    assert await runs.start(key, "next")


async def test_c21_of_runs_that_start_together_one_holds_the_session(runs: Runs) -> None:
    for _ in range(100):
        key = agent_key()
        assert sorted(await together(runs.start(key, "first"), runs.start(key, "second"))) == [False, True]


async def test_c47_work_begun_before_a_reset_moves_no_resume_point(runs: Runs) -> None:
    key = agent_key()
    conversations = runs.turnlog.conversations
    await conversations.save_resume_point(key, "codex", "before")
    reset = await conversations.reset_context([key], key)
    assert (await runs.turnlog.reading.resume_point(key))[0] is None
    late = TurnAppended(
        session_key=key, entries=[entry("late")], epoch=0, resume_point=ResumePointData("codex", "stale")
    )
    assert (await runs.ask(EventType.TURN_APPENDED, key, late)).stored == 1
    point, epoch = await runs.turnlog.reading.resume_point(key)
    assert (point, epoch) == (None, reset.positions[0].offset)
    assert (await runs.ids(key))[-1] == "late"
    with pytest.raises(Conflict):
        await conversations.save_resume_point(key, "codex", "stale", epoch=0)
