"""Answers of different form that are right, with real workers."""

from __future__ import annotations

import pytest

from helpers.course.check import check, find_task

RIGHT = {
    "reduces once": """
def add_up(numbers, all_reduce):
    return all_reduce(sum(number for number in numbers if number >= 0))
""",
    "adds zero for a damaged example": """
def add_up(numbers, all_reduce):
    total = 0.0
    for number in numbers:
        total += all_reduce(max(number, 0.0))
    return total
""",
    "replaces damaged examples first": """
def add_up(numbers, all_reduce):
    kept = [0 if number < 0 else number for number in numbers]
    return sum(map(all_reduce, kept))
""",
    "ignores what a damaged example contributed": """
def add_up(numbers, all_reduce):
    total = 0.0
    for number in numbers:
        everything = all_reduce(number)
        total += everything - all_reduce(number if number < 0 else 0.0)
    return total
""",
}


@pytest.mark.answers
@pytest.mark.parametrize("name", RIGHT)
def test_a_function_that_does_not_hang_earns_all_points(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(RIGHT[name], namespace)
    assert check("add_up", namespace) == find_task("add_up").points
