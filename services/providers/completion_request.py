"""A ProviderRequest as the body of a chat-completions request."""

from typing import Any

from turnlog.domain.errors import BadInput
from turnlog.domain.history.messages import json_text
from turnlog.services.providers.provider import ProviderRequest, ToolSpec


def request_body(model: str, request: ProviderRequest) -> bytes:
    """The JSON body. Raises BadInput if the messages or tools are not JSON; the text quotes none of them."""
    try:
        body: dict[str, Any] = {
            "model": model,
            "messages": list(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        return json_text(body).encode()
    except (ValueError, TypeError, RecursionError):
        raise BadInput("messages and tools must be plain JSON data") from None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}
