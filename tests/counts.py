"""A pytest plugin: what tests counted, in the last lines of the run, whichever process they ran in."""

from collections.abc import Callable

import pytest
from _pytest.terminal import TerminalReporter

Report = Callable[[str], None]
_PROPERTY = "counts"


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    """Takes a line of counts; with the test's result it reaches whoever prints the summary."""
    return lambda line: record_property(_PROPERTY, line)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """The lines, by test."""
    counted = [
        (found.nodeid, line)
        for outcome in ("passed", "failed")
        for found in terminalreporter.stats.get(outcome, ())
        if found.when == "call"
        for name, line in found.user_properties
        if name == _PROPERTY
    ]
    if counted:
        terminalreporter.write_sep("=", "counts")
    for test, line in counted:
        terminalreporter.write_line(f"{test.rpartition('::')[2]}: {line}")
