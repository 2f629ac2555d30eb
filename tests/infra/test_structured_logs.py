"""Logs: their two forms, and that nothing a user wrote and no token gets into a line."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnlog.infra.structured_logs import FIELDS

SECRET = "what somebody wrote"
PROJECT = Path(__file__).parents[2]
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def logged(code: str, *, level: str = "info", form: str = "auto") -> str:
    """What a process that runs this code writes to the error output."""
    head = f"""
import logging, structlog
from turnlog.infra.structured_logs import configure_logging
from turnlog.domain.errors import Unavailable
configure_logging({level!r}, {form!r})
log = structlog.get_logger("turnlog.test")
secret = {SECRET!r}
"""
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert done.stdout == ""
    return done.stderr


def lines(code: str, *, level: str = "info") -> list[dict[str, Any]]:
    return [json.loads(line) for line in logged(code, level=level).splitlines()]


def test_a_line_is_json_with_time_level_and_event_first_when_there_is_no_terminal() -> None:
    (line,) = lines("log.warning('it_happened', partition=3, reason='why')")
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert (line["level"], line["event"], line["partition"], line["reason"]) == ("warning", "it_happened", 3, "why")


def test_people_get_lines_to_read() -> None:
    said = logged("log.info('it_happened', partition=3)", form="console")
    assert "it_happened" in said
    assert not said.startswith("{")


def test_a_level_below_the_chosen_one_is_left_out() -> None:
    assert [line["event"] for line in lines("log.debug('a'); log.info('b'); log.error('c')", level="error")] == ["c"]


def test_a_field_that_is_not_on_the_list_is_left_out_by_name() -> None:
    (line,) = lines("log.info('it_happened', text=secret, partition=1)")
    assert line["left_out"] == ["text"]
    assert SECRET not in json.dumps(line)


def test_bound_and_context_fields_are_judged_too() -> None:
    code = "structlog.contextvars.bind_contextvars(entry=secret); log.bind(body=secret).info('it_happened')"
    (line,) = lines(code)
    assert line["left_out"] == ["body", "entry"]
    assert SECRET not in json.dumps(line)


def test_an_exception_is_its_type_and_places_without_its_message() -> None:
    code = """
def fails():
    try:
        raise ValueError(secret)
    except ValueError as error:
        raise Unavailable('the database is away') from error
try:
    fails()
except Unavailable as error:
    log.error('it_happened', exc_info=error)
    log.exception('again')
    logging.getLogger('uvicorn.error').exception('Exception in ASGI application')
"""
    found = lines(code)
    assert len(found) == 3
    for line in found:
        assert "Unavailable (the database is away) at <string>:" in line["exception"]
        assert "caused by ValueError at <string>:" in line["exception"]
        assert SECRET not in json.dumps(line)


def test_a_librarys_record_keeps_its_first_line_and_arguments_only_if_the_library_is_known() -> None:
    code = """
logging.getLogger('uvicorn.error').warning('no answer from %s', 'broker:9092')
logging.getLogger('unheard.of').warning('could not parse %r', secret)
logging.getLogger('asyncio').error('Task exception was never retrieved\\n' + secret)
"""
    assert [line["event"] for line in lines(code)] == [
        "no answer from broker:9092",
        "could not parse %r",
        "Task exception was never retrieved",
    ]


def test_libraries_that_quote_data_at_low_levels_are_not_asked_for_them() -> None:
    code = """
logging.getLogger('aiokafka.producer.producer').debug('Sending (value=%r)', secret)
logging.getLogger('sqlalchemy.engine.Engine').info('[parameters] %r', secret)
logging.getLogger('uvicorn.access').info('GET /?access_token=%s', secret)
log.debug('ours')
"""
    assert [line["event"] for line in lines(code, level="debug")] == ["ours"]


def test_long_text_is_cut() -> None:
    (line,) = lines("log.info('it_happened', reason='x' * 100_000)")
    assert len(line["reason"]) < 1000


def test_what_json_cannot_hold_does_not_stop_the_line() -> None:
    (line,) = lines("from pathlib import Path\nlog.info('e', path=Path('/x'), name=object(), count=1 << 80)")
    assert (line["path"], line["name"]) == ("/x", "object")


def own_log_calls() -> Iterator[tuple[str, ast.Call]]:
    for package in ("domain", "infra", "projections", "services"):
        for file in sorted((PROJECT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in LEVELS
                    and "log" in ast.unparse(node.func.value).lower()
                    and "logging" not in ast.unparse(node.func.value)
                ):
                    yield f"{file.relative_to(PROJECT)}:{node.lineno}", node


def test_our_own_events_are_constant_texts_with_listed_fields() -> None:
    calls = list(own_log_calls())
    assert len(calls) > 20
    for place, call in calls:
        assert isinstance(call.args[0], ast.Constant), f"{place}: the event must be a constant text"
        names = {keyword.arg for keyword in call.keywords} - {"exc_info"}
        assert names <= FIELDS, f"{place}: not on the list of infra/structured_logs.py: {names - FIELDS}"


@pytest.mark.parametrize("form", ["json", "console"])
def test_warnings_of_python_come_as_lines_too(form: str) -> None:
    said = logged("import warnings; warnings.warn('old', UserWarning)", form=form)
    assert len(said.splitlines()) == 1
