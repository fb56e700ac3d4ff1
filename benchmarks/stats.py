"""Contenders that take turns: what their rounds come to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

Numbers = Sequence[float]
"""What one run of a contender showed, in the order of a table's columns."""


def medians(runs: Sequence[Numbers]) -> list[float]:
    """The middle value of each column."""
    return [median(column) for column in zip(*runs, strict=True)]


def median_ratios(mine: Sequence[Numbers], others: Sequence[Numbers]) -> list[float]:
    """Column by column, how many times `others` mine is: round by round, since a slow minute of the
    machine hits both; then the middle value."""
    pairs = zip(mine, others, strict=True)
    return medians([[a / b for a, b in zip(one, other, strict=True)] for one, other in pairs])
