"""Progress of long work: a bar on a terminal, plain lines otherwise."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio

LINE_EVERY_S = 5.0


class Progress(Protocol):
    """Told how much is done; decides by itself when to show it."""

    def __call__(self, done: int) -> None:
        """`done` of the total units are done."""
        ...


@contextmanager
def progress(what: str, total: int, unit: str = "records") -> Iterator[Progress]:
    """Show progress of `total` units on stderr while the context lasts."""
    if sys.stderr.isatty():
        with _bar(what, total) as shown:
            yield shown
        return
    last = -LINE_EVERY_S

    def line(done: int) -> None:
        nonlocal last
        now = anyio.current_time()
        if now - last >= LINE_EVERY_S or done >= total:
            last = now
            sys.stderr.write(f"{what}: {done:,} of {total:,} {unit}\n")

    yield line


@contextmanager
def _bar(what: str, total: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    with RichProgress(console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
