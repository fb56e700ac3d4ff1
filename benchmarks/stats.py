"""Statistics of contenders that take turns."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

Numbers = Sequence[float]
"""The results of one run of a contender, in the order of a table's columns."""


def medians(runs: Sequence[Numbers]) -> list[float]:
    """Returns the median of each column."""
    return [median(column) for column in zip(*runs, strict=True)]


def median_ratios(mine: Sequence[Numbers], others: Sequence[Numbers]) -> list[float]:
    """Returns the ratio of `mine` to `others`, column by column: the median over the rounds.

    Ratios are computed round by round, because a slow minute of the machine affects both.
    """
    pairs = zip(mine, others, strict=True)
    return medians([[a / b for a, b in zip(one, other, strict=True)] for one, other in pairs])
