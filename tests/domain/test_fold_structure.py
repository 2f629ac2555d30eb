"""What stops a partition: records that can't have come from turnlog's own commands (fold-notes.md, "Structure")."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.domain.story import GENERAL_A, OTHER_TEAM, K, Story, raws
from turnlog.domain import event_data as d
from turnlog.domain.errors import Unfoldable
from turnlog.domain.event_json import DATA_TYPES, encode_data
from turnlog.domain.events import Event, EventType, Record
from turnlog.domain.fold.decode import decode
from turnlog.domain.positions import ROWS_PER_EVENT, Position
from turnlog.domain.session_key import stream_of

HEX = "ab" * 32
ABOUT_K: list[d.EventData] = [
    d.TurnAppended(K),
    d.TurnStarted(K, "r", 1),
    d.TurnReleased(K, "r"),
    d.HistoryRestored(K, []),
    d.ResumePointSaved(K, "codex", None),
    d.AttachmentAdded(K, "m", "n", "t", 1, HEX),
    d.SessionForked(K, "source", 1),
    d.ContextReset([K]),
    d.SessionDeleted(K),
    d.QuarantineDecided(K, "0-1", "skip", ""),
]
RESERVED = K + "#cleared:5"


def event(data: d.EventData, subject: str = K, stream: str | None = None, **fields: Any) -> Event:  # noqa: ANN401
    """An event with the right stream for its subject, unless another is given."""
    event_type = next(event_type for event_type, struct in DATA_TYPES.items() if struct is type(data))
    stream = stream_of(subject) if stream is None else stream
    made = Event(UUID(int=1), event_type.wire_name, stream, subject, 0, encode_data(data))
    return replace(made, **fields)


def record(of: Event) -> Record:
    """The event at position 0-1."""
    return Record(Position(0, 1), 1, of.key, of)


def refuses(of: Event) -> str:
    """The reason why decoding refuses the event."""
    with pytest.raises(Unfoldable) as caught:
        decode(record(of))
    return str(caught.value)


@pytest.mark.parametrize("data", ABOUT_K, ids=lambda data: type(data).__name__)
def test_a_session_event_must_have_its_key_as_subject_and_the_keys_stream(data: d.EventData) -> None:
    assert decode(record(event(data))) is not None
    assert "subject" in refuses(event(data, "agent:a1:other"))
    assert "stream" in refuses(event(data, stream="agent:a2"))


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (RESERVED, "sessionKey is reserved"),
        ("a\x00b", "sessionKey must not contain U+0000"),
        ("x" * 1025, "sessionKey must be at most 1024 bytes"),
        ("é" * 513, "sessionKey must be at most 1024 bytes"),
    ],
)
def test_a_session_key_must_be_a_usable_name(key: str, why: str) -> None:
    assert why in refuses(event(d.TurnAppended(key), key))
    assert why.replace("sessionKey", "sessionKeys") in refuses(event(d.ContextReset([key]), key))


def test_a_forks_source_may_lie_in_any_stream_but_must_be_a_usable_name() -> None:
    assert decode(record(event(d.SessionForked(K, OTHER_TEAM, 1)))) is not None
    assert "source is reserved" in refuses(event(d.SessionForked(K, RESERVED, 1)))
    assert "source must not contain" in refuses(event(d.SessionForked(K, "\x00", 1)))


def test_every_key_of_a_reset_must_be_of_its_stream() -> None:
    assert "stream" in refuses(event(d.ContextReset([GENERAL_A, OTHER_TEAM]), GENERAL_A))
    assert "stream" in refuses(event(d.ContextReset([GENERAL_A], notice_key=OTHER_TEAM), OTHER_TEAM))
    assert "reserved" in refuses(event(d.ContextReset([K], notice_key=RESERVED), RESERVED))


def test_the_subject_of_a_reset_is_its_notice_key_else_its_first_key() -> None:
    keys = ["agent:a1:x", K]
    assert decode(record(event(d.ContextReset(keys, notice_key=K), K))) is not None
    assert decode(record(event(d.ContextReset(keys), "agent:a1:x"))) is not None
    assert "subject" in refuses(event(d.ContextReset(keys), K))
    assert "subject" in refuses(event(d.ContextReset(keys, notice_key=K), "agent:a1:x"))


@pytest.mark.parametrize("scope", ["general", "*", "room:r", "room:a:b"])
def test_a_clear_names_a_scope_of_its_team(scope: str) -> None:
    data = d.ChatCleared("t1", scope, 1)
    assert decode(record(event(data, f"team:t1:{scope}", "team:t1"))) is not None
    assert "subject" in refuses(event(data, "team:t1", "team:t1"))
    assert "stream" in refuses(event(data, f"team:t1:{scope}", "team:t2"))


@pytest.mark.parametrize("scope", ["room:", "rooms", "General", "**", "room", " general"])
def test_another_scope_is_refused(scope: str) -> None:
    assert "scope must be" in refuses(event(d.ChatCleared("t1", scope, 1), f"team:t1:{scope}", "team:t1"))


def test_a_fence_names_a_producer() -> None:
    producer = str(UUID(int=5))
    assert decode(record(event(d.ProducerFenced(producer), f"producer:{producer}", "log"))) is not None
    assert "subject" in refuses(event(d.ProducerFenced(producer), "producer", "log"))
    assert "producer must be a UUID" in refuses(event(d.ProducerFenced("me"), "producer:me", "log"))


def test_entries_and_messages_share_4096_rows() -> None:
    full = d.TurnAppended(K, entries=raws(*["1"] * (ROWS_PER_EVENT - 1)), messages=raws("2"))
    assert decode(record(event(full))) is not None
    for beyond in (
        d.TurnAppended(K, entries=raws(*["1"] * ROWS_PER_EVENT), messages=raws("2")),
        d.TurnStarted(K, "r", 1, entries=raws(*["1"] * (ROWS_PER_EVENT + 1))),
        d.HistoryRestored(K, raws(*["1"] * (ROWS_PER_EVENT + 1))),
    ):
        assert "more than 4096" in refuses(event(beyond))


@pytest.mark.parametrize(
    "data",
    [
        d.TurnAppended(K, gateway_url="\x00"),
        d.TurnAppended(K, resume_point=d.ResumePointData("\x00")),
        d.TurnAppended(K, resume_point=d.ResumePointData("r", "a\x00")),
        d.TurnStarted(K, "\x00", 1),
        d.TurnStarted(K, "r", 1, gateway_url="\x00"),
        d.TurnReleased(K, "\x00"),
        d.ResumePointSaved(K, "\x00", None),
        d.ResumePointSaved(K, "r", "\x00"),
        d.AttachmentAdded(K, "\x00", "n", "t", 1, HEX),
        d.AttachmentAdded(K, "m", "\x00", "t", 1, HEX),
        d.AttachmentAdded(K, "m", "n", "\x00", 1, HEX),
        d.SessionDeleted(K, reason="\x00"),
        d.SessionDeleted(K, actor="\x00"),
        d.QuarantineDecided(K, "\x00", "skip", ""),
        d.QuarantineDecided(K, "0-1", "skip", "\x00"),
        d.ErasureCompleted(HEX, {"\x00": 1}, []),
        d.ErasureCompleted(HEX, {}, ["\x00"]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_a_text_that_becomes_a_column_holds_no_nul(data: d.EventData) -> None:
    assert "U+0000" in refuses(event(data))


def test_an_actor_holds_no_nul() -> None:
    assert "actor" in refuses(event(d.SessionDeleted(K), actor="\x00"))


def test_a_text_that_reaches_no_table_may_hold_a_nul_and_so_may_entries_and_messages(story: Story) -> None:
    nul = '{"entryId":"e","t":"\\u0000"}'
    story.turn(K, entries=raws(nul), messages=raws('"\\u0000"'), error="a\x00b", usage=raws('"\\u0000"')[0])
    assert story.entries(K)[0].text == nul
    assert story.messages(K)[0].text == '["\\u0000"]'


def test_a_text_that_only_looks_like_an_escaped_nul_is_none() -> None:
    assert decode(record(event(d.TurnAppended(K, gateway_url="\\u0000")))) is not None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b"{", b"{}", b'{"sessionKey":""}', b'{"sessionKey":5}', b'{"sessionKey":null}',
        b'{"sessionKey":"s","epoch":-1}', b'{"sessionKey":"s","epoch":1.5}',
        b'{"sessionKey":"s","epoch":9007199254740992}',
        b'{"sessionKey":"s","epoch":1' + b"0" * 5000 + b"}", b'{"sessionKey":"s","outcome":"done"}',
        b'{"sessionKey":"s","entries":{}}', b'{"sessionKey":"s","entries":null}', b'{"sessionKey":"\xff"}',
        b'{"sessionKey":"\\ud800"}', b'{"sessionKey":"s"} {}',
        b'{"sessionKey":"s","entries":[' + b"[" * 499 + b"]" * 499 + b"]}",
    ],
)  # fmt: skip
def test_data_that_does_not_fit_its_schema_is_unfoldable(data: bytes) -> None:
    of = event(d.TurnAppended("s"), "s")
    assert refuses(replace(of, data=data)).startswith("dev.turnlog.turn.appended.v1: ")


def test_an_unknown_type_stops_the_partition_unless_it_is_ignorable(story: Story) -> None:
    unknown = replace(event(d.Tick()), type="dev.turnlog.turn.praised.v1", data=b"not even JSON")
    assert "turn.praised" in refuses(unknown)
    assert decode(record(replace(unknown, ignorable=True))) is None
    story.land(replace(unknown, ignorable=True))
    assert story.in_outbox() == set()


def test_a_record_that_is_no_event_at_all_stops_the_partition_with_the_logs_reason() -> None:
    with pytest.raises(Unfoldable, match="no ce_type header"):
        decode(replace(record(event(d.Tick())), event=None, undecodable="no ce_type header"))


def test_another_version_of_a_type_is_another_type() -> None:
    assert "unknown event type" in refuses(replace(event(d.Tick()), type="dev.turnlog.tick.v2"))


def test_nothing_of_a_batch_is_applied_when_one_of_its_records_is_unfoldable(story: Story) -> None:
    story.turn(K, "e1")
    before = story.tables.snapshot()
    broken = replace(record(event(d.TurnAppended(K), "other")), position=Position(0, 9))
    with pytest.raises(Unfoldable):
        story.tables.fold([replace(story.records[0], position=Position(0, 8)), broken])
    assert story.tables.snapshot() == before


def test_every_type_can_be_decoded() -> None:
    others: list[tuple[d.EventData, str, str]] = [
        (d.Genesis("log", 0, 1), "log", "log"),
        (d.ChatCleared("t", "*", 1), "team:t:*", "team:t"),
        (d.ErasureCompleted(HEX, {}, []), "log", "log"),
        (d.ProducerFenced(str(UUID(int=1))), f"producer:{UUID(int=1)}", "log"),
        (d.Tick(), "log", "log"),
    ]
    events = [event(data) for data in ABOUT_K] + [event(*other) for other in others]
    decoded = [ready for of in events if (ready := decode(record(of))) is not None]
    assert {ready.type for ready in decoded} == set(EventType)
    assert [type(ready.data) for ready in decoded] == [DATA_TYPES[ready.type] for ready in decoded]
