"""One server for the tests that change none of its settings."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.http.running import Running, running


@pytest_asyncio.fixture(loop_scope="session", scope="session", name="shared_server")
async def _shared_server() -> AsyncIterator[Running]:
    async with running() as found:
        yield found


@pytest.fixture
def server(shared_server: Running) -> Running:
    """The shared server, with nothing asked of it yet."""
    shared_server.commands.calls.clear()
    shared_server.commands.failing = None
    shared_server.tables.failing = None
    return shared_server
