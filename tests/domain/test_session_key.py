"""The grammar of session keys (chat-history-api.md, "Session-key grammar") and what follows from a key."""

import hashlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.domain.errors import BadInput
from turnlog.domain.session_key import (
    Scope,
    TeamKey,
    agent_id_of,
    check_name,
    entry_hash,
    is_reserved,
    parse_team_key,
    scope_covers,
    scopes_of,
    session_id,
    stream_of,
    team_stream,
)

KEYS = st.lists(
    st.sampled_from(["agent:", "team:", ":team:", ":room:", "a", "t1", ":", "#cleared:5", "\n", ""]), max_size=9
)


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        ("agent:a1:team:t1", TeamKey("a1", "t1", None)),
        ("agent:a1:team:t1:room:r1", TeamKey("a1", "t1", "r1")),
        ("agent:a:team:b:team:c", TeamKey("a:team:b", "c", None)),
        ("agent:a:team:t1:team:", TeamKey("a", "t1:team:", None)),
        ("agent:a:team:t1:room:x:team:t2", TeamKey("a:team:t1:room:x", "t2", None)),
        ("agent:a:team:t:room:r:room:s", TeamKey("a", "t", "r:room:s")),
        ("agent:a:team:t:room:", TeamKey("a", "t:room:", None)),
        ("agent:a:team::room:r", TeamKey("a", ":room:r", None)),
        ("agent:a:b:team:t", TeamKey("a:b", "t", None)),
        ("agent:a:team:t1:team::team:", TeamKey("a:team:t1", ":team:", None)),
    ],
)
def test_team_keys(key: str, parsed: TeamKey) -> None:
    assert parse_team_key(key) == parsed


@pytest.mark.parametrize(
    "key",
    [
        "agent::team:t1", "agent:a1:native", "agent:a1:team:", "agent:team:t1", "a1:team:t1", "Agent:a1:team:t1", "",
        "agent:", "agent::team:", "agent:a:team:t\n", "agent:a\r:team:t", "agent:a:team:t\u2028",
        "\u2029agent:a:team:t",
    ],
)  # fmt: skip
def test_keys_that_are_no_team_keys(key: str) -> None:
    assert parse_team_key(key) is None
    assert scopes_of(key) == ()


@pytest.mark.parametrize(
    ("key", "stream"),
    [
        ("agent:a1:team:t1", "team:t1"),
        ("agent:a2:team:t1:room:r1", "team:t1"),
        ("agent:a1:native", "agent:a1"),
        ("agent:a1:", "agent:a1"),
        ("agent:a1:team:", "agent:a1"),
        ("agent:a1", "agent:a1"),
        ("agent::native", "agent::native"),
        ("agent::team:t1", "agent::team:t1"),
        ("agent:a1:native\n", "agent:a1:native\n"),
        ("anything", "anything"),
        ("agent:a1:native#cleared:5", "agent:a1"),
    ],
)
def test_the_stream_of_a_key(key: str, stream: str) -> None:
    assert stream_of(key) == stream


def test_a_key_without_a_second_colon_belongs_to_no_agent() -> None:
    assert agent_id_of("agent:a1") is None
    assert agent_id_of("agent:a1:native") == "a1"


def test_the_scopes_that_end_a_key() -> None:
    assert scopes_of("agent:a:team:t") == (Scope("t", "general"), Scope("t", "*"))
    assert scopes_of("agent:a:team:t:room:r") == (Scope("t", "room:r"), Scope("t", "*"))
    assert scope_covers(Scope("t", "*"), "agent:a:team:t:room:r")
    assert not scope_covers(Scope("t", "general"), "agent:a:team:t:room:r")
    assert Scope("t", "room:r").subject() == "team:t:room:r"


@given(KEYS.map("".join))
def test_every_scope_of_a_key_lies_in_the_keys_stream(key: str) -> None:
    parsed = parse_team_key(key)
    for scope in scopes_of(key):
        assert stream_of(key) == team_stream(scope.team_id)
    if parsed is not None:
        room = "" if parsed.room_id is None else f":room:{parsed.room_id}"
        assert key == f"agent:{parsed.agent_id}:team:{parsed.team_id}{room}"
        assert parsed.agent_id
        assert parsed.team_id


@pytest.mark.parametrize("part", [":team:", ":room:", "agent:", ":", "\r", ":team", "x"])
def test_a_hostile_key_is_parsed_in_linear_time(part: str) -> None:
    started = time.perf_counter()
    for ending in ("", ":team:", ":team:t", "\n"):
        parse_team_key("agent:a" + part * 300_000 + ending)
        agent_id_of("agent:" + part * 300_000 + ending)
    assert time.perf_counter() - started < 2


def test_ids_are_the_first_half_of_a_sha256() -> None:
    assert session_id("é").bytes == hashlib.sha256("é".encode()).digest()[:16]
    session = session_id("k")
    assert entry_hash(session, "e").bytes == hashlib.sha256(session.bytes + b"e").digest()[:16]


def test_keys_that_address_what_was_cleared_are_reserved() -> None:
    assert is_reserved("agent:a:team:t#cleared:5")
    assert not is_reserved("agent:a:team:t#cleared")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a\x00", "field must not contain U+0000"),
        ("\ud800", "field must not contain lone surrogates"),
        ("x" * 1025, "field must be at most 1024 bytes"),
        ("😀" * 257, "field must be at most 1024 bytes"),
    ],
)
def test_a_bad_name_is_refused_with_the_fields_name(name: str, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_name(name, "field")
    assert str(caught.value) == why


@pytest.mark.parametrize("name", ["x" * 1024, "😀" * 256, "\x01\n\u2028", " "])
def test_other_names_are_fine(name: str) -> None:
    check_name(name, "field")
