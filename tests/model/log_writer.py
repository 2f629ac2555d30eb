"""One hostile record at a time, for the generated logs.

Each is made with a look at the state so far, so that epochs, positions and lease holders are right, stale or too high
on purpose and not by luck alone.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar
from uuid import UUID

from tests.model.hostile_values import (
    ENTRIES,
    KEY_HASHES,
    KEYS,
    MESSAGES,
    PRODUCERS,
    RUNS,
    SCOPES,
    SHARED_EVENT_IDS,
    UNUSABLE_ENTRIES,
)
from tests.model.naive_fold import NaiveFold
from tests.model.naive_records import LogRecord, scopes_of, stream_of, subject_id

T = TypeVar("T")
Raw = dict[str, str]
"""Member name → raw JSON."""


class LogWriter:
    """Writes one record after the other, with a look at what the naive model makes of them."""

    def __init__(self, focus: str) -> None:
        self.focus = focus
        self.random = Random(0)
        self.fold = NaiveFold()
        self.log: list[LogRecord] = []
        self.lost: list[LogRecord] = []
        self.offset = 0
        self.now_ms = 1_700_000_000_000
        self.count = 0
        self.put("genesis", "log", {"logId": '"l"', "partition": "0", "partitions": "1"}, "log")

    # Choices

    def one_of(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, percent: int) -> bool:
        return self.random.random() * 100 < percent

    def key(self) -> str:
        return self.focus if self.chance(45) else self.one_of(KEYS)

    def some_offset(self) -> int:
        return self.random.randint(0, self.offset + 2)

    def epoch(self, key: str) -> int | None:
        """Absent, current, stale or too high."""
        current = self.fold.epoch(key)
        session = self.fold.session(key)
        stale = [0, max(current - 1, 0), session["last_reset"], session["last_clear"], session["last_delete"]]
        kind = self.random.randrange(10)
        if kind < 4:
            return None
        if kind < 7:
            return current
        return self.one_of(stale) if kind < 9 else current + self.one_of([1, 1000])

    def if_position(self, key: str) -> int | None:
        """Absent, right or wrong."""
        last: int = self.fold.session(key)["last"]
        kind = self.random.randrange(10)
        if kind < 7:
            return None
        return last if kind < 9 else self.one_of([0, last + 1, max(last - 1, 0), self.offset])

    def entries(self) -> str:
        pools = [ENTRIES, ENTRIES, ENTRIES, UNUSABLE_ENTRIES]
        items = [self.one_of(self.one_of(pools)) for _ in range(self.one_of([0, 1, 1, 2, 3]))]
        return "[" + self.one_of([",", " , ", ",\n"]).join(items) + "]"

    def messages(self) -> str:
        return "[" + ",".join(self.one_of(MESSAGES) for _ in range(self.one_of([0, 1, 2]))) + "]"

    # Records

    def new_id(self) -> str:
        self.count += 1
        return UUID(int=(0x0198_0000_0000_7000_8000 << 48) + self.count).hex

    def put(
        self,
        kind: str,
        subject: str,
        data: Raw,
        stream: str | None = None,
        *,
        lost: bool = False,
        key_hash: bytes | None = None,
    ) -> LogRecord:
        """A record of its own event, with a hostile envelope; the next one in the log, or one that never landed."""
        event_id = self.one_of(SHARED_EVENT_IDS) if self.chance(8) else self.new_id()
        record = LogRecord(
            offset=self.offset,
            appended_ms=self.now_ms,
            event_id=event_id,
            type=kind,
            stream=stream_of(subject) if stream is None else stream,
            subject=subject,
            data=("{" + ",".join(f"{json.dumps(name)}:{raw}" for name, raw in data.items()) + "}").encode(),
            sent_after=self.some_offset() if self.chance(12) else None,
            key_hash=key_hash or (self.one_of(KEY_HASHES) if self.chance(25) else None),
            request_hash=subject_id(event_id).encode() if self.chance(50) else None,
            producer=self.one_of(PRODUCERS) if self.chance(40) else None,
            actor=self.one_of([None, "someone"]),
        )
        if lost:
            self.lost.append(record)
        else:
            self.land(record)
        return record

    def land(self, record: LogRecord) -> None:
        """Append at the next offset; offsets have gaps, and append times may step back a little."""
        record = replace(record, offset=self.offset, appended_ms=self.now_ms)
        self.log.append(record)
        self.fold.take(record)
        self.offset += self.one_of([1, 1, 1, 2, 5])
        self.now_ms += self.one_of([0, 1, 30, 70, 500, -20])

    def conditions(self, key: str, *, if_position: bool = False) -> Raw:
        """The epoch and the position a record was written under."""
        numbers = {"epoch": self.epoch(key), "ifPosition": self.if_position(key) if if_position else None}
        # A condition may be left out or be null: both mean none.
        return {name: json.dumps(value) for name, value in numbers.items() if value is not None or self.chance(10)}

    def turn_data(self, key: str) -> Raw:
        data = {"sessionKey": json.dumps(key), "entries": self.entries()}
        if self.chance(40):
            data["messages"] = self.one_of(["null", self.messages(), self.messages()])
        if self.chance(20):
            data["basedOn"] = self.one_of(["0", "4097", "null"])
        if self.chance(30):
            data["gatewayUrl"] = '"http://gateway.local/ü"'
        return data

    def turn(self, key: str | None = None, *, begun_under: int | None = None, lost: bool = False) -> LogRecord:
        key = key or self.key()
        data = self.turn_data(key)
        data |= self.conditions(key, if_position=True) if begun_under is None else {"epoch": str(begun_under)}
        if self.chance(30):
            data["resumePoint"] = self.one_of(['{"runtime":"codex","resumeId":"r"}', '{"runtime":"x"}', "null"])
        if self.chance(20):
            data["outcome"] = self.one_of(['"ok"', '"failed"', '"interrupted"'])
        return self.put("turn.appended", key, data, lost=lost)

    def started(self, key: str | None = None, *, leases: Sequence[int] | None = None, lost: bool = False) -> LogRecord:
        """A run asks for a lease; in a queue (with `leases`) there is no condition that may refuse it."""
        key = key or self.key()
        data = {"sessionKey": json.dumps(key), "runId": json.dumps(self.one_of(RUNS))}
        data["lease"] = str(self.one_of(leases or (60, 0, 1000, 100_000)))
        if self.chance(90):
            data["policy"] = self.one_of(['"reject"', '"enqueue"', '"enqueue"', '"interrupt"'])
        if self.chance(40):
            data |= self.turn_data(key)
        if leases is None:
            data |= self.conditions(key, if_position=True)
        return self.put("turn.started", key, data, lost=lost)

    def released(self, key: str | None = None) -> None:
        key = key or self.key()
        lease = self.fold.session(key)["lease"]
        run = lease["run_id"] if lease and self.chance(50) else self.one_of(RUNS)
        self.put("turn.released", key, {"sessionKey": json.dumps(key), "runId": json.dumps(run)})

    def restored(self, key: str | None = None) -> None:
        key = key or self.key()
        data = {"sessionKey": json.dumps(key), "messages": self.messages()}
        self.put("history.restored", key, data | self.conditions(key))

    def resume_point(self, key: str | None = None) -> None:
        key = key or self.key()
        data = {"sessionKey": json.dumps(key), "runtime": '"codex"'}
        data["resumeId"] = self.one_of(['"r1"', '"r2"', "null"])
        self.put("resumepoint.saved", key, data | self.conditions(key))

    def attachment(self) -> None:
        key = self.key()
        data = {"sessionKey": json.dumps(key), "messageId": '"m1"', "name": '"ä.png"', "mimeType": '"image/png"'}
        data |= {"size": self.one_of(["0", "9007199254740991"]), "sha256": json.dumps("ab" * 32)}
        self.put("attachment.added", key, data)

    def fork(self, source: str | None = None) -> None:
        key = self.one_of(KEYS)
        source = source or (self.focus if self.chance(50) else self.key())
        data = {"sessionKey": json.dumps(key), "source": json.dumps(source), "at": str(self.some_offset() * 4096)}
        self.put("session.forked", key, data)

    def reset(self, key: str | None = None) -> None:
        first = key or self.key()
        keys = [first, *(key for key in KEYS if stream_of(key) == stream_of(first) and self.chance(40))]
        data = {"sessionKeys": json.dumps(keys)}
        subject = first
        if self.chance(60):
            subject = self.one_of(keys)
            data["noticeKey"] = json.dumps(subject)
        if self.chance(70):
            data["divider"] = self.one_of([*ENTRIES[:8], UNUSABLE_ENTRIES[0], "null"])
        self.put("context.reset", subject, data)

    def clear(self, team_and_scope: tuple[str, str] | None = None) -> None:
        around_focus = scopes_of(self.focus) if self.chance(70) else []
        team, scope = team_and_scope or self.one_of(around_focus or SCOPES)
        data = {"teamId": json.dumps(team), "scope": json.dumps(scope), "clearedAt": "1700000000000"}
        self.put("chat.cleared", f"team:{team}:{scope}", data, f"team:{team}")

    def delete(self, key: str | None = None) -> None:
        key = key or self.key()
        data = {"sessionKey": json.dumps(key)}
        if self.chance(30):
            data |= {"reason": '"asked for"', "actor": self.one_of(['"admin"', "null"])}
        self.put("session.deleted", key, data)

    def fence_producer(self) -> None:
        producer = self.one_of(PRODUCERS)
        self.put("producer.fenced", f"producer:{producer}", {"producer": json.dumps(producer)})

    def content_free(self) -> None:
        """Types that change no conversation, and one from the future that may be skipped."""
        key = self.key()
        kind = self.random.randrange(4)
        if kind == 0:
            self.put("tick", "tick", {}, "tick")
        elif kind == 1:
            data = {"sessionHash": json.dumps("ab" * 32), "counts": "{}", "positions": "[]"}
            self.put("erasure.completed", key, data)
        elif kind == 2:
            data = {"sessionKey": json.dumps(key), "position": '"0-1"', "decision": '"skip"', "why": '"broken"'}
            self.put("quarantine.decided", key, data)
        else:
            record = LogRecord(0, 0, SHARED_EVENT_IDS[0], "from.the.future", stream_of(key), key, b"{}", ignorable=True)
            self.land(record)
