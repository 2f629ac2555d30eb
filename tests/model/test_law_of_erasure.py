"""The law of fold.md: what was erased from the log never shows in any table that isn't a ledger."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.model.cases import CASES, cases_in
from tests.model.comparison import erased, fold_really, naive_dump, real_dump, real_outbox
from tests.model.generator import HostileLog, hostile_logs
from tests.model.hypothesis_profile import TIMEOUT_S, examples
from tests.model.naive_fold import NaiveFold

AT_LEAST = 100
pytestmark = pytest.mark.timeout(TIMEOUT_S)


def test_the_tables_do_not_depend_on_any_subset_of_the_erased_records() -> None:
    """Erased to null values or gone altogether, all of them or some, folded in one batch or in several."""
    counted: Counter[str] = Counter()

    @examples(650)
    @given(hostile_logs(), st.integers(0, 2**32))
    def check(log: HostileLog, seed: int) -> None:
        note(str(log))
        random = Random(seed)
        whole, _ = fold_really([log.records])
        expected, outbox = whole.snapshot(), sorted(whole.outbox)
        to_erase = real_outbox(whole)
        some = {offset for offset in outbox if random.random() < 0.5}
        gone = {offset for offset in outbox if random.random() < 0.5}
        one = set(random.sample(outbox, min(1, len(outbox))))
        for nulled, removed in [(set(outbox), set()), (set(), set(outbox)), (some, gone), (one, set()), (set(), one)]:
            note(f"null: {sorted(nulled)}, gone: {sorted(removed)}")
            left = erased(log.records, nulled, removed)
            cut = random.randint(0, len(left))
            tables, _ = fold_really([left[:cut], left[cut:]])
            assert tables.snapshot() == expected
            # What is still to be erased stays in the outbox, so that a rebuild forgets no erasure.
            assert real_outbox(tables) == [row for row in to_erase if row["offset"] not in nulled | removed]
        counted["logs"] += 1
        counted["logs with erased records"] += bool(outbox)
        counted["records"] += len(log.records)
        counted["erased records"] += len(outbox)
        counted.update(cases_in(log.records))

    check()
    report = "\n".join(f"{counted[case]:6} {case}" for case in ("logs", *sorted(counted.keys() - set(CASES)), *CASES))
    print(report)  # noqa: T201 - shown with -rP, and with a failure
    assert not [case for case in CASES if counted[case] < AT_LEAST], report


@examples(100)
@given(hostile_logs(), st.integers(0, 2**32))
def test_the_naive_model_obeys_the_law_too(log: HostileLog, seed: int) -> None:
    note(str(log))
    whole = NaiveFold().take_all(log.records)
    some = {row["offset"] for row in whole.outbox if Random(f"{seed} {row['offset']}").random() < 0.6}
    assert naive_dump(NaiveFold().take_all(erased(log.records, some, set()))) == naive_dump(whole)
    assert real_dump(fold_really([erased(log.records, set(), some)])[0]) == naive_dump(whole)
