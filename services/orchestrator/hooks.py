"""What a user of the orchestrator hangs into its turns."""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.domain.errors import BadInput
from turnlog.services.orchestrator.exchange_events import RequestListener, ResponseListener
from turnlog.services.orchestrator.interceptors import Interceptor


@dataclass(frozen=True, slots=True)
class Hooks:
    """Interceptors and listeners, each in the order in which they are called."""

    interceptors: tuple[Interceptor, ...] = ()
    request_listeners: tuple[RequestListener, ...] = ()
    response_listeners: tuple[ResponseListener, ...] = ()

    def that_pickle(self) -> "Hooks":
        """Those that can be pickled."""
        return Hooks(
            tuple(hook for hook in self.interceptors if _pickles(hook)),
            tuple(hook for hook in self.request_listeners if _pickles(hook)),
            tuple(hook for hook in self.response_listeners if _pickles(hook)),
        )


def checked_hooks(
    interceptors: Iterable[Interceptor],
    request_listeners: Iterable[RequestListener],
    response_listeners: Iterable[ResponseListener],
) -> Hooks:
    """Raises BadInput for what can't be called."""
    hooks = Hooks(tuple(interceptors), tuple(request_listeners), tuple(response_listeners))
    for hook in (*hooks.interceptors, *hooks.request_listeners, *hooks.response_listeners):
        if not callable(hook):
            raise BadInput("interceptors and listeners must be functions")
    return hooks


def _pickles(hook: object) -> bool:
    try:
        pickle.dumps(hook)
    except Exception:  # noqa: BLE001 - whatever its reasons, it doesn't
        return False
    return True
