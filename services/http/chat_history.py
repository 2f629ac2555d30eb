"""The four reference routes: GET, POST and DELETE /api/chat-history and POST /api/chat-history/reset-context.

Plain ASGI endpoints. Entries travel from the request to the log as the bytes they came in, and pages are spliced from
the bytes in the table.
"""

import anyio.to_thread
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from turnlog.domain.entries import Entry, usable_entries
from turnlog.domain.errors import BadInput, OutcomeUnknown, Unavailable
from turnlog.domain.raw_json import InvalidJson, check_text, split_array, split_object, string_value
from turnlog.services.conversations import Conversations
from turnlog.services.http.json_body import is_json, json_members
from turnlog.services.http.query_string import before_of, limit_of, parse_query, session_key_of
from turnlog.services.http.request_body import OFF_LOOP_BYTES, read_body
from turnlog.services.http.request_headers import after_of, header_map, origin_of
from turnlog.services.http.responses import error_body, position_header, send_json
from turnlog.services.reading import Reading

PATH = "/api/chat-history"
RESET_PATH = "/api/chat-history/reset-context"

_KEY_AND_ENTRIES = "sessionKey and entries[] required"
_OK = b'{"ok":true}'


class ChatHistory:
    """GET, POST and DELETE /api/chat-history."""

    def __init__(self, conversations: Conversations, reading: Reading) -> None:
        self._conversations = conversations
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method = scope["method"]
        try:
            if method == "POST":
                await self._save(scope, receive, send)
            elif method == "DELETE":
                await self._delete(scope, receive, send)
            else:
                await self._page(scope, send)
        except Unavailable as error:
            await _out_of_reach(send, error)

    async def _page(self, scope: Scope, send: Send) -> None:
        query = parse_query(scope["query_string"])
        page = await self._reading.page(
            session_key_of(query), limit=limit_of(query), before=before_of(query), after=after_of(header_map(scope))
        )
        older = b"null" if page.next_before is None else b"%d" % page.next_before
        more = b"true" if page.has_more else b"false"
        await send_json(send, 200, b'{"entries":[%s],"hasMore":%s,"nextBefore":%s}' % (page.entries, more, older))

    async def _save(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = header_map(scope)
        body = await read_body(receive, headers)
        if not is_json(headers):
            raise InvalidJson("invalid JSON")
        if len(body) > OFF_LOOP_BYTES:
            key, gateway_url, received, entries = await anyio.to_thread.run_sync(_parse_save, body)
        else:
            key, gateway_url, received, entries = _parse_save(body)
        origin = origin_of(scope, headers, body)
        saved = await self._conversations.save_entries(key, entries, gateway_url=gateway_url, origin=origin)
        answer = b'{"ok":true,"saved":%d,"stored":%d}' % (received, saved.stored)
        await send_json(send, 200, answer, position_header(saved.position))

    async def _delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = session_key_of(parse_query(scope["query_string"]))
        headers = header_map(scope)
        origin = origin_of(scope, headers, await read_body(receive, headers))
        position = await self._conversations.delete_session(key, origin=origin)
        await send_json(send, 200, _OK, position_header(position))


class ResetContext:
    """POST /api/chat-history/reset-context."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = header_map(scope)
        body = await read_body(receive, headers)
        keys, notice = _parse_reset(json_members(headers, body) if body else {})
        try:
            done = await self._conversations.reset_context(keys, notice, origin=origin_of(scope, headers, body))
        except Unavailable as error:
            await _out_of_reach(send, error)
            return
        await send_json(send, 200, b'{"ok":true,"entry":%s}' % done.divider, position_header(*done.positions))


def chat_history_routes(conversations: Conversations, reading: Reading) -> list[Route]:
    """The reference routes."""
    return [
        Route(PATH, ChatHistory(conversations, reading), methods=["GET", "POST", "DELETE"]),
        Route(RESET_PATH, ResetContext(conversations), methods=["POST"]),
    ]


def _parse_save(body: bytes) -> tuple[str, str, int, list[Entry]]:
    """Session key, gateway url, number of items received, usable entries. Raises BadInput."""
    check_text(body)
    members = split_object(body)
    key = string_value(members.get("sessionKey", b""))
    items_text = members.get("entries", b"")
    items = split_array(items_text) if items_text.startswith(b"[") else []
    if not key or not items:
        raise BadInput(_KEY_AND_ENTRIES)
    gateway_url = string_value(members.get("gatewayUrl", b"")) or ""
    if gateway_url and not _encodable(gateway_url):
        raise BadInput("gatewayUrl must not contain lone surrogates")
    return key, gateway_url, len(items), usable_entries(items)


def _parse_reset(members: dict[str, bytes]) -> tuple[list[str], str]:
    """The session keys, each once, and the notice key. Raises BadInput."""
    listed = members.get("sessionKeys", b"")
    items = split_array(listed) if listed.startswith(b"[") else []
    keys = list(dict.fromkeys(key for item in items if (key := string_value(item))))
    if not keys:
        raise BadInput("sessionKeys[] required")
    notice = string_value(members.get("noticeSessionKey", b""))
    if notice is None:
        notice = keys[0]
    if notice not in keys:
        raise BadInput("noticeSessionKey must be one of sessionKeys")
    return keys, notice


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _out_of_reach(send: Send, error: Unavailable) -> None:
    """A database failure is 500 here, as the reference says; an append that may have happened stays 503."""
    if isinstance(error, OutcomeUnknown):
        raise error
    await send_json(send, 500, error_body(str(error)))
