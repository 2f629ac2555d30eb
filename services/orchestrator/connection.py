"""A provider in the hands of one orchestrator, with tools and controller (orchestrator.md, "Restore")."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import ChatMessage
from turnlog.services.agent.tools import Tool, Toolbox, ToolFunction
from turnlog.services.orchestrator.controller import Controller
from turnlog.services.orchestrator.errors import MissingArgumentError, ProviderInUseError
from turnlog.services.orchestrator.llm_provider import AttachmentsByMessageId, LLMProvider
from turnlog.services.orchestrator.windowed_provider import WindowedProvider
from turnlog.services.providers.provider import Provider


class _Claim:
    """One orchestrator's hold on a provider instance, for as long as the claim lives. While it does, so does the
    provider, and no other object has its id.
    """

    __slots__ = ("__weakref__", "_provider")

    def __init__(self, provider: object) -> None:
        """Raises ProviderInUseError."""
        if id(provider) in _claims:
            raise ProviderInUseError
        self._provider = provider
        _claims[id(provider)] = self

    def release(self) -> None:
        """Let others have the provider, at once."""
        _claims.pop(id(self._provider), None)


_claims: WeakValueDictionary[int, _Claim] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Connection:
    """What an orchestrator is connected to. The provider is free again once nothing refers to the connection."""

    provider: LLMProvider
    toolbox: Toolbox
    controller: Controller | None
    claim: _Claim


def connected(
    provider: LLMProvider | Provider,
    tools: Iterable[ToolFunction | Tool],
    controller: Controller | None,
    replayed: tuple[Sequence[ChatMessage], AttachmentsByMessageId] | None,
) -> Connection:
    """Take the provider and tell it the history, unless `replayed` is None. A provider without `set_history` gets a
    memory.

    Raises MissingArgumentError, BadInput, ProviderInUseError, and what `set_history` raises; the provider is free then.
    """
    checked_provider(provider)
    toolbox = Toolbox([*tools, *(() if controller is None else controller.tools())])
    claim = _Claim(provider)
    try:
        remembering = _remembering(provider)
        if replayed is not None:
            remembering.set_history(*replayed)
    except BaseException:
        claim.release()
        raise
    return Connection(remembering, toolbox, controller, claim)


def checked_provider(provider: object) -> None:
    """Raises MissingArgumentError for None, BadInput for what can't stream."""
    if provider is None:
        raise MissingArgumentError("provider")
    if not callable(getattr(provider, "stream", None)):
        raise BadInput("provider must have a method stream(request)")


def _remembering(provider: LLMProvider | Provider) -> LLMProvider:
    # By attribute, so that what passes calls on to another object counts too.
    own: LLMProvider = provider  # type: ignore[assignment]  # it is one if it has the method
    return own if callable(getattr(provider, "set_history", None)) else WindowedProvider(provider)
