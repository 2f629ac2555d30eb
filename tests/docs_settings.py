"""Makes docs/settings.md from the settings and the flags. Example: `.venv/bin/python -m tests.docs_settings`."""

from collections.abc import Iterator
from pathlib import Path

import typer.main
from pydantic.fields import FieldInfo
from typer.core import TyperCommand, TyperGroup

from turnlog.infra.settings import PREFIX, Settings
from turnlog.services.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
_HEAD = """# Settings

Every setting is an environment variable; the frequent ones are flags as well. A flag goes over the variable, the
variable over the default. A misspelled variable is named in a warning at start, a value out of bounds ends the start
with exit status 2. `turnlog <command> --help` says which flags a command takes.

This page is made from `infra/settings.py` by `python -m tests.docs_settings`; a test checks that it is in step.

| variable | flag | default | meaning |
| - | - | - | - |
"""
_TAIL = """
`STUDIO_ACCESS_TOKEN` is another name of `TURNLOG_ACCESS_TOKEN`, which goes over it. Lists are separated by commas.
Names ending in `_MS` are milliseconds, `_S` seconds, `_BYTES` bytes.
"""


def flags() -> dict[str, str]:
    """Setting → flag, over all commands."""
    root = typer.main.get_command(app)
    return {parameter.name or "": parameter.opts[0] for command in commands(root) for parameter in command.params}


def commands(group: object) -> Iterator[TyperCommand]:
    """Every command below, in the order of the help."""
    if isinstance(group, TyperGroup):
        for command in group.commands.values():
            yield from commands(command)
    elif isinstance(group, TyperCommand):
        yield group


def page() -> str:
    """The whole page."""
    known = flags()
    rows = (_row(name, field, known.get(name)) for name, field in Settings.model_fields.items())
    return _HEAD + "".join(rows) + _TAIL


def _row(name: str, field: FieldInfo, flag: str | None) -> str:
    shown_flag = f"`{flag}`" if flag else ""
    return f"| `{PREFIX}{name.upper()}` | {shown_flag} | {_default(name, field)} | {field.description} |\n"


def _default(name: str, field: FieldInfo) -> str:
    if name == "data_dir":
        return "the user data directory; `/var/lib/turnlog` for root"
    match field.default:
        case None | ():
            return "none"
        case bool(value):
            return "on" if value else "off"
        case float(value):
            return f"`{value:g}`"
        case value:
            return f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
