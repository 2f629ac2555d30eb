"""What a provider is asked, and what it streams back (orchestrator.md, "Types")."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from turnlog.domain.errors import Unavailable
from turnlog.domain.history.messages import AgentMessage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that the model may call. `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One complete call by the model. `arguments` is the JSON text as the model wrote it, valid or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ResponseMetadata:
    """How an answer ended and what it cost, in tokens; None where the provider didn't say."""

    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """The whole conversation to answer, a system message first if there is one, and the tools on offer."""

    messages: Sequence[AgentMessage]
    tools: Sequence[ToolSpec] = field(default_factory=tuple)


ProviderPart = str | ToolCall | ResponseMetadata
"""A piece of text, a complete tool call, or what is known about the answer so far."""


class ProviderError(Unavailable):
    """The provider refused, failed, or broke its own protocol. `http_status` is its HTTP status, if there was one.

    The text holds no message text and no key.
    """

    def __init__(self, message: str, *, http_status: int | None = None) -> None:
        super().__init__(message)
        self.http_status = http_status


class Provider(Protocol):
    """One model behind one API. Safe for several requests at once."""

    def stream(self, request: ProviderRequest) -> AsyncIterator[ProviderPart]:
        """The answer, as it comes. Raises ProviderError; closing the iterator ends the request."""
        ...
