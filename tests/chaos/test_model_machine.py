"""A Hypothesis state machine over a real database: whatever is asked in whatever order, reads equal a plain model.

After every step all sessions are compared with `session_model.py`; at checkpoints all tables with a fold of the log
from zero and with the naive model of the rules.
"""

import asyncio
import hashlib
import uuid
from collections import Counter
from collections.abc import Callable

import asyncpg
import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.chaos.composed import Composed
from tests.chaos.form import LONG, timeout_s, times
from tests.chaos.session_model import SessionModel
from tests.chaos.tables_and_models import check_tables
from tests.counts import Report
from tests.log_settings import raw_event
from tests.model.naive_records import stream_of
from tests.postgres_server import Database
from turnlog.domain.entries import Entry
from turnlog.domain.errors import Conflict, Gone, KeyReused
from turnlog.domain.event_data import TurnAppended
from turnlog.domain.event_json import encode_data
from turnlog.domain.positions import Position
from turnlog.services.conversations import Saved
from turnlog.services.event_factory import ANONYMOUS, Origin

KEYS = (
    "agent:a1:team:t1",
    "agent:a2:team:t1",
    "agent:a1:team:t1:room:r1",
    "agent:a1:native",
    "agent:a1:codex",
    "somebody's own key",
)
SCOPES = ("general", "room:r1", "*")
MOST_KILLS = 2
"""Projector kills, and restarts, in one history: each takes half a second."""
some_key = st.sampled_from(KEYS)
some_keys = st.lists(some_key, min_size=1, max_size=3, unique=True)
some_number = st.integers(0, 1000)


