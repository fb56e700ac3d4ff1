"""What a slow machine leaves out, and in which order."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import time_budget


def item(folder: str, name: str) -> Any:
    return SimpleNamespace(path=Path("tests", folder, "test_x.py"), name=name)


IN_ORDER = [
    item("cluster", "test_a_killed_worker"),
    item("lessons", f"{time_budget.LESSON}[zh-07]"),
    item("exercises", "test_the_solution_earns_full_marks[01-ko]"),
    item("exercises", "test_a_wrong_answer_earns_nothing"),
]


def left_out(first: float, second: float, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many are left out, where the two moments lie so many seconds from now."""
    moments = ",".join(str(time.time() + seconds) for seconds in (first, second))
    monkeypatch.setenv(time_budget.VARIABLE, moments)
    count = 0
    for one in IN_ORDER:
        try:
            time_budget.skip_if_over_budget(one)
        except pytest.skip.Exception as skipped:
            assert "too slow" in str(skipped)
            count += 1
    return count


def test_faults_and_lessons_are_left_out_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert left_out(60, 120, monkeypatch) == 0
    assert left_out(-60, 60, monkeypatch) == 2
    assert left_out(-120, -60, monkeypatch) == 4
    items = IN_ORDER[::-1]
    time_budget.sort_by_priority(items)
    assert items == IN_ORDER


def test_without_a_limit_nothing_is_left_out_nor_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(time_budget.VARIABLE, raising=False)
    items = IN_ORDER[::-1]
    time_budget.sort_by_priority(items)
    assert items == IN_ORDER[::-1]
    for one in items:
        time_budget.skip_if_over_budget(one)
