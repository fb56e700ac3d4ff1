"""What is tested first, and what is left out where a machine is too slow for all of it.

TEST_SKIP_AFTER holds two moments, as "1767225600,1767226200", in seconds since the epoch. After the
first one, tests of the last priorities are skipped; after the second one, all that are left.
"""

from __future__ import annotations

import os
import time

import pytest

VARIABLE = "TEST_SKIP_AFTER"
LESSON = "test_the_lesson_runs_and_prints_what_is_stored"
KEPT_PRIORITIES = 2  # which only the second moment touches


def priority(item: pytest.Item) -> int:
    """When a test comes, 0 first: units and faults, lessons, exercises."""
    folder, name = item.path.parent.name, item.name
    if name.startswith(LESSON):
        return 1
    if folder == "exercises":
        return 2 if name.startswith("test_the_solution") else 3
    return 0


def sort_by_priority(items: list[pytest.Item]) -> None:
    """Puts the tests into the order of their priorities, if there is a limit."""
    if os.environ.get(VARIABLE):
        items.sort(key=priority)


def skip_if_over_budget(item: pytest.Item) -> None:
    """Skips a test for which no time is left."""
    moments = os.environ.get(VARIABLE)
    if moments:
        first, second = map(float, moments.split(","))
        if time.time() > (first if priority(item) >= KEPT_PRIORITIES else second):
            folder = item.path.parent.name
            pytest.skip(
                f"left out, as this machine is too slow today: priority {priority(item)}, {folder}"
            )
