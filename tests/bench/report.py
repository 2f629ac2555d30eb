"""The results table in docs/benchmarks.md, between two marks."""

import platform
from pathlib import Path

from tests.bench.ratio import Row

BEGIN = "<!-- results -->"
END = "<!-- /results -->"


def write_report(page: Path, rows: list[Row]) -> None:
    """Replace what stands between the marks of the page."""
    text = page.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    machine = f"Python {platform.python_version()}, {platform.machine()}, {_cores()} cores."
    table = "\n".join(
        [
            "| what | goal | measured | spread (values) | | notes |",
            "| - | - | - | - | - | - |",
            *(r.line() for r in rows),
        ]
    )
    page.write_text(f"{before}{BEGIN}\n{machine}\n\n{table}\n{END}{after}")


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))
