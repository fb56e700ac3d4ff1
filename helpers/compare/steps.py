"""Differences in the first step that differs: variables, gradients or logs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from helpers.compare.causes import Cause, Diagnosis
from helpers.compare.runs import Record, Run, distance, largest
from helpers.i18n import LocalNumber, _, join_items, number


def first_different_step(one: Run, many: Run, tolerance: float) -> int | None:
    """The index of the first step whose weights or logs differ, from 0, or None."""
    for index, alone in enumerate(one.all_steps()):
        for worker in range(len(many.records)):
            steps = many.all_steps(worker)
            if index >= len(steps) or _step_distance(alone, steps[index]) > tolerance:
                return index
    return None


def _step_distance(one: Record, other: Record) -> float:
    logs = [distance(v, other["logs"].get(k, math.nan)) for k, v in one["logs"].items()]
    return max([*logs, *(largest(one[part], other[part]) for part in ("trained", "state"))])


def compare_steps(one: Run, many: Run, tolerance: float) -> Diagnosis | None:
    """A rule of `diagnose`: the cause of the first difference between steps."""
    index = first_different_step(one, many, tolerance)
    if index is None or index >= len(many.all_steps()):
        return None
    alone = one.all_steps()[index]
    steps = [many.all_steps(worker)[index] for worker in range(many.workers)]
    layers = one.fits()[0]["layers"]
    found = _empty(alone, steps) or _not_finite(alone, steps) or _by_worker(many, steps)
    found = found or _by_gradients(alone, steps, layers, tolerance)
    found = found or _by_logs(alone, steps, layers, tolerance)
    return Diagnosis(found.cause, found.evidence, index + 1)


def _empty(alone: Record, steps: Sequence[Record]) -> Diagnosis | None:
    parts = [sum(step["parts"]) for step in steps]
    if 0 in parts and any(parts):
        message = _("A worker had no examples in this step: {parts}.")
        return Diagnosis(Cause.EMPTY_PART, message.format(parts=join_items(map(str, parts))))
    return None


def _not_finite(alone: Record, steps: Sequence[Record]) -> Diagnosis | None:
    def is_finite(step: Record) -> bool:
        return all(map(math.isfinite, [*step["logs"].values(), *step["trained"], *step["state"]]))

    if is_finite(alone) and not all(map(is_finite, steps)):
        message = _(
            "A loss, a metric or a weight is not finite, though no worker's part is empty: look "
            "for a division by a count of the worker's own examples."
        )
        return Diagnosis(Cause.UNKNOWN, message)
    return None


def _by_worker(many: Run, steps: Sequence[Record]) -> Diagnosis | None:
    for part, name in enumerate(("trained", "state")):
        hashes = [step["hashes"][part] for step in steps]
        if any(found != hashes[0] for found in hashes):
            other = next(k for k, found in enumerate(hashes) if found != hashes[0])
            initial = many.fits()[0]["initial"]["names"][part]
            pairs = zip(initial, steps[0][name], steps[other][name], strict=False)
            names = [variable for variable, a, b in pairs if a != b] or initial
            message = _("Workers 0 and {other} have different values of {names}.")
            return Diagnosis(Cause.STATE, message.format(other=other, names=join_items(names[:3])))
    return None


def _by_gradients(
    alone: Record, steps: Sequence[Record], layers: Sequence[str], tolerance: float
) -> Diagnosis | None:
    if largest(alone["trained"], steps[0]["trained"]) <= tolerance:
        return None  # the updates are equal
    workers = len(steps)
    scale = {place: _scale(alone, steps, place) for place in ("tape", "apply")}
    tape, apply = scale["tape"], scale["apply"]
    known = tape if tape is not None else apply
    if known is None or math.isnan(known):
        return _partial(alone, steps, layers)
    if known and abs(known - 1) < 1e-3:
        message = _(
            "The sum of the workers' gradients equals the gradient of one worker, but the update "
            "differs: the gradients were changed before they were summed."
        )
        return Diagnosis(Cause.LOCAL_GRADIENTS, message)
    for factor in (workers, 1 / workers):
        if abs(known / factor - 1) < 1e-3:
            message = _("The gradient is {factor:.4g} times the gradient of one worker.")
            return Diagnosis(Cause.LOSS_SCALE, message.format(factor=LocalNumber(known)))
    return _partial(alone, steps, layers)


def _scale(alone: Record, steps: Sequence[Record], place: str) -> float | None:
    """The factor from one worker's gradient to the group's, or NaN if it is no multiple."""
    import numpy as np

    if any(place not in step["gradients"] for step in (alone, *steps)):
        return None
    wanted, *parts = (np.asarray(step["gradients"][place]) for step in (alone, *steps))
    if any(part.shape != wanted.shape for part in parts):
        return None
    together = all(np.array_equal(part, parts[0]) for part in parts)  # already summed
    alike = steps[0]["x"] == steps[1]["x"] if len(steps) > 1 else False
    found = parts[0] if together and not alike else np.sum(parts, axis=0)
    square = float(wanted @ wanted)
    if not square or not np.all(np.isfinite(found)):
        return math.nan
    scale = float(found @ wanted) / square
    rest = float(np.linalg.norm(found - scale * wanted)) / math.sqrt(square)
    return scale if rest < 1e-3 * max(1.0, abs(scale)) else math.nan


def _partial(alone: Record, steps: Sequence[Record], layers: Sequence[str]) -> Diagnosis:
    if layers:
        message = _("These layers compute with each worker's own examples or numbers: {layers}.")
        return Diagnosis(Cause.RANDOM_LAYERS, message.format(layers=join_items(layers)))
    weights = [step["sample_weight"] for step in steps]
    message = (
        _(
            "The gradient is not a multiple of the gradient of one worker, on the same examples: "
            "a mean was computed over each worker's part. The parts have {parts} examples with "
            "sample weights of "
            "{weights}."
        )
        if any(weights)
        else _(
            "The gradient is not a multiple of the gradient of one worker, on the same examples: "
            "a mean was computed over each worker's part. The parts have {parts} examples."
        )
    )
    parts = join_items(str(sum(step["parts"])) for step in steps)
    texts = join_items(number(weight, ".4g") for weight in weights)
    return Diagnosis(Cause.PARTIAL_MEANS, message.format(parts=parts, weights=texts))


def _by_logs(
    alone: Record, steps: Sequence[Record], layers: Sequence[str], tolerance: float
) -> Diagnosis:
    """The diagnosis if the updates are equal and only the logs differ."""
    logs = steps[0]["logs"]
    pairs = {name: (value, logs.get(name, math.nan)) for name, value in alone["logs"].items()}
    wrong = {name: pair[0] for name, pair in pairs.items() if distance(*pair) > tolerance}
    if "loss" in wrong and logs.get("loss") and wrong["loss"]:
        factor = logs["loss"] / wrong["loss"]
        if any(abs(factor / times - 1) < 1e-3 for times in (len(steps), 1 / len(steps))):
            message = _("The reported loss is {factor:.4g} times the loss of one worker.")
            return Diagnosis(Cause.LOSS_SCALE, message.format(factor=LocalNumber(factor)))
    if "loss" not in wrong and wrong:
        message = _("Loss and weights agree, but not the metrics {names}.")
        return Diagnosis(Cause.METRICS, message.format(names=join_items(wrong)))
    if wrong:
        return _partial(alone, steps, layers)
    message = _(
        "Variables other than the trained weights differ from their values with one worker."
    )
    return Diagnosis(Cause.RANDOM_LAYERS if layers else Cause.STATE, message)
