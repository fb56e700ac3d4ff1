"""Finds why the results of a program change on several workers, by rules in this order.

1. An error, by its class, or by the words of TensorFlow and Keras.
2. A model outside the strategy's scope.
3. Workers that ran different numbers of steps.
4. A history that lacks epochs.
5. Examples that were overwritten, lost, repeated or reordered, compared with one worker.
6. Weights that start from different values.
7. The first step with a difference: NaN, an empty part, variables that differ between workers,
  gradients that were scaled, changed or averaged, or only metrics.

`diagnose` stops at the first rule that applies. Each rule compares recorded numbers, and these
numbers are in the sentence that it returns as evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from helpers import labels
from helpers.compare.causes import Cause, Diagnosis
from helpers.compare.examples import compare_examples
from helpers.compare.runs import Record, Run, largest
from helpers.compare.steps import compare_steps, first_different_step
from helpers.i18n import _, join_clauses, join_items, labeled, ngettext

ERRORS = {  # the classes of errors of this package, whose messages are translated
    "DifferentWeightsError": Cause.STATE,
    "DivergedError": Cause.CONTROL_FLOW,
    "ClusterError": Cause.CONTROL_FLOW,
}
WORDS = (  # of TensorFlow's and Keras's errors, class and message, in lower case
    (
        Cause.SCOPE,
        ("mixing different", "strategy scope", "outside of the scope", "strategy.scope()"),
    ),
    (Cause.METRICS, ("cannot convert `input_tensor`", "to a `perreplica` object")),
    (Cause.STEPS_PER_EXECUTION, ("unboundlocalerror", "steps_per_execution")),
    (Cause.DATASET_LENGTH, ("expected type", "end of sequence", "outofrange", "cardinality")),
    (
        Cause.CONTROL_FLOW,
        ("internalerror", "unavailableerror", "collective ops is aborted"),
    ),
)


def diagnose(one: Run, many: Run, tolerance: float) -> Diagnosis | None:
    """The likely fault of `many`, compared with the reference `one`, or None if they agree.

    Args:
      tolerance: the largest distance of equal numbers.
    """
    if one.error or many.error:
        return None if one.error else _by_error(many)
    rules: Sequence[Callable[[Run, Run, float], Diagnosis | None]]
    rules = (_scope, _steps, _history, compare_examples, _start, compare_steps, _results)
    for rule in rules:
        if found := rule(one, many, tolerance):
            return found
    return None


def _by_error(many: Run) -> Diagnosis:
    text = f"{many.raised} {many.error}".lower()
    found = (cause for cause, words in WORDS if any(word in text for word in words))
    cause = ERRORS.get(many.raised) or next(found, Cause.UNKNOWN)
    return Diagnosis(cause, many.error)


def _scope(one: Run, many: Run, _tolerance: float) -> Diagnosis | None:
    for fit in many.fits():
        if fit["scope"] < many.workers:
            message = _(
                "The model's strategy has {replicas}, but the group has {workers}, so the model "
                "was built outside the scope of a MultiWorkerMirroredStrategy."
            )
            values = {
                "replicas": labels.replicas(fit["scope"]),
                "workers": labels.workers(many.workers),
            }
            return Diagnosis(Cause.SCOPE, message.format(**values))
    return None


def _steps(one: Run, many: Run, _tolerance: float) -> Diagnosis | None:
    fits = [many.fits(worker) for worker in range(many.workers)]
    epochs = [[len(fit["epochs"]) for fit in own] for own in fits]
    steps = [[fit["epochs"] for fit in own] for own in fits]
    if any(own != epochs[0] for own in epochs):
        message = _("The workers ran different calls or epochs of fit ({epochs}).")
        texts = [join_items(map(str, own)) or "–" for own in epochs]
        names = [labels.task(f"worker {worker}") for worker in range(many.workers)]
        text = message.format(epochs=join_clauses(map(labeled, names, texts)))
        return Diagnosis(Cause.CONTROL_FLOW, text)
    if any(own != steps[0] for own in steps):
        message = _("The workers ran different numbers of steps: {steps}.")
        counts = [len(many.all_steps(worker)) for worker in range(many.workers)]
        return Diagnosis(Cause.DATASET_LENGTH, message.format(steps=join_items(map(str, counts))))
    return None


def _history(one: Run, many: Run, tolerance: float) -> Diagnosis | None:
    for alone, together in zip(one.fits(), many.fits(), strict=False):
        epochs = len(together["epochs"])
        if epochs < len(alone["epochs"]) and _agree_before(one, many, tolerance):
            wanted = len(alone["epochs"])
            message = ngettext(
                "The workers agree in all of their steps ({steps}), but fit ended after "
                "{epochs} of {wanted} epoch: something stopped a worker.",
                "The workers agree in all of their steps ({steps}), but fit ended after "
                "{epochs} of {wanted} epochs: something stopped a worker.",
                wanted,
            )
            steps = labels.steps(len(many.all_steps()))
            text = message.format(steps=steps, epochs=epochs, wanted=wanted)
            return Diagnosis(Cause.CONTROL_FLOW, text)
        for name, values in alone["history"].items():
            if len(together["history"].get(name, ())) < len(values):
                message = ngettext(
                    "The history of {name} has {found} of {wanted} value (steps_per_execution="
                    "{steps}).",
                    "The history of {name} has {found} of {wanted} values (steps_per_execution="
                    "{steps}).",
                    len(values),
                )
                found = len(together["history"].get(name, ()))
                steps = together["steps_per_execution"]
                text = message.format(name=name, found=found, wanted=len(values), steps=steps)
                several = steps > 1
                return Diagnosis(
                    Cause.STEPS_PER_EXECUTION if several else Cause.DATASET_LENGTH, text
                )
    return None


def _agree_before(one: Run, many: Run, tolerance: float) -> bool:
    """Whether all steps of the group agree with the steps of one worker."""
    first = first_different_step(one, many, tolerance)
    return first is not None and first >= len(many.all_steps())


def _start(one: Run, many: Run, tolerance: float) -> Diagnosis | None:
    for index, alone in enumerate(one.fits()):
        starts = [many.fits(worker)[index]["initial"] for worker in range(many.workers)]
        if any(start != starts[0] for start in starts):
            names = _different_names(starts[0], next(s for s in starts if s != starts[0]))
            message = (
                _("The workers begin fit {number} with different weights: {names}.")
                if names
                else _("The workers begin fit {number} with different weights.")
            )
            return Diagnosis(Cause.STATE, message.format(number=index + 1, names=names), 0)
        if index == 0 and _far(alone["initial"], starts[0]) > tolerance:
            message = _(
                "The weights start from different values than with one worker. Seed them: "
                "keras.utils.set_random_seed(1)."
            )
            return Diagnosis(Cause.START, message, 0)
    return None


def _results(one: Run, many: Run, tolerance: float) -> Diagnosis | None:
    """A rule for equal steps: results of `evaluate`, `train_on_batch` or the program may differ."""
    wanted = one.quantities()
    for worker in range(many.workers):
        found = many.quantities(worker)
        wrong = [k for k, v in wanted.items() if largest(v, found.get(k, [])) > tolerance]
        if not wrong:
            continue
        weights = _("weights")
        if any(name.startswith(weights) for name in wrong):
            message = _("The weights differ, and no step of fit was recorded.")
            return Diagnosis(Cause.UNKNOWN, message)
        other = _("other variables")
        if any(name.startswith(other) for name in wrong):
            message = _("Worker {worker} has different values of {names} after the last step.")
            return Diagnosis(Cause.STATE, message.format(worker=worker, names=join_items(wrong)))
        message = _("The steps and the weights agree, but not {names}.")
        return Diagnosis(Cause.METRICS, message.format(names=join_items(wrong)))
    return None


def _far(one: Record, other: Record) -> float:
    part = "numbers" if "numbers" in one and "numbers" in other else "norms"
    return max(map(largest, one[part], other[part]))


def _different_names(one: Record, other: Record) -> str:
    found = []
    for part, names in enumerate(one["names"]):
        pairs = zip(names, one["norms"][part], other["norms"][part], strict=False)
        found += [name for name, a, b in pairs if a != b]
    return join_items(found[:3])
