"""Attachments of a prompt: cases B27 to B33 and B77, and orchestrator.md, "Persistence"."""

import base64
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.orchestrator.fakes import NOTE, PICTURE, sent
from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import Attachment
from turnlog.services.orchestrator.content_parts import user_content
from turnlog.services.orchestrator.conversation import AttachmentPlace
from turnlog.services.orchestrator.errors import MissingArgumentError
from turnlog.services.orchestrator.exchange_events import RequestEvent
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.providers.scripted import Scripted


async def test_b27_the_given_attachments_reach_the_provider_the_listeners_and_the_view() -> None:
    requests: list[RequestEvent] = []
    provider = Scripted(["a cat"])
    orchestrator = Orchestrator(provider, request_listeners=[requests.append])
    await orchestrator.prompt("What is it?", [PICTURE, NOTE])
    assert [part["type"] for part in sent(provider)[0]["content"]] == ["text", "image_url", "text"]
    assert requests[0].attachments == (PICTURE, NOTE)
    assert orchestrator.view()[0].attachments == (PICTURE, NOTE)


async def test_b28_an_empty_list_means_no_attachments() -> None:
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider)
    await orchestrator.prompt("Hi", [])
    assert sent(provider) == [{"role": "user", "content": "Hi"}]
    assert orchestrator.view()[0].attachments == ()


@pytest.mark.parametrize(
    ("attachments", "name"), [(None, "attachments"), ([NOTE, None], r"attachments\[1\]"), ([b"x"], r"attachments\[0\]")]
)
async def test_b29_b77_none_and_what_is_no_attachment_is_refused_before_anything_happens(
    attachments: Any,  # noqa: ANN401 - what is tested
    name: str,
) -> None:
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider)
    with pytest.raises(BadInput, match=f"^{name} must"):
        await orchestrator.prompt("Hi", attachments)
    assert (orchestrator.get_history(), provider.requests) == ((), [])
    await orchestrator.prompt("Hi")
    assert len(orchestrator.get_history()) == 2


async def test_b29_none_for_the_list_is_a_missing_argument() -> None:
    with pytest.raises(MissingArgumentError):
        await Orchestrator(Scripted([])).prompt("Hi", None)  # type: ignore[arg-type]  # what is tested


async def test_b31_a_history_holds_no_attachments() -> None:
    orchestrator = Orchestrator(Scripted(["yes"]))
    await orchestrator.prompt("Hi", [NOTE])
    assert not any(NOTE.data.decode() in repr(message) for message in orchestrator.get_history())
    assert orchestrator.get_history()[0].content == "Hi"


async def test_b32_a_click_on_an_attachment_gives_message_and_number() -> None:
    orchestrator = Orchestrator(Scripted(["yes"]))
    await orchestrator.prompt("Hi", [PICTURE, NOTE])
    asked, answered = orchestrator.view()
    assert asked.message_id == orchestrator.get_history()[0].message_id
    assert asked.attachment_place(1) == AttachmentPlace(str(asked.message_id), 1)
    assert asked.attachment_place(2) is None
    assert asked.attachment_place(-1) is None
    assert answered.attachment_place(0) is None


async def test_b33_nothing_is_too_many_or_too_long() -> None:
    text = "long " * 200_000
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider)
    await orchestrator.prompt(text, [NOTE] * 1000)
    assert len(orchestrator.view()[0].attachments) == 1000
    assert len(sent(provider)[0]["content"]) == 1001
    assert orchestrator.get_history()[0].content == text


async def test_b77_attachments_that_no_provider_takes_are_kept_and_skipped_with_a_warning() -> None:
    archive = Attachment("all.zip", "application/zip", b"PK")
    provider = Scripted(["yes"])
    orchestrator = Orchestrator(provider)
    with capture_logs() as logs:
        await orchestrator.prompt("Hi", [archive, NOTE, archive])
    assert [(line["event"], line["log_level"], line["count"]) for line in logs] == [
        ("attachments_not_sent", "warning", 2)
    ]
    assert len(sent(provider)[0]["content"]) == 2
    assert orchestrator.view()[0].attachments == (archive, NOTE, archive)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("mime_type", "part"),
    [
        ("image/png", {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(b'data')}"}}),
        ("IMAGE/JPEG", {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{encoded(b'data')}"}}),
        ("audio/wav", {"type": "input_audio", "input_audio": {"data": encoded(b"data"), "format": "wav"}}),
        ("audio/mpeg", {"type": "input_audio", "input_audio": {"data": encoded(b"data"), "format": "mp3"}}),
        (
            "application/pdf",
            {
                "type": "file",
                "file": {"filename": 'a "b"', "file_data": f"data:application/pdf;base64,{encoded(b'data')}"},
            },
        ),
        (
            "video/mp4",
            {"type": "file", "file": {"filename": 'a "b"', "file_data": f"data:video/mp4;base64,{encoded(b'data')}"}},
        ),
        (
            "text/csv; charset=utf-8",
            {"type": "text", "text": '<attachment filename="a &quot;b&quot;">\ndata\n</attachment>'},
        ),
    ],
)
def test_each_kind_has_its_part(mime_type: str, part: dict[str, Any]) -> None:
    content = user_content("Look", [Attachment('a "b"', mime_type, b"data")])
    assert content == [{"type": "text", "text": "Look"}, part]
    assert user_content("", [Attachment('a "b"', mime_type, b"data")]) == [part]


@pytest.mark.parametrize(
    ("mime_type", "data", "text"),
    [
        ("text/plain; charset=latin-1", b"caf\xe9", "café"),
        ("text/plain", b"caf\xe9", "caf�"),
        ("text/plain; charset=klingon", "café".encode(), "café"),
        ("text/plain; charset=hex", "café".encode(), "café"),
    ],
)
def test_a_text_is_read_as_its_charset_says(mime_type: str, data: bytes, text: str) -> None:
    content: Any = user_content("Look", [Attachment("menu", mime_type, data)])
    assert content[1]["text"] == f'<attachment filename="menu">\n{text}\n</attachment>'


@pytest.mark.parametrize(
    "mime_type", ["", "text", "application/octet-stream", "application/x-pdf", "x\r\ny: image/png"]
)
def test_other_kinds_leave_the_text_alone(mime_type: str) -> None:
    with capture_logs() as logs:
        assert user_content("Look", [Attachment("a", mime_type, b"data")]) == "Look"
    assert len(logs) == 1
