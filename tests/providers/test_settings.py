"""Settings that can't work, named by field before anything is sent."""

import math
from typing import Any

import pytest

from turnlog.domain.errors import BadInput
from turnlog.services.providers.openai_compatible import OpenAICompatible

GOOD: dict[str, Any] = {"base_url": "http://localhost:1/v1", "model": "m"}
SECONDS = ("timeout_s", "connect_timeout_s", "first_pause_s", "longest_pause_s")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("base_url", value)
            for value in (
                "", "localhost", "ftp://h", "http://", "http://u:hunter2@h", "http://h?q=1", "http://h#f", "http://h?",
                "http://h#", "http://h:0", "http://h:99999", "http://h:x", "http://h\n", "http://[::1", None, 5,
            )
        ),
        *(("model", value) for value in ("", " ", "a\nb", "m" * 257, "\ud83d", None, 5)),
        *(("api_key", value) for value in ("", "a b", "é", "a\r\nx: y", 5)),
        *((field, value) for field in SECONDS for value in (0, -1, math.nan, math.inf, 10**400, "5", None, True)),
        *(("retries", value) for value in (-1, 1.5, "3", None, True)),
    ],
)  # fmt: skip
def test_a_setting_that_can_not_work_is_named_and_not_quoted(field: str, value: object) -> None:
    with pytest.raises(BadInput, match=f"^{field} ") as refused:
        OpenAICompatible(**(GOOD | {field: value}))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://h/v1/", "http://h/v1"),
        ("HTTPS://H", "https://h"),
        ("http://[::1]:8080/v1//", "http://[::1]:8080/v1"),
    ],
)
def test_a_url_is_kept_without_slashes_at_its_end(given: str, kept: str) -> None:
    assert repr(OpenAICompatible(given, "m", "sk-key")) == f"OpenAICompatible(base_url={kept!r}, model='m')"
