"""What people install: the wheel, made from the sdist as an index would, in an environment that has nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PACKAGES = ("domain", "infra", "projections", "services")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist of the checkout, and the wheel of that sdist, unpacked where no link of the checkout leads."""
    place = tmp_path_factory.mktemp("built")
    run(["-m", "build", "--no-isolation", "--sdist", "--outdir", str(place), str(PROJECT)])
    (sdist,) = place.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(place / "unpacked", filter="data")
    (unpacked,) = (place / "unpacked").iterdir()
    run(["-m", "build", "--no-isolation", "--wheel", "--outdir", str(place), str(unpacked)])
    (wheel,) = place.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel installed, without its dependencies."""
    target = tmp_path_factory.mktemp("installed")
    run(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(built[1])])
    return target


def run(arguments: list[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - ours
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_of_checkout() -> set[str]:
    """Every file of the packages that git knows, or would add, as a path inside `turnlog`."""
    listed = subprocess.run(  # noqa: S603 - our own command
        ["git", "-C", str(PROJECT), "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    return {f"turnlog/{line}" for line in listed.stdout.splitlines() if (PROJECT / line).exists()}


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == files_of_checkout() | {"turnlog/__init__.py", "turnlog/py.typed"}


def test_the_sdist_holds_the_tests_and_what_describes_the_project(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py", "docs/settings.md"} <= names


def test_only_turnlog_can_be_imported_at_the_top_level(installed: Path) -> None:
    code = f"""
import pkgutil
print(*sorted(module.name for module in pkgutil.iter_modules([{str(installed)!r}])))
"""
    assert run(["-I", "-c", code]).split() == ["turnlog"]


def test_the_installed_package_works_without_the_checkout(installed: Path) -> None:
    """Dependencies come from this environment, turnlog from the wheel: not from the checkout's links."""
    code = f"""
import sys
sys.path[:] = [{str(installed)!r}] + [path for path in sys.path if {str(PROJECT / "src")!r} != path]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
import importlib, pkgutil
import turnlog
from alembic.config import Config
from alembic.script import ScriptDirectory
assert turnlog.__file__.startswith({str(installed)!r}), turnlog.__file__
modules = [module.name for module in pkgutil.walk_packages(turnlog.__path__, "turnlog.")]
for name in modules:
    if not name.endswith((".env", "__main__")):
        importlib.import_module(name)
from turnlog.infra import migrations
config = Config()
config.set_main_option("script_location", str(migrations._SCRIPTS))
config.set_main_option("path_separator", "os")
print(len(modules), ScriptDirectory.from_config(config).get_current_head())
"""
    count, head = run(["-c", code]).split()
    assert int(count) > 60
    assert head != "None"


def test_the_command_is_there(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        (entry_points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
        assert "turnlog = turnlog.services.cli:main" in wheel.read(entry_points).decode()
