"""Installations that a test runs on in turn."""

import pytest

BOTH_LOGS = [pytest.param("embedded"), pytest.param("on_kafka", marks=pytest.mark.needs_kafka)]
BOTH_EXTERNAL = [pytest.param("on_postgres"), pytest.param("on_kafka", marks=pytest.mark.needs_kafka)]
BOTH_PAIRS = [pytest.param("postgres"), pytest.param("kafka", marks=pytest.mark.needs_kafka)]
