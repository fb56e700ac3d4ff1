"""What the runs of all projects share: observations of a module, as plain data.

The runs happen in the student's kernel, and in grading another process judges their observations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.course.projects.group import RETURNED, Reply

Observation = dict[str, Any]


def to_data(replies: Iterable[Reply]) -> list[dict[str, Any]]:
    """Replies as plain data, for an observation that another process judges."""
    return [reply._asdict() for reply in replies]


def from_data(replies: Iterable[Mapping[str, Any]]) -> list[Reply]:
    """The replies that `to_data` received."""
    return [Reply(**reply) for reply in replies]


def all_returned(replies: Iterable[Reply]) -> bool:
    """Whether no process raised an error, ended or missed its deadline."""
    return all(reply.kind == RETURNED for reply in replies)


def raise_if_empty(module: Path, replies: Iterable[Reply]) -> None:
    """Raises NotImplementedError, which `check` reports as no answer, if the module raised it.

    The error of another file, such as an empty module that this one imports, is reported as such.
    """
    for reply in replies:
        if reply.type == NotImplementedError.__name__ and reply.file in ("", module.name):
            raise NotImplementedError


def until_failure(
    observe: Callable[[Any], Observation],
    cases: Iterable[Any],
    works: Callable[[Observation], bool],
) -> list[Observation]:
    """The observations of several cases, up to the first one in which the module does not work."""
    found: list[Observation] = []
    for case in cases:
        found.append(observe(case))
        if not works(found[-1]):
            break
    return found


def works(session: Mapping[str, Any]) -> bool:
    """Whether all calls of a session returned the right results."""
    return bool(session["calls"]) and all(map(is_right, session["calls"]))


def is_right(call: Mapping[str, Any]) -> bool:
    """Whether a call returned the right result in every process, possibly with other roundings."""
    different = call["difference"] and call["difference"]["problem"] != "bits"
    return not different and all_returned(from_data(call["replies"]))


def subtract(after: Sequence[int], before: Sequence[int]) -> list[int]:
    """The change of a counter of each process."""
    return [late - early for late, early in zip(after, before, strict=True)]


def describe_mismatch(result: Any, shape: tuple[int, ...], kind: Any = None) -> str:
    """What a process returned in place of an array of this shape and type, or an empty text.

    Args:
      kind: the type of the numbers, or None for any.
    """
    if isinstance(result, Reply):
        return result.other or result.kind
    if result.shape == shape and (kind is None or result.dtype == kind):
        return ""
    return f"{result.dtype}{list(result.shape)}"


def find_difference(
    results: Sequence[Any], wanted: Any, allowed: Any, kind: Any
) -> Observation | None:
    """The first difference between the results of all processes and the wanted array, or None.

    All processes must have the same bits, because otherwise their copies would drift apart.

    Args:
      allowed: the allowed rounding error of each element.
      kind: the type of the results. `wanted` may be more exact.
    """
    for rank, result in enumerate(results):
        if mismatch := describe_mismatch(result, wanted.shape, kind):
            return {"problem": "array", "rank": rank, "found": mismatch}
        for problem, right, wrong in (
            ("value", wanted, ~(np.abs(result - wanted) <= allowed)),
            ("bits", results[0], result != results[0]),
        ):
            if wrong.any():
                place = int(np.argmax(wrong))
                pair = {"found": float(result[place]), "wanted": float(right[place])}
                return {"problem": problem, "rank": rank, "element": place, **pair}
    return None
