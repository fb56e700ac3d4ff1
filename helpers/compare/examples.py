"""Compares the examples of each step with the examples of one worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.compare.causes import Cause, Diagnosis
from helpers.compare.runs import Record, Run
from helpers.i18n import _, ngettext


def compare_examples(one: Run, many: Run, _tolerance: float) -> Diagnosis | None:
    """A rule of `diagnose`: whether the group trains on the same examples as one worker."""
    alone, together = _steps_of_group(one), _steps_of_group(many)
    wanted, found = _epoch(one, alone), _epoch(many, together)
    if not wanted or not found:
        return None
    pairs = {row for step in alone for row in step}
    known = {x for x, _y in pairs}
    changed = {row for step in together for row in step if row[0] in known and row not in pairs}
    if changed:
        message = ngettext(
            "{count} example has a different label than with one worker.",
            "{count} examples have a different label than with one worker.",
            len(changed),
        )
        return Diagnosis(Cause.OVERWRITTEN_ARRAYS, message.format(count=len(changed)))
    return _first_epoch(alone, wanted, found) or _other_steps(alone, together)


def _first_epoch(
    alone: Sequence[Any], wanted: Counter[Any], found: Counter[Any]
) -> Diagnosis | None:
    missing, extra = wanted - found, found - wanted
    counts = {
        "missing": sum(missing.values()),
        "extra": sum(extra.values()),
        "all": sum(wanted.values()),
    }
    if missing and not extra:
        return _missing(Counter(alone[0]), found, counts)
    if missing:
        message = ngettext(
            "In the first epoch, {missing} of {all} example is missing and {extra} others "
            "are repeated or new: the workers do not shard the examples in the same order.",
            "In the first epoch, {missing} of {all} examples are missing and {extra} others "
            "are repeated or new: the workers do not shard the examples in the same order.",
            counts["all"],
        )
        return Diagnosis(Cause.ORDER, message.format(**counts))
    if extra:
        message = ngettext(
            "In the first epoch, the workers trained on {extra} more example than "
            "the {all} in the data.",
            "In the first epoch, the workers trained on {extra} more examples than "
            "the {all} in the data.",
            counts["extra"],
        )
        return Diagnosis(Cause.DATASET_LENGTH, message.format(**counts))
    return None


def _missing(first: Counter[Any], found: Counter[Any], counts: Mapping[str, int]) -> Diagnosis:
    if first and not first & found:
        message = ngettext(
            "The first {missing} of {all} example of the data was not trained on.",
            "The first {missing} of {all} examples of the data were not trained on.",
            counts["all"],
        )
        return Diagnosis(Cause.READ_ONCE, message.format(**counts), 1)
    message = ngettext(
        "{missing} of {all} example of the first epoch was not trained on.",
        "{missing} of {all} examples of the first epoch were not trained on.",
        counts["all"],
    )
    return Diagnosis(Cause.DATASET_LENGTH, message.format(**counts))


def _other_steps(alone: Sequence[Any], together: Sequence[Any]) -> Diagnosis | None:
    for index, (wanted, found) in enumerate(zip(alone, together, strict=False), 1):
        if len(wanted) != len(found):
            message = ngettext(
                "Step {step} has {found} example on all workers together and {wanted} on one "
                "worker: the global "
                "batch depends on the number of workers.",
                "Step {step} has {found} examples on all workers together and {wanted} on one "
                "worker: the global "
                "batch depends on the number of workers.",
                len(found),
            )
            values = {"step": index, "found": len(found), "wanted": len(wanted)}
            return Diagnosis(Cause.DATASET_LENGTH, message.format(**values), index)
        if Counter(wanted) != Counter(found):
            message = _(
                "Each example occurs once per epoch, but step {step} has different examples "
                "than with one worker. Pass a seed to the shuffle."
            )
            return Diagnosis(Cause.ORDER, message.format(step=index), index)
    return None


def _steps_of_group(run: Run) -> list[list[tuple[int, int]]]:
    """The examples of each step, of all workers together."""
    of_workers = [run.all_steps(worker) for worker in range(run.workers)]
    steps = list(zip(*of_workers, strict=False))
    return [[row for step in together for row in _pairs(step)] for together in steps]


def _pairs(step: Record) -> list[tuple[int, int]]:
    labels = step["y"] or [0] * len(step["x"])
    return list(zip(step["x"], labels, strict=False))


def _epoch(run: Run, steps: Sequence[Sequence[tuple[int, int]]]) -> Counter[tuple[int, int]]:
    """The number of occurrences of each example in the first epoch."""
    fits = run.fits()
    end = fits[0]["epochs"][0] if fits and fits[0]["epochs"] else 0
    return Counter(row for step in steps[:end] for row in step)
