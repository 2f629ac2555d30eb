"""For every test: real servers as plugins, no settings from outside, no blocking call in the event loop."""

import inspect
import os
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx

pytest_plugins = ["tests.postgres_server", "tests.kafka_server", "tests.served", "tests.counts"]

_KEPT = ("TURNLOG_TEST_", "TURNLOG_KAFKA_CACHE")
_ALLOWED_TO_BLOCK = (
    # The driver looks for ~/.pgpass and certificates when it connects: a few small local files.
    ("asyncpg/connect_utils.py", {"_parse_connect_dsn_and_args", "_read_password_file"}),
    # Upgrades run before anything is served.
    ("alembic/command.py", {"upgrade"}),
    ("infra/migrations/__init__.py", {"_upgrade"}),
    # An import inside a function reads the module's file, once.
    ("importlib/_bootstrap.py", {"_find_and_load"}),
    ("<frozen importlib._bootstrap>", {"_find_and_load"}),
)


def pytest_configure() -> None:
    """Settings of the person who runs the tests must not reach the code under test."""
    for name in list(os.environ):
        if name == "STUDIO_ACCESS_TOKEN" or (name.startswith("TURNLOG_") and not name.startswith(_KEPT)):
            del os.environ[name]


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """A blocking call of our code inside an event loop fails the test, with the call in the error."""
    if not inspect.iscoroutinefunction(getattr(request, "function", None)):
        yield
        return
    with blockbuster_ctx(scanned_modules=["turnlog"]) as blockbuster:
        for blocking in blockbuster.functions.values():
            for file, functions in _ALLOWED_TO_BLOCK:
                blocking.can_block_in(file, functions)
        yield
