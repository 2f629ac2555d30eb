"""JSON Schemas of the event types, generated from the structs into `docs/schemas`, one file per type.

`python -m tests.domain.schema_files` writes them. A file that exists is only replaced by a compatible schema: what a
log holds can't be changed, so anything else is a new version of the type (events.md).
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.domain.schema_compatibility import incompatibilities
from turnlog.domain.event_json import DATA_TYPES
from turnlog.domain.events import EventType

DIRECTORY = Path(__file__).parents[2] / "docs" / "schemas"
Schema = dict[str, Any]


def schema_of(event_type: EventType) -> Schema:
    """The JSON Schema (2020-12) of a type's data. A raw part is any JSON."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": event_type.wire_name}
    return head | msgspec.json.schema(DATA_TYPES[event_type])


def path_of(event_type: EventType) -> Path:
    """The golden file of a type."""
    return DIRECTORY / f"{event_type.wire_name}.json"


def text_of(schema: Schema) -> str:
    """A schema as its file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write every file, or none if one would break compatibility; the reasons go to stderr."""
    broken = [
        f"{event_type.wire_name}: {reason}"
        for event_type in EventType
        if path_of(event_type).exists()
        for reason in incompatibilities(json.loads(path_of(event_type).read_text()), schema_of(event_type))
    ]
    if broken:
        sys.stderr.write("\n".join(["not written:", *broken, ""]))
        return 1
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for event_type in EventType:
        path_of(event_type).write_text(text_of(schema_of(event_type)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
