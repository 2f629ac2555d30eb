"""A process that owns an embedded PostgreSQL, for the tests to kill: `python embedded_postgres_owner.py DIR [watch]`.

Prints one JSON line, `{"pid": …, "dsn": …, "version": …}` or `{"error": …, "category": …, "text": …}`, then waits for
end of file on stdin.
"""

import json
import os
import sys
from pathlib import Path

import anyio
import uvloop

from turnlog.domain.errors import TurnlogError
from turnlog.infra.embedded_postgres import embedded_postgres
from turnlog.infra.postgres_launcher import WATCH_BY_PIPE


def _say(**line: object) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


async def _own(data_dir: Path, *, watch_by_pipe: bool) -> None:
    try:
        async with embedded_postgres(data_dir, watch_by_pipe=watch_by_pipe) as server:
            _say(pid=server.pid, dsn=server.dsn, version=server.version)
            await anyio.to_thread.run_sync(sys.stdin.read)
    except TurnlogError as error:
        _say(error=type(error).__name__, category=error.category.value, text=str(error))


if __name__ == "__main__":
    uvloop.run(_own(Path(sys.argv[1]), watch_by_pipe=WATCH_BY_PIPE or "watch" in sys.argv[2:]))
