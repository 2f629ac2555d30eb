"""The address of an embedded PostgreSQL that another process runs, for commands that may work beside it."""

from pathlib import Path
from urllib.parse import quote

DATABASE = "turnlog"


def running_url(data_dir: Path) -> str | None:
    """`postgresql://…` of the server on this data directory as its own postmaster.pid gives it, None without one.

    Blocks for a small read: call it in a worker thread.
    """
    try:
        lines = (data_dir / "postgres" / "data" / "postmaster.pid").read_text(errors="replace").splitlines()
        port, socket = lines[3].strip(), lines[4].strip()
    except (OSError, IndexError):
        return None
    return f"postgresql://turnlog@/{DATABASE}?host={quote(socket, safe='/')}&port={port}"


def has_cluster(data_dir: Path) -> bool:
    """Whether an embedded PostgreSQL was ever made here. Blocks for a look at the directory."""
    return (data_dir / "postgres" / "data" / "PG_VERSION").exists()