class Machine(RuleBasedStateMachine):
    """One history of one database. `new_database` makes its database, `counts` sums up all histories."""

    new_database: Callable[[], str]
    counts: Counter[str]

    @initialize()
    def start(self) -> None:
        """An empty database, a model without sessions."""
        self.turnlog = Composed(type(self).new_database())
        self.turnlog.start()
        self.model = SessionModel(KEYS)
        self.entries = self.kills = self.restarts = 0
        self.keyed: list[tuple[str, str, list[str], Position]] = []
        self.epochs: dict[str, list[int]] = {key: [0] for key in KEYS}

    @rule(key=some_key, count=st.integers(1, 3))
    def save(self, key: str, count: int) -> None:
        """A turn of new entries."""
        entry_ids = self._new_ids(count)
        self._save(key, entry_ids)
        self.model.save(key, entry_ids)

    @rule(key=some_key, number=some_number)
    def save_known_entries_again(self, key: str, number: int) -> None:
        """Old ids, shown, cleared or of another session, with a new one among them, twice in one body."""
        old = [f"e{number % max(1, self.entries)}", f"e{number * 7 % max(1, self.entries)}"]
        entry_ids = [old[0], *self._new_ids(1), *old]
        self._save(key, entry_ids)
        self.model.save(key, entry_ids)

    @rule(key=some_key)
    def save_with_a_key(self, key: str) -> None:
        """A turn that can be retried."""
        entry_ids = self._new_ids(2)
        client_key = f"key of {entry_ids[0]}"
        saved = self._save(key, entry_ids, client_key)
        assert saved.position is not None
        self.model.save(key, entry_ids)
        self.keyed.append((key, client_key, entry_ids, saved.position))

    @precondition(lambda self: self.keyed)
    @rule(number=some_number)
    def retry(self, number: int) -> None:
        """The same request again: as the first answered, or gone with its session."""
        key, client_key, entry_ids, position = self.keyed[number % len(self.keyed)]
        try:
            assert self._save(key, entry_ids, client_key).position == position
            assert self.model.sessions[key].last_delete < position.offset
        except Gone:
            assert self.model.sessions[key].last_delete > position.offset
            self._count("retries after a delete")

    @precondition(lambda self: self.keyed)
    @rule(number=some_number)
    def use_a_key_for_something_else(self, number: int) -> None:
        """Refused, whatever became of the first."""
        key, client_key, _, _ = self.keyed[number % len(self.keyed)]
        with pytest.raises((KeyReused, Gone)):
            self._save(key, ["other"], client_key)

    @rule(keys=some_keys)
    def reset(self, keys: list[str]) -> None:
        """One divider, every listed session a new epoch."""
        done = self.turnlog.ask(self.turnlog.turnlog.conversations.reset_context(keys, keys[0]))
        streams = dict.fromkeys(stream_of(key) for key in keys if stream_of(key) != stream_of(keys[0]))
        for stream, position in zip([*streams, stream_of(keys[0])], done.positions, strict=True):
            self.model.reset([key for key in keys if stream_of(key) == stream], position.offset)
        divider = msgspec.json.decode(done.divider)["entryId"]
        self.model.save(keys[0], [divider])

    @rule(scope=st.sampled_from(SCOPES), retried=st.booleans())
    def clear(self, scope: str, retried: bool) -> None:
        """Nothing shown any more; a retry answers the same and clears nothing more."""
        conversations = self.turnlog.turnlog.conversations
        origin = _origin(f"clear {self.entries} {uuid.uuid4()}", scope) if retried else ANONYMOUS
        done = self.turnlog.ask(conversations.clear_chat("t1", scope, origin=origin))
        assert list(done.session_keys) == self.model.clear("t1", scope, done.position.offset)
        if retried:
            self.save(KEYS[0], 1)
            assert self.turnlog.ask(conversations.clear_chat("t1", scope, origin=origin)) == done

    @rule(key=some_key)
    def delete(self, key: str) -> None:
        """As if it had never been."""
        position = self.turnlog.ask(self.turnlog.turnlog.conversations.delete_session(key))
        self.model.delete(key, position.offset)

    @rule(key=some_key, number=some_number, with_epoch=st.booleans())
    def save_resume_point(self, key: str, number: int, with_epoch: bool) -> None:
        """Under the current epoch."""
        epoch = self.model.sessions[key].epoch if with_epoch else None
        saved = self.turnlog.ask(
            self.turnlog.turnlog.conversations.save_resume_point(key, "native", f"r{number}", epoch=epoch)
        )
        assert saved.epoch == self.model.sessions[key].epoch
        self.model.resume(key, f"r{number}")

    @precondition(lambda self: self._ended())
    @rule(number=some_number)
    def save_a_stale_resume_point(self, number: int) -> None:
        """Under an old epoch: refused, and nothing changes."""
        key, epoch = self._old_epoch(number)
        session = self.model.sessions[key]
        with pytest.raises(Conflict) as refused:
            self.turnlog.ask(self.turnlog.turnlog.conversations.save_resume_point(key, "native", "stale", epoch=epoch))
        if not isinstance(refused.value, Gone):
            assert refused.value.epoch == session.epoch
        self._count("stale resume points")

    @rule(key=some_key)
    def finish_in_time(self, key: str) -> None:
        """A turn that says under which epoch it began, and that is still the current one."""
        self._finish(key, self.model.sessions[key].epoch)

    @precondition(lambda self: self._ended())
    @rule(number=some_number)
    def finish_late(self, number: int) -> None:
        """A turn begun under an old epoch lands now."""
        self._finish(*self._old_epoch(number))
        self._count("late turns")

    def _finish(self, key: str, epoch: int) -> None:
        entry_ids = self._new_ids(2)
        raw = [msgspec.Raw(_entry(entry_id).text) for entry_id in entry_ids]
        event = raw_event(encode_data(TurnAppended(session_key=key, entries=raw, epoch=epoch)), key)
        position = self.turnlog.ask(self.turnlog.turnlog.log.append(event)).position
        self.turnlog.ask(self.turnlog.turnlog.applied.reach(position, timeout_ms=20_000))
        self.model.save(key, entry_ids, epoch=epoch)

    @precondition(lambda self: self.kills < MOST_KILLS)
    @rule(key=some_key, count=st.integers(1, 12), after_ms=st.integers(0, 15))
    def kill_the_projector_while_turns_arrive(self, key: str, count: int, after_ms: int) -> None:
        """Turns at once, in the middle of them the projector dies, and another one takes over after its lease."""
        entry_ids = self._new_ids(count)

        async def arrive() -> list[Saved]:
            async with asyncio.TaskGroup() as tasks:
                saves = [tasks.create_task(self._saving(key, [entry_id])) for entry_id in entry_ids]
                await asyncio.sleep(after_ms / 1000)
                await self.turnlog.kill_projector()
            return [save.result() for save in saves]

        stored = zip(self.turnlog.ask(arrive()), entry_ids, strict=True)
        for _, entry_id in sorted((_offset(saved), entry_id) for saved, entry_id in stored):
            self.model.save(key, [entry_id])
        self.kills += 1
        self._count("projector kills")

    @precondition(lambda self: self.restarts < MOST_KILLS)
    @rule()
    def restart(self) -> None:
        """Everything ends in order and opens again; the tables follow the log."""
        self._count("records checked", self.turnlog.ask(check_tables(self.turnlog.turnlog)))
        self.turnlog.stop()
        self.turnlog.start()
        self.restarts += 1
        self._count("restarts")

    @invariant()
    def reads_equal_the_model(self) -> None:
        """Every session's page, resume point and epoch, and the list of sessions."""
        self.turnlog.ask(self._compare())
        self._count("steps")
        for key, session in self.model.sessions.items():
            if session.epoch > self.epochs[key][-1]:
                self.epochs[key].append(session.epoch)

    def teardown(self) -> None:
        """The tables follow the log."""
        if not hasattr(self, "turnlog"):
            return
        try:
            self._count("records checked", self.turnlog.ask(check_tables(self.turnlog.turnlog)))
            self._count("histories")
        finally:
            self.turnlog.close()

    async def _compare(self) -> None:
        reading = self.turnlog.turnlog.reading
        for key, session in self.model.sessions.items():
            page = await reading.page(key, limit=1000)
            shown = [item["entryId"] for item in msgspec.json.decode(b"[" + page.entries + b"]")]
            assert shown == session.shown, key
            point, epoch = await reading.resume_point(key)
            assert (point and point.resume_id) == session.resume_id, key
            assert epoch == session.epoch, key
        listed = {item.key for item in (await reading.sessions(limit=100)).items}
        assert listed == {key for key, session in self.model.sessions.items() if session.listed}

    def _save(self, key: str, entry_ids: list[str], client_key: str | None = None) -> Saved:
        return self.turnlog.ask(self._saving(key, entry_ids, client_key))

    async def _saving(self, key: str, entry_ids: list[str], client_key: str | None = None) -> Saved:
        origin = ANONYMOUS if client_key is None else _origin(client_key, *entry_ids)
        entries = [_entry(entry_id) for entry_id in entry_ids]
        return await self.turnlog.turnlog.conversations.save_entries(key, entries, origin=origin)

    def _ended(self) -> list[str]:
        return [key for key in KEYS if len(self.epochs[key]) > 1]

    def _old_epoch(self, number: int) -> tuple[str, int]:
        """A session that was ended, and an epoch that it had before."""
        key = self._ended()[number % len(self._ended())]
        return key, self.epochs[key][-2 - number % (len(self.epochs[key]) - 1)]

    def _new_ids(self, count: int) -> list[str]:
        self.entries += count
        return [f"e{number}" for number in range(self.entries - count, self.entries)]

    def _count(self, what: str, by: int = 1) -> None:
        type(self).counts[what] += by


