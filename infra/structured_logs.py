"""Logs: one line an event, JSON unless on a terminal, on the error output. What users write and tokens never get in.

Three rules see to that. A field is logged only if its name is on the list below. An exception is logged as its type
and the places it came through, without its message, which can quote data; errors of our own tree are safe to quote.
Of a library's record only the first line is taken, and its arguments only if the library is known to quote no data.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from turnlog.domain.errors import TurnlogError

FIELDS = frozenset(
    {
        "at",
        "bytes",
        "cause",
        "count",
        "data_dir",
        "events",
        "fence",
        "generation",
        "host",
        "kind",
        "limit",
        "method",
        "name",
        "new",
        "next_offset",
        "partition",
        "partitions",
        "path",
        "pause_s",
        "pid",
        "port",
        "position",
        "producer",
        "reason",
        "records",
        "revision",
        "signal",
        "status",
        "table",
        "topic",
        "url",
        "version",
        "waited_s",
    }
)
"""Names of fields that hold no text of a user and no secret."""

_OWN = frozenset({"event", "level", "timestamp", "logger", "exception", "left_out"})
_LONGEST = 500
_FRAMES = 12
_QUOTING_NO_DATA = ("uvicorn.error", "aiokafka", "alembic", "asyncpg", "turnlog")
# aiokafka logs whole records at DEBUG, and up to a thousand errors a second while a broker is away, of which the log's
# own adapter tells in its own lines; SQLAlchemy logs statements with their parameters at INFO.
_LEAST_LEVELS = {
    "": logging.INFO,
    "aiokafka": logging.CRITICAL,
    "alembic": logging.WARNING,
    "sqlalchemy": logging.WARNING,
    "uvicorn.access": logging.CRITICAL,
    "uvicorn.error": logging.WARNING,
}


def configure_logging(
    level: Literal["debug", "info", "warning", "error"], form: Literal["auto", "json", "console"]
) -> None:
    """Send everything that is logged in this process, by us or by a library, to the error output in one form."""
    least = logging.getLevelNamesMapping()[level.upper()]
    terminal = form == "console" or (form == "auto" and sys.stderr.isatty())
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        without_messages,
        only_listed_fields,
    ]
    render: Processor = structlog.dev.ConsoleRenderer() if terminal else _as_json
    structlog.configure(
        processors=[*common, render],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _first_line, *common],
        )
    )
    logging.basicConfig(handlers=[handler], force=True)
    for name, floor in _LEAST_LEVELS.items():
        logging.getLogger(name).setLevel(max(least, floor))
    logging.captureWarnings(capture=True)


def only_listed_fields(_logger: WrappedLogger, _method: str, fields: EventDict) -> EventDict:
    """Leave out what isn't on the list, say so by name, and cut long text."""
    unlisted = sorted(name for name in fields if name not in FIELDS and name not in _OWN and not name.startswith("_"))
    for name in unlisted:
        del fields[name]
    for name, value in fields.items():
        if isinstance(value, str) and len(value) > _LONGEST:
            fields[name] = value[:_LONGEST] + "…"
    if unlisted:
        fields["left_out"] = unlisted
    return fields


def without_messages(_logger: WrappedLogger, _method: str, fields: EventDict) -> EventDict:
    """Turn an exception into its type and the places it came through."""
    given = fields.pop("exc_info", None)
    fields.pop("stack_info", None)
    error = given if isinstance(given, BaseException) else given[1] if isinstance(given, tuple) else None
    if given is True:
        error = sys.exc_info()[1]
    if error is not None:
        fields["exception"] = described(error)
    return fields


def described(error: BaseException) -> str:
    """An exception and its causes in one line: types and places."""
    return "; caused by ".join(_chain(error))


def _chain(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        name = type(current).__name__
        said = f"{name} ({current})" if isinstance(current, TurnlogError) else name
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in extract_tb(current.__traceback__)]
        yield f"{said} at {' > '.join(places[-_FRAMES:])}"
        if isinstance(current, BaseExceptionGroup):
            for inner in current.exceptions:
                yield from _chain(inner)
        current = current.__cause__ or current.__context__


def _first_line(_logger: WrappedLogger, _method: str, fields: EventDict) -> EventDict:
    record: logging.LogRecord = fields["_record"]
    if not record.name.startswith(_QUOTING_NO_DATA):
        fields["event"] = str(record.msg)
    first = str(fields["event"]).partition("\n")[0]
    # The rest of a traceback may quote data; whoever raised it says more in a line of its own.
    fields["event"] = "unhandled_error" if "Traceback (most recent call last)" in first else first
    return fields


def _as_json(_logger: WrappedLogger, _method: str, fields: MutableMapping[str, Any]) -> str:
    first = {name: fields.pop(name) for name in ("timestamp", "level", "event") if name in fields}
    return json.dumps({**first, **fields}, default=_as_text, separators=(",", ":"))


def _as_text(value: object) -> str:
    """For values that JSON can't hold."""
    return str(value) if isinstance(value, Path | Mapping) else type(value).__name__
