"""Whatever the cuts, the same parts; whatever the bytes, no error but ProviderError."""

import itertools
import json
from collections.abc import Iterable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.providers.answers import DONE, calls, event, stop, text
from turnlog.services.providers.completion_answer import StreamedAnswer
from turnlog.services.providers.provider import ProviderError, ProviderPart, ResponseMetadata, ToolCall
from turnlog.services.providers.retry_pauses import backoff, retry_after

STREAM = b"".join(
    [
        b": hi\n\n",
        text("Grüße 🐈"),
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'event: x\ndata: {"choices":[{"delta":\ndata: {"content":"\\ude00 \\r\\n"}}]}\n\n',
        calls({"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"é":'}}),
        calls(
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
            {"index": 1, "function": {"arguments": "1}"}},
        ),
        stop("tool_calls"),
        event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}),
        DONE,
    ]
)  # fmt: skip
PARTS = [
    "Grüße 🐈",
    "😀 \r\n",
    ToolCall("a", "f", ""),
    ToolCall("b", "g", '{"é":1}'),
    ResponseMetadata("tool_calls", 1, 2, 3),
]
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "index", "content", "tool_calls", "function", "id", "name", "arguments", "usage",
             "prompt_tokens", "finish_reason", "error", "code", "type"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
CHUNK = st.builds(
    lambda delta, reason: {"choices": [{"delta": delta, "finish_reason": reason}]},
    st.dictionaries(st.sampled_from(["content", "tool_calls"]), JSON),
    JSON,
)


def fed(chunks: Iterable[bytes]) -> list[ProviderPart]:
    answer = StreamedAnswer()
    parts = [part for chunk in chunks for part in answer.feed(chunk)]
    return parts + list(answer.end())


def pieces(stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(places)]


@settings(deadline=None)
@given(ends=ENDS, bom=st.booleans(), cuts=st.lists(st.integers(0, 2000), max_size=30))
def test_any_cut_of_a_stream_gives_the_same_parts(ends: bytes, bom: bool, cuts: list[int]) -> None:
    stream = b"\xef\xbb\xbf" * bom + STREAM.replace(b"\n", ends)
    assert fed(pieces(stream, cuts)) == PARTS


def test_a_stream_cut_everywhere_gives_the_same_parts() -> None:
    for ends in (b"\n", b"\r", b"\r\n"):
        stream = STREAM.replace(b"\n", ends)
        assert fed(bytes([byte]) for byte in stream) == PARTS
        for place in range(len(stream)):
            assert fed([stream[:place], stream[place:]]) == PARTS


def failed_or_fed(chunks: Iterable[bytes]) -> str | list[ProviderPart]:
    try:
        return fed(chunks)
    except ProviderError as error:
        return str(error)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from([b"data: ", b"data:{", b"\n\n", b"\r", b"}", DONE, b"data: " + b"[" * 5000 + b"\n\n"])
        | st.builds(event, JSON | CHUNK)
    )
)
@example([DONE, b"\x00"])
@example([b"data: " + b"9" * 5000 + b"\n\n"])
@example([b'data: {"choices":[{"index":NaN}]}\n\n'])
def test_any_bytes_are_an_answer_or_a_provider_error_wherever_they_are_cut(chunks: list[bytes]) -> None:
    whole = failed_or_fed([b"".join(chunks)])
    assert repr(failed_or_fed(chunks)) == repr(whole)


@settings(deadline=None)
@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d+ Jan \d+ \d\d:\d\d:\d\d [+-]\d+", fullmatch=True))
def test_any_retry_after_is_a_pause_or_none(value: str) -> None:
    pause = retry_after(value)
    assert pause is None or pause >= 0


@given(st.integers(0, 10**6), st.floats(0.001, 1e300), st.floats(0.001, 1e300))
def test_a_pause_is_never_longer_than_the_longest(attempt: int, first_s: float, longest_s: float) -> None:
    assert 0 < backoff(attempt, first_s=first_s, longest_s=longest_s) <= longest_s


def test_a_stream_of_many_small_pieces_of_calls_takes_time_in_proportion() -> None:
    answer = StreamedAnswer()
    parts = [
        json.dumps({"choices": [{"delta": {"tool_calls": [{"id": f"{n}", "function": {"name": "f"}}]}}]})
        for n in range(20_000)
    ]
    list(answer.feed("".join(f"data: {part}\n\n" for part in parts).encode()))
    assert len(list(answer.feed(DONE))) == 20_001