@pytest.mark.timeout(timeout_s(600))
def test_reads_and_tables_equal_a_plain_model_after_every_step(
    postgres_server: Database, template_database: Database, report: Report
) -> None:
    made: list[str] = []

    def new_database() -> str:
        made.append(f"turnlog_machine_{uuid.uuid4().hex[:12]}")
        template = template_database.dsn.partition("?")[0].rpartition("/")[2]
        _execute(postgres_server, f'CREATE DATABASE "{made[-1]}" TEMPLATE "{template}"')
        return postgres_server.named(made[-1]).dsn

    class Counted(Machine):
        pass

    Counted.new_database = staticmethod(new_database)
    counts = Counted.counts = Counter()
    try:
        run_state_machine_as_test(
            Counted,
            settings=settings(
                max_examples=times(12),
                stateful_step_count=40,
                deadline=None,
                derandomize=not LONG,
                database=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for name in made:
            _execute(postgres_server, f'DROP DATABASE "{name}" WITH (FORCE)')
    assert all(counts[what] for what in ("projector kills", "restarts", "late turns", "stale resume points")), counts
    report(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))


def _entry(entry_id: str) -> Entry:
    return Entry(entry_id, msgspec.json.encode({"entryId": entry_id, "role": "user", "text": entry_id}))


def _origin(client_key: str, *request: str) -> Origin:
    return Origin(idempotency_key=client_key, request_hash=hashlib.sha256("\n".join(request).encode()).digest())


def _offset(saved: Saved) -> int:
    assert saved.position is not None
    return saved.position.offset


def _execute(database: Database, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(database.dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    # Unlike asyncio.run, this leaves the loop of the test session alone.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(execute())
