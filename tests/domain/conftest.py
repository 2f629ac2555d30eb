"""The story fixture: every test that writes a log also proves that its batches don't matter."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.domain.story import Story

# A busy machine makes single examples slow; the time limit of the whole test is what counts.
settings.register_profile("turnlog", deadline=None)
settings.load_profile("turnlog")


@pytest.fixture
def story() -> Iterator[Story]:
    """An empty log and empty tables; at the end the whole log is folded again in one batch."""
    story = Story()
    yield story
    story.check()
