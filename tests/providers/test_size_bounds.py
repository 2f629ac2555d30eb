"""How much a server may send before it is stopped."""

import pytest

from tests.providers.answers import HEAD, endless, text
from tests.providers.asking import Asking
from tests.providers.scripted_server import Answer, ScriptedServer
from turnlog.services.providers import sse_lines
from turnlog.services.providers.provider import ProviderError

JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
STREAM = HEAD + b"\r\n"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (endless(STREAM, b": keepalive\n\n" * 2000), "answer is larger than 16777216 bytes"),
        (endless(STREAM, text("") * 500), "answer is larger than 16777216 bytes"),
        (endless(STREAM, b"x" * 65536), "line of more than 1048576 bytes"),
        (endless(STREAM + b"data: ", b"x" * 65536), "line of more than 1048576 bytes"),
        (endless(STREAM, b"data: " + b"x" * 65536 + b"\n"), "answer is larger than 16777216 bytes"),
        (endless(JSON, b" " * 65536), "answer is larger than 16777216 bytes"),
        (endless(b"HTTP/1.1 200 OK\r\n", b"x-long: " + b"x" * 4096 + b"\r\n"), "connection to the provider was lost"),
    ],
    ids=["keepalives", "empty texts", "a line", "a data line", "an event", "JSON", "headers"],
)
async def test_an_answer_without_end_is_stopped(
    server: ScriptedServer, asking: Asking, answer: Answer, text: str
) -> None:
    server.answers = [answer]
    with pytest.raises(ProviderError, match=text):
        await asking.parts(retries=0)
    await server.client_closed.wait()


def test_a_line_may_be_as_long_as_the_limit_and_not_longer() -> None:
    lines = sse_lines.SseLines(line_limit=10)
    assert list(lines.feed(b"data: 1234\n\n")) == ["1234"]
    with pytest.raises(ProviderError):
        list(lines.feed(b"data: 12345\n\n"))


def test_an_answer_may_be_as_large_as_the_limit_and_not_larger() -> None:
    size = sse_lines.AnswerSize(3)
    size.add(b"ab")
    size.add(b"c")
    with pytest.raises(ProviderError, match="larger than 3 bytes"):
        size.add(b"d")
