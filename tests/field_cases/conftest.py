"""The server of this directory whose log is in Postgres: for what is about amounts, bytes and zones."""

from collections.abc import AsyncIterator

import pytest

from tests.api import Api
from tests.postgres_server import Database
from tests.served import serving


@pytest.fixture(scope="session")
async def on_postgres(
    postgres_server: Database, template_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Api]:
    """Talks to a server with log and tables in one Postgres, whose zone and its server's are far from each other."""
    directory = tmp_path_factory.mktemp("field")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/Los_Angeles")
        async with serving(postgres_server, template_database, {}, directory, erasure_interval_s="0.1") as found:
            yield found
