"""The plainest HTTP client: bytes out, bytes in. Nothing is encoded, followed, retried or put right on the way."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import anyio


class Answer(NamedTuple):
    """A response: header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - JSON is any value
        return json.loads(self.body)

    def error(self) -> str:
        """The text of the error envelope, which must hold nothing else."""
        assert self.headers["content-type"] == "application/json; charset=utf-8"
        body = self.json()
        assert list(body) == ["error"]
        text: str = body["error"]
        return text


@dataclass
class PlainClient:
    """Talks to a server on a loopback port; `own` is what it calls itself in `Host`."""

    within_s: ClassVar[float] = 10
    port: int
    own: str = field(init=False)

    def __post_init__(self) -> None:
        self.own = f"127.0.0.1:{self.port}"

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        given: Mapping[str, str] | None = None,
        *,
        source: str = "127.0.0.1",
        host: str | None = None,
        **more: str,
    ) -> Answer:
        """One request on its own connection. Header names are written with underscores."""
        headers = {**(given or {}), **more}
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.own if host is None else host}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body and "transfer_encoding" not in headers:
            lines.append(f"Content-Length: {len(body)}")
        return await self.raw("\r\n".join([*lines, "", ""]).encode("latin-1") + body, source)

    async def post(self, target: str, body: object, **headers: str) -> Answer:
        """POST of JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", target, data, {"content_type": "application/json", **headers})

    async def raw(self, request: bytes, source: str = "127.0.0.1") -> Answer:
        """Send bytes, read until the server closes."""
        with anyio.fail_after(self.within_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
            writer.write(request)
            answer = await reader.read()
            writer.close()
        head, _, rest = answer.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            rest = _joined(rest)
        return Answer(int(status.split()[1]), headers, rest)


def _joined(chunks: bytes) -> bytes:
    """The body of a chunked answer, which must have come to its end."""
    body = b""
    while True:
        size, _, chunks = chunks.partition(b"\r\n")
        length = int(size, 16)
        assert chunks[length : length + 2] == b"\r\n"
        if length == 0:
            return body
        body, chunks = body + chunks[:length], chunks[length + 2 :]
