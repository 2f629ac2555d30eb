"""The command `turnlog`: quick help, one clear line for each failure, and exit statuses."""

import importlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
import typer.main

from tests import docs_settings
from tests.postgres_server import temporary_data_dir
from turnlog import __version__
from turnlog.services import cli

TURNLOG = Path(sys.executable).with_name("turnlog")
HEAVY = ("sqlalchemy", "fastapi", "asyncpg", "aiokafka", "pydantic_settings", "structlog", "anyio", "alembic")


def turnlog(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own program
        [str(TURNLOG), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | variables,
        timeout=60,
        check=False,
    )


def test_version_is_told() -> None:
    done = turnlog("version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"turnlog {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["serve", "--help"]])
def test_help_and_version_are_quick_because_nothing_heavy_is_imported(arguments: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["turnlog", *{arguments!r}]
from turnlog.services.cli import main
try:
    main()
finally:
    print("imported:", *sorted({{name.partition(".")[0] for name in sys.modules}} & set({HEAVY!r})))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - own code
    assert done.stdout.splitlines()[-1] == "imported:"


def test_help_takes_less_than_a_third_of_a_second_of_processor_time() -> None:
    taken = []
    for _ in range(3):
        before = os.times()
        assert turnlog("--help").returncode == 0
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(taken) < 0.33


def test_every_command_shows_an_example_that_it_understands() -> None:
    root = docs_settings.commands(typer.main.get_command(cli.app))
    found = {command.name: command.help or "" for command in root}
    assert set(found) == {"serve", "project", "rebuild", "verify", "migrate", "version", "check", "create"}
    for name, text in found.items():
        examples = re.findall(r"^ *(turnlog .*)$", text, flags=re.MULTILINE)
        assert examples, f"{name} has no example"
        for example in examples:
            arguments = example.split()[1:]
            assert turnlog(*arguments, "--help").returncode == 0, example
            assert name in arguments


def test_every_command_leads_to_a_function() -> None:
    source = Path(cli.__file__).read_text(encoding="utf-8")
    commands = re.findall(r'_run\("([^"]+)"', source)
    assert len(commands) == 7
    for command in commands:
        module, _, function = command.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--port", "99999"], "turnlog: TURNLOG_PORT: Input should be less than or equal to 65535\n"),
        (["verify", "--database-url", "mysql://u:hunter2@h/d"], "must begin with postgresql://"),
        (["serve", "--access-token", "hunter2;"], "the access token may hold only the characters"),
        (["serve", "--host", "0.0.0.0"], "refusing to listen on 0.0.0.0 without an access token"),  # noqa: S104 - refused
        (["topic", "check"], "TURNLOG_KAFKA_BOOTSTRAP_SERVERS"),
        (["serve", "--no-such-flag"], "No such option: --no-such-flag"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_a_wrong_use_is_told_in_a_line_with_exit_status_2(arguments: list[str], said: str) -> None:
    done = turnlog(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_what_is_out_of_reach_is_told_in_the_last_line_with_exit_status_1() -> None:
    for arguments in (
        ["verify", "--database-url", "postgresql://turnlog@127.0.0.1:1/turnlog"],
        ["topic", "check", "--kafka-bootstrap-servers", "127.0.0.1:1"],
    ):
        done = turnlog(*arguments, "--log-level", "error")
        assert done.returncode == 1
        *logged, told = done.stderr.splitlines()
        assert told.startswith("turnlog: ")
        assert all(line.startswith("{") for line in logged), "a library may have logged, but there is no traceback"


def test_a_bug_is_told_by_type_and_place_without_a_traceback_or_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    async def breaks(_settings: object) -> None:
        async with anyio.create_task_group():
            raise KeyError("what somebody wrote")

    with pytest.raises(typer.Exit) as ended:
        cli._run_to_the_end(breaks, None)  # type: ignore[arg-type]  # it isn't looked at
    said = capsys.readouterr().err
    assert ended.value.exit_code == 1
    assert re.fullmatch(r"turnlog: this is a bug in turnlog: KeyError at [^\n]+\n", said)
    assert "somebody" not in said


@pytest.mark.parametrize("command", ["verify", "rebuild"])
def test_a_mistyped_data_directory_is_told_and_not_made(command: str, tmp_path: Path) -> None:
    done = turnlog(command, "--data-dir", str(tmp_path / "nosuch"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'nosuch'} holds no turnlog data" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "nosuch").exists()


def test_a_port_in_use_is_told_after_everything_has_been_put_away() -> None:
    with temporary_data_dir() as data_dir, socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = turnlog("serve", "--port", port, "--data-dir", str(data_dir), "--log-level", "error")
        assert done.returncode == 2
        assert f"turnlog: can't listen on 127.0.0.1 port {port}: another process may be using it" in done.stderr
        assert "Traceback" not in done.stderr
        assert "already in use" in done.stderr
        assert not (data_dir / "postgres" / "data" / "postmaster.pid").exists()


def test_an_interrupt_inside_a_task_group_is_an_interrupt() -> None:
    async def interrupted(_settings: object) -> None:
        async with anyio.create_task_group():
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        cli._run_to_the_end(interrupted, None)  # type: ignore[arg-type]  # it isn't looked at
    assert ended.value.exit_code == 130


def test_a_misspelled_variable_is_warned_about() -> None:
    done = turnlog("topic", "check", TURNLOG_TOPICS="x")
    assert '"event":"unknown_setting","name":"TURNLOG_TOPICS"' in done.stderr
