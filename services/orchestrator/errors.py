"""What can go wrong with an orchestrator, besides what a provider raises."""

from turnlog.domain.errors import BadInput, Conflict, TurnlogError, Unavailable


class MissingArgumentError(BadInput, TypeError):
    """None was given where a value is needed; the text names the argument."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} must not be None")


class NotConnectedError(Conflict):
    """The orchestrator was loaded from a saved state and has no provider yet (orchestrator.md, "Persistence")."""

    def __init__(self) -> None:
        super().__init__("no provider after a restore: call reconnect(provider) and await its apply() first")


class AlreadyConnectedError(Conflict):
    """The orchestrator has a provider, which can't be exchanged."""

    def __init__(self) -> None:
        super().__init__("the orchestrator is connected already; only a restored one can be reconnected")


class ProviderInUseError(Conflict):
    """The provider instance belongs to another orchestrator."""

    def __init__(self) -> None:
        super().__init__(
            "the provider belongs to another orchestrator; give each its own, "
            "for instance a WindowedProvider around a shared stateless one"
        )


class PromptTimeoutError(Unavailable, TimeoutError):
    """The provider gave no token, or a postponed prompt was not decided, for longer than allowed; the text says which
    and names the seconds.
    """


class PromptCancelledError(TurnlogError):
    """What a response listener is told when the caller cancelled the prompt; never raised."""

    category = Unavailable.category

    def __init__(self) -> None:
        super().__init__("the prompt was cancelled")
