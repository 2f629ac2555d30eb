"""Bodies: counted on the stream and after unpacking, and refused in the error envelope."""

import gzip
import json
import zlib

import pytest

from tests.http.running import Running

PATH = "/api/chat-history"
LIMIT = 2 * 1024 * 1024
# Without the time of day: the tests' names are the same in every process.
PACKED = gzip.compress(b"{}", mtime=0)


def body_of(size: int) -> bytes:
    """A valid save of exactly `size` bytes."""
    start, end = b'{"sessionKey":"k","entries":[{"entryId":"e","text":"', b'"}]}'
    return start + b"x" * (size - len(start) - len(end)) + end


def chunked(body: bytes) -> bytes:
    """The body in chunks of 64 KiB."""
    parts = [body[i : i + 65536] for i in range(0, len(body), 65536)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


async def test_the_largest_body_is_stored_and_one_byte_more_is_not(server: Running) -> None:
    assert (await server.post(PATH, body_of(LIMIT))).json() == {"ok": True, "saved": 1, "stored": 1}
    refused = await server.post(PATH, body_of(LIMIT + 1))
    assert (refused.status, refused.error()) == (413, "request body is larger than 2097152 bytes")
    assert len(server.commands.calls) == 1


async def test_a_chunked_body_is_counted_too(server: Running) -> None:
    for size, status in ((LIMIT, 200), (LIMIT + 1, 413), (3 * LIMIT, 413)):
        answer = await server.post(PATH, chunked(body_of(size)), transfer_encoding="chunked")
        assert answer.status == status
    assert len(server.commands.calls) == 1


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("GZIP", gzip.compress)]
)
async def test_a_compressed_body_is_counted_after_decompression(server: Running, encoding: str, pack: object) -> None:
    assert callable(pack)
    assert (await server.post(PATH, pack(body_of(LIMIT)), content_encoding=encoding)).status == 200
    assert (await server.post(PATH, pack(body_of(LIMIT + 1)), content_encoding=encoding)).status == 413
    assert (await server.post(PATH, pack(b"\0" * 50_000_000), content_encoding=encoding)).status == 413
    assert len(server.commands.calls) == 1


async def test_a_gzip_body_may_have_several_members(server: Running) -> None:
    body = body_of(1000)
    packed = gzip.compress(body[:300]) + gzip.compress(body[300:])
    assert (await server.post(PATH, packed, content_encoding="gzip")).status == 200
    halves = gzip.compress(body_of(LIMIT)) + gzip.compress(b" ")
    assert (await server.post(PATH, halves, content_encoding="gzip")).status == 413
    assert len(server.commands.calls) == 1


@pytest.mark.parametrize("damage", [b"nonsense", PACKED[:-5], PACKED + b"more"])
async def test_damaged_compression_is_bad_input(server: Running, damage: bytes) -> None:
    answer = await server.post(PATH, damage, content_encoding="gzip")
    assert (answer.status, answer.error()) == (400, "the compressed body is damaged")


@pytest.mark.parametrize("headers", [{"content_encoding": "br"}, {"content_type": "application/json; charset=utf-16"}])
async def test_what_is_not_read_is_415(server: Running, headers: dict[str, str]) -> None:
    answer = await server.post(PATH, body_of(100), **headers)
    assert answer.status == 415
    assert answer.error()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 403),
        (b"CONNECT evil:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000, 431),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: nope\r\n\r\n", 400),
    ],
)
async def test_what_is_not_http_is_answered_in_the_envelope(server: Running, request_bytes: bytes, status: int) -> None:
    answer = await server.raw(request_bytes)
    assert answer.status == status
    assert list(json.loads(answer.body)) == ["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404), ("GET", "/api/nope", 404), ("POST", "/api/chat-history/", 404), ("PUT", PATH, 405),
        ("OPTIONS", PATH, 405), ("POST", "/v1/sessions", 405), ("GET", "/api/chat-history/reset-context", 405),
        ("GET", "/api//chat-history", 404), ("GET", "/api/x/../chat-history", 404), ("GET", "/api%2fchat-history", 400),
    ],
)  # fmt: skip
async def test_unknown_paths_and_methods_are_answered_in_the_envelope(
    server: Running, method: str, path: str, status: int
) -> None:
    answer = await server.ask(method, path)
    assert answer.status == status
    assert answer.error()
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ("allow" in answer.headers) == (status == 405)
