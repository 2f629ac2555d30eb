"""How many logs the model tests try: `TURNLOG_TEST_EXAMPLES=20000 pytest tests/model` is a long chaos run.

Without it the run is short and always the same; with it every run draws new logs.
"""

import os

from hypothesis import HealthCheck, settings

TIMEOUT_S = 0 if os.environ.get("TURNLOG_TEST_EXAMPLES") else 600
"""Of one test, in seconds: generous on a busy machine, none for a chaos run."""


def examples(usual: int) -> settings:
    """The settings of a property: the usual number of logs, or more if the environment asks for more."""
    asked = os.environ.get("TURNLOG_TEST_EXAMPLES")
    return settings(
        max_examples=max(usual, int(asked or 0)),
        derandomize=not asked,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
        print_blob=bool(asked),
    )
