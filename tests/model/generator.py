"""Hostile logs of one partition: which records come how often, and the short stories that the rules are about.

Hypothesis draws one seed per step and shrinks a failing log by leaving steps out; drawing every choice by itself would
be twenty times slower.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from hypothesis import strategies as st

from tests.model.hostile_values import KEY_HASHES, KEYS, PRODUCERS, TEAM_KEYS
from tests.model.log_writer import LogWriter
from tests.model.naive_records import LogRecord, scopes_of


@dataclass(frozen=True)
class HostileLog:
    """A generated partition: the records in it, and those that were sent but never landed."""

    records: tuple[LogRecord, ...]
    lost: tuple[LogRecord, ...]

    def __str__(self) -> str:
        return "\n".join(["the log:", *map(str, self.records)])


@st.composite
def hostile_logs(draw: st.DrawFn) -> HostileLog:
    """Logs of up to 70 steps over few keys, one of which draws most of the trouble."""
    focus = draw(st.sampled_from(KEYS))
    # The seed 0 means no step: so lists are long, and still shrink to a few records.
    return written(focus, draw(st.lists(st.integers(0, 2**64 - 1), min_size=20, max_size=70)))


def written(focus: str, seeds: list[int]) -> HostileLog:
    """The log that these seeds make, one step each. Pure."""
    writer = _Stories(focus)
    for seed in filter(None, seeds):
        writer.step(seed)
    return HostileLog(tuple(writer.log), tuple(writer.lost))


class _Stories(LogWriter):
    def __init__(self, focus: str) -> None:
        super().__init__(focus)
        self.plan: list[Callable[[], object]] = []
        self.writers, self.how_often = zip(*self.weights().items(), strict=True)

    def step(self, seed: int) -> None:
        """One more record, or a few: the next one planned, or something else in between."""
        self.random = Random(seed)
        if self.plan and self.chance(55 if len(self.plan) < 8 else 85):
            self.plan.pop(0)()
        else:
            self.random.choices(self.writers, self.how_often)[0]()

    def weights(self) -> dict[Callable[[], object], int]:
        """How often each kind of record comes."""
        return {
            self.turn: 16,
            self.started: 8,
            self.released: 4,
            self.restored: 4,
            self.resume_point: 5,
            self.attachment: 3,
            self.fork: 8,
            self.reset: 5,
            self.clear: 9,
            self.delete: 11,
            self.fence_producer: 3,
            self.resend: 10,
            self.lose: 4,
            self.repeat_key: 4,
            self.conditional_turn: 9,
            self.plan_endings_around_a_delete: 8,
            self.plan_a_fork_and_a_delete_of_its_source: 5,
            self.queue: 5,
            self.plan_a_resume_point_and_what_clears_it: 4,
            self.plan_late_turns: 4,
            self.plan_a_resend_after_a_delete: 6,
            self.tombstone: 2,
            self.content_free: 2,
        }

    def conditional_turn(self) -> None:
        """A resend that is refused or a duplicate, then a turn that relies on the position before it."""
        key = self.key()
        last: int = self.fold.session(key)["last"]
        if self.chance(60):
            deleted_at: int = self.fold.session(key)["last_delete"]
            data = self.turn_data(key) | {"epoch": json.dumps(max(deleted_at - 1, 0))}
            self.put("turn.appended", key, data)
        self.put("turn.appended", key, self.turn_data(key) | {"ifPosition": json.dumps(last)})

    def lose(self) -> None:
        """Sent, but it never landed: only a resend of it will."""
        self.turn(lost=True) if self.chance(60) else self.started(lost=True)

    def resend(self) -> None:
        """An earlier event again: as a resend with `sentafter`, or just redelivered; maybe changed on the way."""
        sent = self.log + self.lost + self.lost
        original = self.one_of(sent)
        again = replace(original, attempt=original.attempt + 1)
        if self.chance(75):
            again = replace(again, sent_after=self.one_of([original.offset, max(original.offset - 1, 0)]))
        if self.chance(40):
            again = replace(again, producer=self.one_of([None, *PRODUCERS]))
        self.land(again)

    def ending_of(self, key: str) -> Callable[[], object]:
        """A reset of the key, or a clear of one of its scopes; most often of its General or room."""
        resets: list[Callable[[], object]] = [partial(self.reset, key)]
        clears: list[Callable[[], object]] = [partial(self.clear, scope) for scope in scopes_of(key)]
        return self.one_of(resets + clears * 2 + clears[:1])

    def plan_a_resume_point_and_what_clears_it(self) -> None:
        """A restore or an ending."""
        key = self.key()
        clearing = self.ending_of(key) if self.chance(35) else partial(self.restored, key)
        self.plan += [partial(self.resume_point, key), clearing]

    def plan_late_turns(self) -> None:
        """Turns that began before a reset or clear, or before both, and come in after it."""
        key = self.one_of(TEAM_KEYS) if self.chance(75) else self.key()
        late = partial(self.turn, key, begun_under=self.fold.epoch(key))
        self.plan += [self.ending_of(key), late, self.ending_of(key), late]

    def plan_endings_around_a_delete(self) -> None:
        """A reset or clear, a turn, the delete, and the same ending again; other records come in between."""
        key = self.one_of(TEAM_KEYS) if self.chance(75) else self.key()
        end = self.ending_of(key)
        self.plan += [end, partial(self.turn, key), partial(self.delete, key), end]

    def plan_a_fork_and_a_delete_of_its_source(self) -> None:
        """In either order."""
        source = self.key()
        fork, delete = partial(self.fork, source), partial(self.delete, source)
        self.plan += [partial(self.turn, source), *self.one_of([(fork, delete), (delete, fork)])]

    def queue(self) -> None:
        """Runs that ask for one session's lease again and again, and give it back."""
        key = self.key()
        leases = self.one_of([(100_000,), (30, 70, 500), (70, 500, 100_000)])
        for _ in range(self.random.randint(3, 7)):
            self.started(key, leases=leases) if self.chance(85) else self.released(key)

    def plan_a_resend_after_a_delete(self) -> None:
        """A turn that landed or got lost, the delete of its session, and the turn again."""
        turn = self.turn(lost=self.chance(50))

        def again() -> None:
            self.land(replace(turn, attempt=turn.attempt + 1, sent_after=turn.offset))

        self.plan += [partial(self.delete, turn.subject), again]

    def repeat_key(self) -> None:
        """A key hash that was used before: by another event of the same session, or in another session."""
        original = self.one_of(self.log)
        key_hash = original.key_hash or self.one_of(KEY_HASHES)
        if self.chance(40):
            self.land(replace(original, event_id=self.new_id(), key_hash=key_hash, sent_after=None))
        else:
            key = self.key()
            self.put("turn.appended", key, self.turn_data(key), key_hash=key_hash)

    def tombstone(self) -> None:
        original = self.one_of(self.log)
        self.land(replace(original, data=None))
