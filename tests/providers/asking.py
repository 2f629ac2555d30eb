"""A client of the scripted server, and what it is asked."""

from contextlib import aclosing
from typing import TypedDict, Unpack

from tests.providers.scripted_server import ScriptedServer
from turnlog.services.providers.openai_compatible import OpenAICompatible
from turnlog.services.providers.provider import ProviderPart, ProviderRequest

KEY = "sk-top-secret"
SAID = "my cat is called Moritz"
REQUEST = ProviderRequest([{"role": "user", "content": SAID}])


class Settings(TypedDict, total=False):
    """What a test may set of a client; times in seconds."""

    timeout_s: float
    connect_timeout_s: float
    retries: int
    first_pause_s: float
    longest_pause_s: float


class Asking:
    """Makes clients of one server; the pauses they want are recorded in `pauses`, in seconds, and not made."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.pauses: list[float] = []
        self.clients: list[OpenAICompatible] = []

    async def sleep(self, seconds: float) -> None:
        """A pause that takes no time."""
        self.pauses.append(seconds)

    def client(self, base_url: str | None = None, **settings: Unpack[Settings]) -> OpenAICompatible:
        """A client that is closed at the end of the test."""
        settings.setdefault("timeout_s", 20.0)
        client = OpenAICompatible(base_url or self.server.base_url, "a-model", KEY, sleep=self.sleep, **settings)
        self.clients.append(client)
        return client

    async def parts(self, request: ProviderRequest = REQUEST, **settings: Unpack[Settings]) -> list[ProviderPart]:
        """The whole answer to one request."""
        return await parts_of(self.client(**settings), request)


async def parts_of(client: OpenAICompatible, request: ProviderRequest = REQUEST) -> list[ProviderPart]:
    """The whole answer to one request."""
    async with aclosing(client.stream(request)) as stream:
        return [part async for part in stream]
