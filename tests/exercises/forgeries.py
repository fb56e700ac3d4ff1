"""Data that a submission may send instead of an observation of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from helpers.course.check import answer_runner, check

SHAPELESS: tuple[Any, ...] = ({}, [], None, 1, "", [[]], [{}], [None], {"seen": []})


def marked(task: str, seen: Any, **case: Any) -> float:
    """The points that a task awards for an observation, whatever its origin."""
    token = answer_runner.set(lambda name, asked: seen)
    try:
        return check(task, **case)
    finally:
        answer_runner.reset(token)


def forgeries(seen: Any) -> Iterator[Any]:
    """Yields values with the form of an observation, made without knowledge of the case."""
    yield from (_with_numbers(seen, number) for number in (0, 1, 7))
    yield from (_cut(seen, length) for length in (0, 1))


def _with_numbers(seen: Any, number: int) -> Any:
    """The same, with all numbers equal."""
    if isinstance(seen, np.ndarray):
        return np.full_like(seen, number)
    if isinstance(seen, (int, float, np.number)) and not isinstance(seen, bool):
        return number
    return _each(seen, lambda entry: _with_numbers(entry, number))


def _cut(seen: Any, length: int) -> Any:
    """The same, with the beginning of each list."""
    if isinstance(seen, (list, tuple, np.ndarray)):
        seen = seen[:length]
    return _each(seen, lambda entry: _cut(entry, length))


def _each(seen: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(seen, Mapping):
        return {key: change(entry) for key, entry in seen.items()}
    return type(seen)(map(change, seen)) if isinstance(seen, (list, tuple)) else seen
