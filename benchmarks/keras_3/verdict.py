"""Whether two workers computed the same as one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

AS_ONE = "as one worker"
AGREE = "workers agree"  # if one worker draws or counts differently, as with dropout

Answers = Mapping[str, Mapping[str, Any]]
"""For each case: claim, tolerance, refused, not_numbers, and either "given" or "error"."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one case.

    Attributes:
      holds: whether the result is as expected, which may be an error.
      works: whether the case works on two workers.
      difference: the largest difference between numbers, relative for numbers above 1.
      reason: why it does not hold.
    """

    holds: bool
    works: bool
    difference: float | None = None
    reason: str = ""


def badness(verdict: Verdict) -> tuple[bool, bool, float]:
    """Orders verdicts, the worst last."""
    return not verdict.holds, not verdict.works, verdict.difference or 0.0


def judge(alone: Answers, together: Sequence[Answers]) -> dict[str, Verdict]:
    """Returns a verdict on each case that the first of several workers has run."""
    return {
        name: _judge(alone[name], [answers[name] for answers in together]) for name in together[0]
    }


def _judge(alone: Mapping[str, Any], together: Sequence[Mapping[str, Any]]) -> Verdict:
    first = together[0]
    for answer in together:
        if "error" in answer:
            expected = bool(first["refused"]) and first["refused"] in answer["error"]
            return Verdict(expected, False, reason=answer["error"])
    if first["refused"]:
        return Verdict(False, True, reason="it was to be refused")
    if first["claim"] == AS_ONE and "error" in alone:
        return Verdict(False, False, reason=f"one worker: {alone['error']}")
    parts = ("weights",) if first["claim"] == AGREE else tuple(first["given"])
    others = [answer["given"] for answer in together[1:]]
    if first["claim"] == AS_ONE:
        others.append(alone["given"])
    apart = partial(_difference, also_nan=first["not_numbers"])
    difference = max(apart(first["given"][p], other[p]) for p in parts for other in others)
    holds = difference <= first["tolerance"]
    return Verdict(holds, holds, difference, "" if holds else f"differs by {difference:.0e}")


def _difference(one: Any, other: Any, also_nan: bool) -> float:
    mine, theirs = list(_leaves(one)), list(_leaves(other))
    if len(mine) != len(theirs):
        return math.inf
    return max((_apart(a, b, also_nan) for a, b in zip(mine, theirs, strict=True)), default=0.0)


def _apart(one: float, other: float, also_nan: bool) -> float:
    if one == other or (also_nan and math.isnan(one) and math.isnan(other)):
        return 0.0
    apart = abs(one - other) / max(1.0, abs(other))
    return math.inf if math.isnan(apart) else apart


def _leaves(value: Any) -> Iterator[float]:
    """Yields the numbers of nested lists and dicts, in order."""
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield from _leaves(value[name])
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
