"""The story fixture: every test that writes a log also proves that its batches don't matter."""

from collections.abc import Iterator

import pytest

from tests.domain.story import Story


@pytest.fixture
def story() -> Iterator[Story]:
    """An empty log and empty tables; at the end the whole log is folded again in one batch."""
    story = Story()
    yield story
    story.check()
