"""The published JSON Schemas: in step with the structs, and only ever changed compatibly (events.md)."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tests.domain import schema_files
from tests.domain.schema_compatibility import incompatibilities
from tests.domain.schema_files import DIRECTORY, Schema, path_of, schema_of, text_of
from turnlog.domain.event_json import DATA_TYPES
from turnlog.domain.events import EventType

V1: Schema = {
    "$ref": "#/$defs/Turn",
    "$defs": {
        "Turn": {
            "type": "object",
            "properties": {
                "key": {"type": "string", "minLength": 1},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "outcome": {"enum": ["failed", "ok"], "default": "ok"},
                "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "default": []},
            },
            "required": ["key"],
        },
        "Item": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    },
}


def changed(change: Callable[[Any, Any], object]) -> list[str]:
    """What the checker says to V1 with its two definitions changed."""
    new = copy.deepcopy(V1)
    change(new["$defs"]["Turn"], new["$defs"]["Item"])
    return incompatibilities(V1, new)


@pytest.mark.parametrize("event_type", EventType)
def test_each_golden_file_is_in_step_with_its_struct(event_type: EventType) -> None:
    golden = path_of(event_type).read_text()
    assert incompatibilities(json.loads(golden), schema_of(event_type)) == [], "needs a new version of the type"
    assert golden == text_of(schema_of(event_type)), "run: python -m tests.domain.schema_files"


def test_there_is_one_file_per_type() -> None:
    assert set(DIRECTORY.iterdir()) == {path_of(event_type) for event_type in EventType}


@pytest.mark.parametrize("event_type", EventType)
def test_each_file_is_a_valid_schema(event_type: EventType) -> None:
    Draft202012Validator.check_schema(json.loads(path_of(event_type).read_text()))


@pytest.mark.parametrize(
    "data",
    [
        b'{"sessionKey":"s"}',
        b'{"sessionKey":"s","entries":[1,{"a":null}],"messages":null,"epoch":null,"usage":{"total":5},"unknown":1}',
        b'{"sessionKey":"s","resumePoint":{"runtime":"codex","resumeId":null}}',
        b'{"sessionKey":""}',
        b"{}",
        b'{"sessionKey":"s","epoch":-1}',
        b'{"sessionKey":"s","outcome":"done"}',
        b'{"sessionKey":"s","entries":null}',
        b'{"sessionKey":"s","resumePoint":{}}',
    ],
)
def test_the_schema_accepts_what_the_reader_accepts(data: bytes) -> None:
    try:
        msgspec.json.decode(data, type=DATA_TYPES[EventType.TURN_APPENDED])
        readable = True
    except msgspec.ValidationError:
        readable = False
    assert Draft202012Validator(schema_of(EventType.TURN_APPENDED)).is_valid(json.loads(data)) == readable


def test_an_optional_member_may_be_added() -> None:
    assert changed(lambda turn, item: turn["properties"].update(tool={"type": "string", "default": ""})) == []
    assert changed(lambda turn, item: item["properties"].update(tool={})) == []


def test_descriptions_may_change() -> None:
    assert changed(lambda turn, item: turn.update(title="T", description="better words")) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda turn, item: turn["properties"].pop("note"), "$.note: removed"),
        (lambda turn, item: turn["required"].append("note"), "$.note: became required"),
        (lambda turn, item: turn["required"].remove("key"), "$.key: is no longer required"),
        (lambda turn, item: turn["properties"]["key"].update(type="integer"), "$.key: type 'string' became 'integer'"),
        (lambda turn, item: turn["properties"]["key"].update(minLength=2), "$.key: minLength 1 became 2"),
        (lambda turn, item: turn["properties"]["key"].update(pattern="x"), "$.key: pattern None became 'x'"),
        (lambda turn, item: turn["properties"]["outcome"]["enum"].append("new"), "$.outcome: enum"),
        (lambda turn, item: turn["properties"]["outcome"].update(default="failed"), "$.outcome: default"),
        (lambda turn, item: turn["properties"]["note"]["anyOf"].pop(), "$.note: has 1 alternatives, had 2"),
        (lambda turn, item: turn["properties"]["note"]["anyOf"][0].update(type="number"), "$.note[0]: type"),
        (lambda turn, item: turn["properties"]["items"].pop("items"), "$.items.items:"),
        (lambda turn, item: item["required"].append("more"), "$.items.items.more: became required"),
        (lambda turn, item: item["properties"]["id"].update(type="string"), "$.items.items.id: type"),
        (lambda turn, item: turn.update(additionalProperties=False), "$.additionalProperties: None became False"),
    ],
)
def test_every_other_change_needs_a_new_version(change: Callable[[Any, Any], object], reason: str) -> None:
    (found,) = changed(change)
    assert found.startswith(reason)


def test_an_incompatible_schema_is_never_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(schema_files, "DIRECTORY", tmp_path)
    assert schema_files.main() == 0
    assert path_of(EventType.TICK).read_text() == text_of(schema_of(EventType.TICK))
    released = schema_of(EventType.TICK)
    released["$defs"]["Tick"]["properties"]["more"] = {}
    path_of(EventType.TICK).write_text(text_of(released))
    assert schema_files.main() == 1
    assert path_of(EventType.TICK).read_text() == text_of(released)
    assert "dev.turnlog.tick.v1: $.more: removed" in capsys.readouterr().err
