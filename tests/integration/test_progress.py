"""Long work shows how far it is: lines in a log, a bar on a terminal."""

import io
import sys

import pytest

from turnlog.services.progress import progress


async def test_without_a_terminal_the_first_and_the_last_step_are_a_line_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress("rebuild", 30_000) as show:
        for done in range(0, 30_001, 1_000):
            show(done)
    assert capsys.readouterr().err.splitlines() == ["rebuild: 0 of 30,000 records", "rebuild: 30,000 of 30,000 records"]


class Terminal(io.StringIO):
    """What looks like a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


async def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("rebuild", 10) as show:
        show(10)
    assert "rebuild" in terminal.getvalue()
    assert "100%" in terminal.getvalue()
