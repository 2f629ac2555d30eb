"""The curl examples of the reference page, word for word but for the port."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.api import Api, entry

SAVE = r"""curl -X POST http://localhost:18790/api/chat-history \
  -H 'Content-Type: application/json' \
  -d '{"sessionKey":"agent:my-boo:native","entries":[{"entryId":"e1","role":"user","kind":"user","text":"Hi","sessionKey":"agent:my-boo:native","runId":null,"source":"local-send","timestampMs":1761650000000,"sequenceKey":1761650000000,"confirmed":true,"fingerprint":"e1"}]}'"""  # noqa: E501 - as printed there
READ = 'curl "http://localhost:18790/api/chat-history?sessionKey=agent:my-boo:native&limit=500"'
RESET = r"""curl -X POST http://localhost:18790/api/chat-history/reset-context \
  -H 'Content-Type: application/json' \
  -d '{"sessionKeys":["agent:my-boo:native"]}'"""
DELETE = 'curl -X DELETE "http://localhost:18790/api/chat-history?sessionKey=agent:my-boo:native"'

Shell = Callable[[str], Any]


@pytest.fixture
def shell(api: Api) -> Shell:
    def run(example: str) -> Any:  # noqa: ANN401 - JSON is any value
        command = example.replace("18790", str(api.port)).replace("curl ", "curl --silent --show-error --noproxy '*' ")
        done = subprocess.run(command, shell=True, capture_output=True, check=True, timeout=30)  # noqa: S602 - the page's
        return json.loads(done.stdout)

    return run


def test_the_curl_examples_work(shell: Shell) -> None:
    hi = entry(1, "Hi", key="agent:my-boo:native")
    assert shell(DELETE) == {"ok": True}
    saved = shell(SAVE)
    assert (saved["ok"], saved["saved"]) == (True, 1)
    assert shell(READ) == {"entries": [hi], "hasMore": False, "nextBefore": None}
    reset = shell(RESET)
    assert reset["ok"] is True
    assert shell(READ)["entries"] == [hi, reset["entry"]]
    assert shell(DELETE) == {"ok": True}
    assert shell(READ) == {"entries": [], "hasMore": False, "nextBefore": None}
