"""What is tested first, and what is left out where a machine is too slow for all of it.

LEAVE_OUT_AFTER holds two moments, as "1767225600,1767226200", in seconds since the epoch. After the
first one, tests of the last ranks are skipped; after the second one, all that are left.
"""

from __future__ import annotations

import os
import time

import pytest

VARIABLE = "LEAVE_OUT_AFTER"
LESSON = "test_the_lesson_runs_and_prints_what_is_stored"
KEPT_RANKS = 2  # which only the second moment touches


def rank(item: pytest.Item) -> int:
    """When a test comes, 0 first: units and faults, lessons, exercises."""
    folder, name = item.path.parent.name, item.name
    if name.startswith(LESSON):
        return 1
    if folder == "exercises":
        return 2 if name.startswith("test_the_solution") else 3
    return 0


def in_order(items: list[pytest.Item]) -> None:
    """Puts the tests into the order of their ranks, if there is a limit."""
    if os.environ.get(VARIABLE):
        items.sort(key=rank)


def leave_out(item: pytest.Item) -> None:
    """Skips a test for which no time is left."""
    moments = os.environ.get(VARIABLE)
    if moments:
        first, second = map(float, moments.split(","))
        if time.time() > (first if rank(item) >= KEPT_RANKS else second):
            folder = item.path.parent.name
            pytest.skip(f"left out, as this machine is too slow today: rank {rank(item)}, {folder}")
