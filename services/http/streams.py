"""GET /api/teams/{id}/chat/stream and GET /api/agents/{id}/chat/stream: server-sent events, caught up and then live."""

import anyio
import anyio.lowlevel
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from turnlog.domain.session_key import check_name
from turnlog.domain.stream_selection import StreamSelection
from turnlog.services.http.connection import ABORT
from turnlog.services.http.live_streams import Feed, LiveStreams
from turnlog.services.http.options import HttpOptions
from turnlog.services.http.path_names import AGENT_CHAT, TEAM_CHAT
from turnlog.services.http.query_string import cursor_of, one_value, parse_query
from turnlog.services.http.request_headers import after_of, header_map
from turnlog.services.http.responses import RETRY_AFTER_S, send_error
from turnlog.services.http.sse import CLOSING, CONNECTED, HEADERS, KEEPALIVE
from turnlog.services.http.stream_client import PIECE_BYTES, StreamClient, pieces
from turnlog.services.http.stream_pages import FIRST_LIMIT, next_limit, read_patiently

TOO_MANY_STREAMS = "too many open streams"


class StreamEndpoint:
    """The ASGI endpoint of both routes; `kind` says whose stream it is."""

    def __init__(self, kind: str, streams: LiveStreams, options: HttpOptions) -> None:
        self._kind = kind
        self._streams = streams
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = header_map(scope)
        query = parse_query(scope["query_string"])
        after_of(headers)
        name: str = scope["path_params"]["id"]
        check_name(name, f"{self._kind} id")
        if self._kind == "team":
            room = one_value(query, "roomId") or None
            check_name(room or "", "roomId")
            selection = StreamSelection.team(name, room)
        else:
            selection = StreamSelection.agent(name)
        last_seen = headers.get(b"last-event-id")
        cursor = cursor_of(last_seen.decode("latin-1") if last_seen else one_value(query, "since"))
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            await send({"type": "http.response.body"})
            return
        if len(self._streams) >= self._options.max_streams:
            await send_error(send, 503, TOO_MANY_STREAMS, [(b"retry-after", b"%d" % RETRY_AFTER_S)])
            return
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        await send({"type": "http.response.body", "body": CONNECTED, "more_body": True})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_disconnect, receive, tasks.cancel_scope)
            with self._streams.open(selection, cursor, self._options.stream_queue_bytes, scope.get(ABORT)) as (
                feed,
                client,
            ):
                await self._serve(selection, feed, client, send)
            tasks.cancel_scope.cancel()

    async def _serve(self, selection: StreamSelection, feed: Feed, client: StreamClient, send: Send) -> None:
        complete = await self._catch_up(selection, client, send, since=0)
        feed.go_live(client)
        # What came between the last page and going live is in no hand-out: only a newer query shows it.
        complete = complete and await self._catch_up(selection, client, send, since=self._streams.pages.begun)
        while complete and (piece := await client.next_piece()):
            await _send_piece(client, send, piece)
        await send({"type": "http.response.body", "body": CLOSING})

    async def _catch_up(self, selection: StreamSelection, client: StreamClient, send: Send, *, since: int) -> bool:
        """Send pages up to the live end. False if the stream ended before that."""

        async def keep_alive() -> None:
            if anyio.current_time() - client.last_sent > self._options.keepalive_s / 2:
                await _send_piece(client, send, KEEPALIVE)

        limit = FIRST_LIMIT
        more = True
        while more and not client.ended:
            page = await read_patiently(
                self._streams.pages, selection, client.cursor, limit, since=since, on_retry=keep_alive
            )
            for piece in pieces(page.frames):
                await _send_piece(client, send, piece)
                # Sending to a client that has left never waits by itself; others get their turn here.
                await anyio.lowlevel.checkpoint()
            client.cursor = max(client.cursor, page.upto)
            more = page.more
            limit = next_limit(limit, page)
        return not more


async def _send_piece(client: StreamClient, send: Send, piece: bytes) -> None:
    """Send, in writes small enough that a client that doesn't read holds little memory."""
    if len(piece) <= 2 * PIECE_BYTES:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    else:
        for start in range(0, len(piece), PIECE_BYTES):
            await send({"type": "http.response.body", "body": piece[start : start + PIECE_BYTES], "more_body": True})
    client.last_sent = anyio.current_time()


async def _until_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def stream_routes(streams: LiveStreams, options: HttpOptions) -> list[Route]:
    """Both routes."""
    return [
        Route(f"{TEAM_CHAT}/stream", StreamEndpoint("team", streams, options), methods=["GET"]),
        Route(f"{AGENT_CHAT}/stream", StreamEndpoint("agent", streams, options), methods=["GET"]),
    ]
