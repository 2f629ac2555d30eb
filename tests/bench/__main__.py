"""`make bench`: every row, or those named. Exits 1 if an append, growth, clear or bytes row falls short.

Example: python -m tests.bench append http --write docs/benchmarks.md
"""

import argparse
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from tests.bench.append import append_rows
from tests.bench.clearing import clear_rows
from tests.bench.latency import append_latency_row
from tests.bench.memory import memory_rows
from tests.bench.pages import page_rows
from tests.bench.ratio import Row
from tests.bench.report import write_report
from tests.bench.size import size_row
from tests.bench.visibility import frames_row, visible_row
from tests.bench.wrk import http_row
from tests.postgres_server import temporary_data_dir
from tests.turnlog_process import TurnlogProcess
from turnlog.infra.embedded_postgres import embedded_postgres
from turnlog.infra.settings import load_settings
from turnlog.infra.structured_logs import configure_logging
from turnlog.services.composition import Turnlog, open_turnlog
from turnlog.services.garbage import look_for_garbage_less_often


@asynccontextmanager
async def _in_process() -> AsyncIterator[tuple[Turnlog, str]]:
    with temporary_data_dir() as data_dir:
        async with (
            embedded_postgres(data_dir) as postgres,
            open_turnlog(load_settings({"database_url": postgres.dsn})) as running,
        ):
            look_for_garbage_less_often()  # as a server does
            yield running, postgres.dsn


@asynccontextmanager
async def _served(**settings: str) -> AsyncIterator[tuple[TurnlogProcess, str]]:
    with temporary_data_dir() as data_dir, tempfile.TemporaryDirectory() as logs:
        async with embedded_postgres(data_dir) as postgres:
            server = TurnlogProcess({"database_url": postgres.dsn, **settings}, Path(logs) / "server.log")
            await server.start()
            try:
                yield server, postgres.dsn
            finally:
                await server.stop()


async def _append() -> list[Row]:
    async with _in_process() as (log, dsn):
        return await append_rows(log, dsn)


async def _latency() -> list[Row]:
    async with _in_process() as (log, _):
        return [await append_latency_row(log)]


async def _bytes() -> list[Row]:
    async with _in_process() as (log, dsn):
        return [await size_row(log, dsn)]


async def _http() -> list[Row]:
    async with _served() as (server, dsn):
        return [await http_row(server.port, dsn)]


async def _pages() -> list[Row]:
    async with _served() as (server, dsn):
        return await page_rows(server.port, dsn)


async def _visible() -> list[Row]:
    async with _served() as (server, _):
        return [await visible_row(server.port, "Postgres", 50), await frames_row(server.port)]


async def _visible_on_kafka() -> list[Row]:
    from tests.bench.kafka import kafka_running

    async with kafka_running() as bootstrap, _served(kafka_bootstrap_servers=bootstrap) as (server, _):
        return [await visible_row(server.port, "Kafka", 100)]


async def _clear() -> list[Row]:
    async with _served() as (server, _):
        return await clear_rows(server.port)


async def _memory() -> list[Row]:
    async with _served() as (server, dsn):
        return await memory_rows(server.port, server.pid, dsn)


ROWS: dict[str, Callable[[], Awaitable[list[Row]]]] = {
    "append": _append,
    "http": _http,
    "latency": _latency,
    "pages": _pages,
    "visible": _visible,
    "kafka": _visible_on_kafka,
    "clear": _clear,
    "bytes": _bytes,
    "memory": _memory,
}


async def _run(names: list[str], report: Path | None) -> int:
    rows: list[Row] = []
    for name in names:
        sys.stderr.write(f"bench: {name}\n")
        measured = await ROWS[name]()
        for row in measured:
            sys.stdout.write(row.line() + "\n")
            sys.stdout.flush()
        rows += measured
    if report is not None:
        write_report(report, rows)
    return 1 if any(row.gate and not row.reached for row in rows) else 0


def main() -> int:
    """Run the rows named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"rows to run, of {', '.join(ROWS)} (all)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the results table into this page")
    options = parser.parse_args()
    if unknown := sorted(set(options.rows) - set(ROWS)):
        parser.error(f"no such row: {', '.join(unknown)}")
    configure_logging("warning", "auto")
    return anyio.run(_run, options.rows or list(ROWS), options.write, backend_options={"use_uvloop": True})


if __name__ == "__main__":
    sys.exit(main())
