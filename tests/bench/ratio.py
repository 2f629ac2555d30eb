"""One row of the results table: a ratio with its spread, its goal, and whether it is reached."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Row:
    """`ratios` are one per interleaved slice or pair. `at_least` tells the direction of the goal.

    A `gate` row that falls short fails the run.
    """

    name: str
    goal: float
    ratios: list[float]
    at_least: bool
    unit: str = "×"
    gate: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The figure that counts."""
        return statistics.median(self.ratios)

    @property
    def reached(self) -> bool:
        """True if the goal is met."""
        return self.median >= self.goal if self.at_least else self.median <= self.goal

    def line(self) -> str:
        """The row as it stands in docs/benchmarks.md."""
        sign = "≥" if self.at_least else "≤"
        low, high = spread(self.ratios)
        mark = "reached" if self.reached else "NOT reached"
        unit = "" if self.unit == "×" else f" {self.unit}"
        notes = "; ".join(self.notes)
        return (
            f"| {self.name} | {sign} {self.goal:g}{unit} | {self.median:.3g}{unit} | {low:.3g} to {high:.3g} "
            f"({len(self.ratios)}) | {mark} | {notes} |"
        )


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Smallest and largest."""
    return min(values), max(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
