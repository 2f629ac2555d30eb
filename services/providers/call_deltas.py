"""Tool calls, put together from the pieces in which a model writes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from turnlog.services.providers.checked_values import mapping, text, whole_characters
from turnlog.services.providers.provider import ProviderError, ToolCall


@dataclass(slots=True)
class _Call:
    index: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class CallDeltas:
    """The calls of one answer while they come. Every method raises ProviderError for what is no call."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at_index: dict[int, _Call] = {}
        self._with_id: dict[str, _Call] = {}
        self._next_index = 0

    def take(self, delta: dict[str, Any]) -> None:
        """The next piece of a call, as it stands in a `tool_calls` list."""
        function = mapping(delta.get("function") or {}, "function")
        call_id, name = text(delta.get("id"), "id"), text(function.get("name"), "name")
        call = self._call(delta.get("index"), call_id)
        if call_id and not call.id:
            call.id = call_id
            self._with_id[call_id] = call
        # Some servers repeat the whole name in every delta; everything else is the next piece.
        if name != call.name:
            call.name += name
        if arguments := text(function.get("arguments"), "arguments"):
            call.arguments.append(arguments)

    def finish(self) -> Iterator[ToolCall]:
        """The calls in the order of their indexes; none of them if one has no id or no name."""
        calls = sorted(self._calls, key=lambda call: call.index)
        for call in calls:
            if not call.id:
                raise ProviderError("The provider sent a tool call without an id")
            if not call.name:
                raise ProviderError("The provider sent a tool call without a name")
        for call in calls:
            yield ToolCall(call.id, call.name, whole_characters("".join(call.arguments)))

    def _call(self, index: object, call_id: str) -> _Call:
        if index is None:
            # Servers that leave the index out send an id with every new call, and some with every piece of it.
            call = self._with_id.get(call_id) if call_id else (self._calls[-1] if self._calls else None)
            if call is None and not call_id:
                raise ProviderError("The provider sent a tool call without a usable index")
            return call or self._begun(self._next_index)
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise ProviderError("The provider sent a tool call without a usable index")
        call = self._at_index.get(index)
        if call is None:
            return self._begun(index)
        if call_id and call.id not in ("", call_id):
            # Some servers number all parallel calls 0: another id is another call.
            known = self._with_id.get(call_id)
            return known if known is not None and known.index == index else self._begun(index)
        return call

    def _begun(self, index: int) -> _Call:
        call = _Call(index)
        self._calls.append(call)
        self._at_index[index] = call
        self._next_index = max(self._next_index, index + 1)
        return call
