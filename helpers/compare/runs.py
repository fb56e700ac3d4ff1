"""The records of a program with one group size, and the distance between two numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.i18n import _, labeled

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """A program with one group size.

    Attributes:
      workers: the number of workers.
      records: the records of the workers, in their order, or none if the run failed.
      error: the reason for the failure, or "".
      raised: the class of the error, or "".
    """

    workers: int
    records: Sequence[Record] = ()
    error: str = ""
    raised: str = ""

    def fits(self, worker: int = 0) -> list[Record]:
        """The calls of `fit` in a worker."""
        return list(self.records[worker]["fits"]) if self.records else []

    def all_steps(self, worker: int = 0) -> list[Record]:
        """The steps of all calls of `fit` in a worker, in order."""
        return [step for fit in self.fits(worker) for step in fit["steps"]]

    @property
    def losses(self) -> list[float]:
        """The loss that Keras logged after each step, which is a mean over the epoch so far."""
        found = [number(step["logs"].get("loss")) for step in self.all_steps()]
        return [math.nan if loss is None else loss for loss in found]

    def quantities(self, worker: int = 0) -> dict[str, list[float]]:
        """All numbers that a program computed, by quantity."""
        if not self.records:
            return {}
        record = self.records[worker]
        found: dict[str, list[float]] = {}
        fits = self.fits(worker)
        for index, fit in enumerate(fits, 1):
            call = _("fit {number}").format(number=index)
            for name, values in fit["history"].items():
                found[labeled(call, name) if len(fits) > 1 else name] = list(numbers(values))
        for result in record["results"]:
            for name, values in _named(result["result"]):
                key = labeled(result["call"], name) if name else result["call"]
                found.setdefault(key, []).extend(values)
        for index, model in enumerate(record["models"], 1):
            suffix = f" {index}" if len(record["models"]) > 1 else ""
            for part, name in enumerate([_("weights"), _("other variables")]):
                values = model["numbers"][part] if "numbers" in model else model["norms"][part]
                if values:
                    found[name + suffix] = [float(value) for value in values]
        if not found:
            values = list(numbers(record["returned"]))
            if values:
                found[_("returned")] = values
        return found

    def quantities_of_all(self) -> list[dict[str, list[float]]]:
        """The quantities of each worker."""
        return [self.quantities(worker) for worker in range(len(self.records))]


def number(value: Any) -> float | None:
    """A value as a number, or None if it is not one."""
    return float(value) if isinstance(value, (int, float)) else None


def numbers(value: Any) -> Iterator[float]:
    """All numbers in nested lists and dicts."""
    if isinstance(value, (int, float)):
        yield float(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from numbers(one)


def distance(one: float, other: float) -> float:
    """The distance between two numbers, relative if they are above 1. NaN equals only NaN."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    found = abs(one - other) / max(1.0, abs(one))
    return math.inf if math.isnan(found) else found


def largest(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest distance between two lists, infinite if their lengths differ."""
    if len(one) != len(other):
        return math.inf
    return max(map(distance, one, other), default=0.0)


def _named(result: Any) -> Iterator[tuple[str, list[float]]]:
    if isinstance(result, Mapping):
        for name, value in result.items():
            yield str(name), list(numbers(value))
    else:
        yield "", list(numbers(result))
