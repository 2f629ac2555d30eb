"""Every numbered case has a test that carries its number."""

import re
from pathlib import Path

CASES = {
    *range(1, 13), 14, 15, 16, 18, 19, 20, *range(22, 28), 29, *range(31, 36), 37, 38, 39, 40,
}  # fmt: skip


def test_every_numbered_case_has_a_test() -> None:
    source = "\n".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    tested = {int(number) for name in re.findall(r"def test((?:_\d\d)+)_", source) for number in name[1:].split("_")}
    assert tested == CASES
