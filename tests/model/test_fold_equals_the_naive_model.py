"""The fold and the naive model, written apart from each other from the same rules, end in the same tables."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.domain.memory_tables import MemoryTables
from tests.model.comparison import (
    fold_really,
    naive_dump,
    naive_outbox,
    naive_verdicts,
    real_dump,
    real_outbox,
    real_record,
    real_verdicts,
)
from tests.model.generator import HostileLog, hostile_logs
from tests.model.hypothesis_profile import TIMEOUT_S, examples
from tests.model.naive_fold import NaiveFold
from tests.model.naive_records import LogRecord

pytestmark = pytest.mark.timeout(TIMEOUT_S)


def split(log: HostileLog, cuts: list[int]) -> list[tuple[LogRecord, ...]]:
    """The records in batches of these lengths, over and over; empty batches included."""
    batches, at = [], 0
    for turn in range(len(log.records) * len(cuts) + 1):
        if at >= len(log.records):
            break
        length = cuts[turn % len(cuts)]
        batches.append(log.records[at : at + length])
        at += length
    return batches


@examples(300)
@given(hostile_logs(), st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any))
def test_any_batches_of_a_log_fold_to_the_tables_of_the_naive_model(log: HostileLog, cuts: list[int]) -> None:
    note(str(log))
    naive, tables, effects = NaiveFold(), MemoryTables(), []
    for batch in split(log, cuts):
        naive.take_all(batch)
        effects.append(tables.fold([real_record(record) for record in batch]))
        assert real_dump(tables) == naive_dump(naive)
    assert real_outbox(tables) == naive_outbox(naive)
    assert real_verdicts(effects) == naive_verdicts(naive)


@examples(150)
@given(hostile_logs())
def test_record_by_record_a_log_folds_as_in_one_batch(log: HostileLog) -> None:
    note(str(log))
    one_by_one, single = fold_really([[record] for record in log.records])
    at_once, whole = fold_really([log.records])
    assert one_by_one.snapshot() == at_once.snapshot()
    assert real_outbox(one_by_one) == real_outbox(at_once)
    assert real_verdicts(single) == real_verdicts(whole)
