"""Ordinary events of every kind, drawn from a seed: what the projector's tests put into a log."""

from collections.abc import Iterator, Sequence
from random import Random
from uuid import UUID

import msgspec

from turnlog.domain import event_data as d
from turnlog.domain.event_json import DATA_TYPES, encode_data
from turnlog.domain.events import Event
from turnlog.domain.session_key import Scope, stream_of, team_stream

_TYPES = {struct: event_type for event_type, struct in DATA_TYPES.items()}


def event(random: Random, data: d.EventData, subject: str, stream: str | None = None) -> Event:
    """An event with this data; its id is drawn."""
    return Event(
        id=UUID(int=random.getrandbits(128), version=4),
        type=_TYPES[type(data)].wire_name,
        stream=stream_of(subject) if stream is None else stream,
        subject=subject,
        time_ms=1,
        data=encode_data(data),
    )


def turn(random: Random, key: str, *entry_ids: str) -> Event:
    """A turn with one entry per id."""
    entries = [msgspec.Raw(f'{{"entryId":"{entry_id}","text":"…"}}'.encode()) for entry_id in entry_ids]
    return event(random, d.TurnAppended(key, gateway_url="ws://g", entries=entries), key)


def events(seed: int, count: int, agents: Sequence[str] = ("a", "b", "c")) -> Iterator[Event]:
    """Turns above all; resets, clears, deletes and the rest between them. Every agent has a stream and a team key."""
    random = Random(seed)
    keys = [f"agent:{agent}:native" for agent in agents] + [f"agent:{agent}:team:t{seed}" for agent in agents]
    for number in range(count):
        key = random.choice(keys)
        kind = random.randrange(20)
        if kind < 12:
            yield turn(random, key, f"e{number}", f"e{random.randrange(number + 1)}")
        elif kind < 14:
            yield event(random, d.ResumePointSaved(key, "codex", random.choice(["r1", "r2", None])), key)
        elif kind == 14:
            yield event(random, d.TurnStarted(key, f"run{number}", 60_000, policy="enqueue"), key)
        elif kind == 15:
            yield event(random, d.HistoryRestored(key, [msgspec.Raw(b'{"role":"user"}')]), key)
        elif kind == 16:
            yield event(random, d.AttachmentAdded(key, "m", "a.png", "image/png", 3, "ab" * 32), key)
        elif kind == 17:
            divider = msgspec.Raw(f'{{"entryId":"d{number}"}}'.encode())
            yield event(random, d.ContextReset([key], divider=divider, notice_key=key), key)
        elif kind == 18:
            team = f"t{seed}"
            cleared = d.ChatCleared(team, random.choice(["general", "*"]), 1)
            yield event(random, cleared, Scope(team, cleared.scope).subject(), team_stream(team))
        else:
            yield event(random, d.SessionDeleted(key, "asked for", "admin"), key)
