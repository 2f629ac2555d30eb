"""Requests made up from the server's own OpenAPI document: none is answered by 5xx, all answers are as described.

300 requests by default, ten times as many, and others each time, with TURNLOG_TEST_FUZZ=long.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api import Api

LONG = os.environ.get("TURNLOG_TEST_FUZZ") == "long"
REQUESTS = 3000 if LONG else 300
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
POSITIONS = re.compile(r"\d{1,4}-\d{1,16}(\s*,\s*\d{1,4}-\d{1,16})*")

AnyCase = schemathesis.Case[Any]
Operation = APIOperation[Any, Any, Any, Any]

load_all_checks()


class Fuzzing:
    """Sends cases and judges the answers. `answers` counts them by operation and hundred."""

    def __init__(self, api: Api, streams: httpx.Client) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self._url = api.process.url
        self._streams = streams
        self._position = "0-0"

    def send(self, case: AnyCase) -> None:
        """One request. A well-formed position is exchanged for one that exists, which no random one does."""
        headers: Any = case.headers or {}
        if POSITIONS.fullmatch(headers.get("Turnlog-After", "")):
            headers["Turnlog-After"] = self._position
        if case.operation.label == "POST /v1/turns" and isinstance(case.body, dict):
            _let_conditions_hold(case.body)
        if case.path.endswith("/stream"):
            status = self._begin_stream(case)
        else:
            response = case.call(base_url=self._url, timeout=30)
            case.validate_response(response, checks=CHECKS)
            status = response.status_code
            self._position = response.headers.get("turnlog-position", [self._position])[0]
        self.answers[case.operation.label, status // 100] += 1

    def _begin_stream(self, case: AnyCase) -> int:
        """The status of a stream, which never ends by itself, so that its answer can't be judged whole."""
        given = case.as_transport_kwargs(base_url=self._url)
        url, query, headers = given["url"], given["params"], given["headers"]
        with self._streams.stream("GET", url, params=query, headers=headers) as response:
            assert response.status_code in (200, 400), response
            if response.status_code == 200:
                assert next(response.iter_bytes()).startswith(b": connected\n\n")
            else:
                assert list(httpx.Response(400, content=response.read()).json()) == ["error"]
            return response.status_code


def _let_conditions_hold(turn: dict[str, Any]) -> None:
    """No random epoch or position is the session's own; a session never ended has epoch 0."""
    if isinstance(turn.get("epoch"), int):
        turn["epoch"] = 0
    if POSITIONS.fullmatch(str(turn.get("ifPosition"))):
        del turn["ifPosition"]


def fuzz(operation: Operation, mode: GenerationMode, count: int, send: Callable[[AnyCase], None]) -> None:
    """Send `count` cases of an operation. One that can't be got wrong has none in the negative mode."""

    @hypothesis.settings(
        max_examples=count, database=None, deadline=None, derandomize=not LONG, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def run(case: AnyCase) -> None:
        send(case)

    try:
        run()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE


@pytest.mark.timeout(3000 if LONG else 300)
def test_no_request_is_answered_by_5xx_and_every_operation_can_succeed(api: Api) -> None:
    document = httpx.get(f"{api.process.url}/openapi.json").json()
    found = list(schemathesis.openapi.from_dict(document).get_all_operations())
    operations = [result.ok() for result in found if isinstance(result, Ok)]
    assert len(operations) == len(found)
    # The two probes take no input: one request each is all there is.
    each = math.ceil((REQUESTS - 2) / (len(operations) - 2) / 2)
    with httpx.Client() as streams:
        fuzzing = Fuzzing(api, streams)
        for operation in operations:
            fuzz(operation, GenerationMode.POSITIVE, each, fuzzing.send)
            fuzz(operation, GenerationMode.NEGATIVE, each, fuzzing.send)
    assert fuzzing.answers.total() >= REQUESTS
    assert not {label for label, hundred in fuzzing.answers if hundred == 5}
    succeeded = {label for label, hundred in fuzzing.answers if hundred == 2}
    assert succeeded == {operation.label for operation in operations}
