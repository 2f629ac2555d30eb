"""The scripted server and its clients; no proxy from the environment stands between them."""

from collections.abc import AsyncIterator

import pytest

from tests.providers.asking import Asking
from tests.providers.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go straight to the loopback interface."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A server without answers."""
    server = ScriptedServer()
    async with server.serving():
        yield server


@pytest.fixture
async def asking(server: ScriptedServer) -> AsyncIterator[Asking]:
    """Clients of `server`."""
    asking = Asking(server)
    yield asking
    for client in asking.clients:
        await client.aclose()
