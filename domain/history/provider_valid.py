"""Making a list of messages acceptable to a provider, with a list of what was changed (history-restore.md,
"Provider-valid replay").

Each tool result stands directly after the assistant message that called it, in call order. A result belongs to the
nearest earlier call with its id that has no result yet.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from turnlog.domain.history.messages import AgentMessage, json_text

INTERRUPTED = "The call was interrupted; there is no result."
"""What a call without a result is answered with."""


class Repair(NamedTuple):
    """One difference between what is stored and what replays. `row_id` is the stored message's or entry's row id.

    `kind` says what was done: `unanswered call closed`, `orphaned result left out`, `result moved to its call`,
    `empty result text`, `empty message left out`, `missing text`, `malformed call left out`, `tool entry left out`, …
    `call_id` names the tool call, where there is one.
    """

    kind: str
    row_id: int | None = None
    call_id: str | None = None


class Placed(NamedTuple):
    """A stored message and its row id."""

    row_id: int
    message: Mapping[str, Any]


class Valid(NamedTuple):
    """Messages that every provider takes, each with the row id it comes from (a closing result: its call's)."""

    messages: list[tuple[int, AgentMessage]]
    repairs: list[Repair]


def provider_valid(stored: Sequence[Placed]) -> Valid:
    """The messages as they may be sent. The stored ones are left alone."""
    return _Repairing(stored).run()


class _Repairing:
    def __init__(self, stored: Sequence[Placed]) -> None:
        self._stored = stored
        self._repairs: list[Repair] = []
        self._calls: dict[int, list[dict[str, Any]]] = {}
        """Index of an assistant message → its calls that can be sent."""
        self._answers: dict[tuple[int, int], int] = {}
        """(index of the assistant message, ordinal of the call) → index of its result."""

    def run(self) -> Valid:
        self._pair()
        messages: list[tuple[int, AgentMessage]] = []
        for index, (row_id, message) in enumerate(self._stored):
            role = message.get("role")
            if role == "assistant":
                messages += self._exchange(index, row_id, message)
            elif role == "user":
                messages.append((row_id, self._user(row_id, message)))
            elif role != "tool":
                kind = "system message left out" if role == "system" else "message of unknown role left out"
                self._repairs.append(Repair(kind, row_id))
        return Valid(messages, self._repairs)

    def _pair(self) -> None:
        open_calls: dict[str, list[tuple[int, int]]] = {}
        for index, (row_id, message) in enumerate(self._stored):
            role = message.get("role")
            if role == "tool":
                call_id = message.get("tool_call_id")
                waiting = open_calls.get(call_id) if isinstance(call_id, str) else None
                if waiting:
                    self._answers[waiting.pop()] = index
                else:
                    shown = call_id if isinstance(call_id, str) else None
                    self._repairs.append(Repair("orphaned result left out", row_id, shown))
                continue
            calls = self._sendable_calls(row_id, message)
            if role != "assistant":
                if "tool_calls" in message:
                    self._repairs.append(Repair("calls of another role left out", row_id))
                continue
            self._calls[index] = calls
            for ordinal, call in enumerate(calls):
                open_calls.setdefault(call["id"], []).append((index, ordinal))

    def _sendable_calls(self, row_id: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        if message.get("role") != "assistant":
            return []
        found: list[dict[str, Any]] = []
        calls = message.get("tool_calls")
        if "tool_calls" in message and not calls:
            self._repairs.append(Repair("empty tool_calls left out", row_id))
        seen: set[str] = set()
        for call in calls if isinstance(calls, list) else ():
            fixed = _sendable(call)
            if fixed is None or fixed["id"] in seen:
                shown = call.get("id") if isinstance(call, dict) else None
                self._repairs.append(
                    Repair("malformed call left out", row_id, shown if isinstance(shown, str) else None)
                )
                continue
            seen.add(fixed["id"])
            if fixed != call:
                self._repairs.append(Repair("malformed call completed", row_id, fixed["id"]))
            found.append(fixed)
        return found

    def _exchange(self, index: int, row_id: int, message: Mapping[str, Any]) -> list[tuple[int, AgentMessage]]:
        calls = self._calls[index]
        content = message.get("content")
        if content is None and not calls:
            self._repairs.append(Repair("empty message left out", row_id))
            return []
        sent = self._sent(row_id, message, content, calls)
        found = [(row_id, sent)]
        expected = index + 1
        for ordinal, call in enumerate(calls):
            at = self._answers.get((index, ordinal))
            if at is None:
                self._repairs.append(Repair("unanswered call closed", row_id, call["id"]))
                found.append((row_id, _closing(call)))
                continue
            if at != expected:
                self._repairs.append(Repair("result moved to its call", self._stored[at].row_id, call["id"]))
            expected = at + 1
            found.append((self._stored[at].row_id, self._stored_result(call, *self._stored[at])))
        return found

    def _stored_result(self, call: dict[str, Any], row_id: int, message: Mapping[str, Any]) -> AgentMessage:
        content = message.get("content")
        if content is None:
            self._repairs.append(Repair("empty result text", row_id, call["id"]))
            content = ""
        return self._sent(row_id, message, content)

    def _user(self, row_id: int, message: Mapping[str, Any]) -> AgentMessage:
        content = message.get("content")
        if content is None:
            self._repairs.append(Repair("missing text", row_id))
            content = ""
        return self._sent(row_id, message, content)

    def _sent(
        self,
        row_id: int,
        message: Mapping[str, Any],
        content: Any,  # noqa: ANN401 - as stored
        calls: Sequence[dict[str, Any]] = (),
    ) -> AgentMessage:
        """The message with its keys in their order. Those that turnlog doesn't know stay as they are."""
        sent = dict(message)
        sent["content"] = self._content(row_id, content)
        if calls:
            sent["tool_calls"] = calls
        else:
            sent.pop("tool_calls", None)
        if "name" in sent and not (isinstance(sent["name"], str) and sent["name"]):
            del sent["name"]
            self._repairs.append(Repair("malformed name left out", row_id))
        if "tool_call_id" in sent and sent["role"] != "tool":
            del sent["tool_call_id"]
            self._repairs.append(Repair("tool_call_id of another role left out", row_id))
        return cast("AgentMessage", sent)

    def _content(self, row_id: int, content: Any) -> Any:  # noqa: ANN401 - text, null, or a list of parts
        if content is None or isinstance(content, str | list):
            return content
        self._repairs.append(Repair("content written as text", row_id))
        return json_text([content])[1:-1]


def _closing(call: dict[str, Any]) -> AgentMessage:
    return {"role": "tool", "content": INTERRUPTED, "tool_call_id": call["id"], "name": call["function"]["name"]}


def _sendable(call: object) -> dict[str, Any] | None:
    """The call as it may be sent, completed where that needs no guess; None without an id or a function name."""
    if not isinstance(call, dict):
        return None
    call_id, function = call.get("id"), call.get("function")
    if not isinstance(call_id, str) or not call_id or not isinstance(function, dict):
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        return None
    if not isinstance(arguments, str):
        arguments = "{}" if arguments is None else json_text([arguments])[1:-1]
    return {**call, "type": "function", "function": {**function, "arguments": arguments}}
