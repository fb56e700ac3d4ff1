"""The tasks of lesson 6: a shared accuracy, early stopping, a side-car, an evaluation mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from helpers.cluster.local import LocalCluster
from helpers.course.criteria import Criterion, Exercise, expect, hide_last, join_numbers
from helpers.i18n import _, gettext_noop, join_items, ngettext, number

Case = Mapping[str, Any]
Series = list[tuple[int, float]]  # a step and its accuracy, for each evaluation


def _accuracies(answer: Callable[..., Any], case: Case) -> list[list[float]]:
    """The answer's results in each of two real workers for each pair of parts."""

    def run(context: Any) -> list[float]:
        from helpers.either_keras import tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        own = context.config.task.index
        return [float(answer(strategy, *parts[own])) for parts in case["parts"]]

    with LocalCluster(workers=2) as cluster:
        return cluster.run(run, timeout=60)


def _agree(found: list[list[float]], case: Case) -> None:
    for parts, *each in zip(case["parts"], *found, strict=True):
        expect(
            math.isclose(*each, rel_tol=1e-5),
            expected=_("one number in both workers, when they have {parts} correct").format(
                parts=_fractions(parts)
            ),
            found=join_numbers(each),
            hint=_("Workers that see different numbers do not stop at the same epoch."),
        )
        # Two numbers may agree by chance. Any mean is between the numbers of the workers.
        own = [right / count for right, count in parts]
        _expect_accuracy(each[0], parts, min(own) < each[0] < max(own))


def _of_all(found: list[list[float]], case: Case) -> None:
    for parts, one in zip(case["parts"], found[0], strict=True):
        _expect_accuracy(one, parts, math.isclose(one, _accuracy(parts), rel_tol=1e-5))


def _accuracy(parts: Any) -> float:
    right, count = (sum(numbers) for numbers in zip(*parts, strict=True))
    return right / count


def _expect_accuracy(found: float, parts: Any, holds: bool) -> None:
    expect(
        holds,
        expected=_("{value}, when the workers have {parts} correct").format(
            value=number(_accuracy(parts), ".4g"), parts=_fractions(parts)
        ),
        found=join_numbers([found]),
        hint=_("Does each image count equally, no matter which worker evaluates it?"),
    )


def _fractions(parts: Any) -> str:
    return join_items(f"{right}/{count}" for right, count in parts)


def _ask_after_each(answer: Callable[..., Any], case: Case) -> list[list[Any]]:
    """The answer's results after each evaluation of a series, up to the one that ends it."""
    return [_ask(answer, evaluations, case["patience"]) for (evaluations,) in case["series"]]


def _ask(answer: Callable[..., Any], evaluations: Series, patience: int) -> list[Any]:
    told: list[Any] = []
    for count in range(1, len(evaluations) + 1):
        told.append(answer([tuple(one) for one in evaluations[:count]], patience))
        if told[-1] is not None:
            break
    return told


def _evaluations(seen: list[list[Any]], case: Case) -> Iterator[tuple[Series, Any, int | None]]:
    """For each evaluation up to the end of a series: all so far, the answer, and the best step."""
    for (evaluations, end, best), told in zip(case["series"], seen, strict=True):
        last = [step for step, _accuracy in evaluations].index(end)
        for place in range(last + 1):
            known = [tuple(one) for one in evaluations[: place + 1]]
            yield known, told[place], best if place == last else None


def _stops(seen: list[list[Any]], case: Case) -> None:
    for known, found, right in _evaluations(seen, case):
        expect(
            (found is None) == (right is None),
            expected=(
                _("None after {evaluations}, because training continues")
                if right is None
                else _("the number of a step after {evaluations}, because training stops")
            ).format(evaluations=known),
            found=repr(found),
            hint=ngettext(
                "How many steps ago was the best? The patience is {count} step.",
                "How many steps ago was the best? The patience is {count} steps.",
                case["patience"],
            ).format(count=case["patience"]),
        )


def _keeps(seen: list[list[Any]], case: Case) -> None:
    for known, found, right in _evaluations(seen, case):
        expect(
            found == right,
            expected=_("{step} after {evaluations}").format(step=right, evaluations=known),
            found=repr(found),
            hint=_("Training continued after the checkpoint that you want."),
        )


def _follow(answer: Callable[..., Any], case: Case) -> list[Any]:
    return [answer(list(saved), seconds) for saved, seconds in case["trainings"]]


def _sees(found: list[Any], case: Case) -> None:
    for one, (saved, seconds, right) in zip(found, case["trainings"], strict=True):
        expect(
            isinstance(one, list) and one == right,
            expected=_("{right}, for {saved} and {seconds} s").format(
                right=right, saved=saved, seconds=number(seconds, "g")
            ),
            found=one,
            hint=_("When is the evaluator free again, and which checkpoints exist by then?"),
        )


def _choices(answer: Callable[..., Any], case: Case) -> list[Any]:
    return [answer(**numbers) for (numbers,) in case["situations"]]


def _waits_least(found: list[Any], case: Case) -> None:
    for one, (numbers, right) in zip(found, case["situations"], strict=True):
        expect(
            one == right,
            expected=_("{value}, with {numbers}").format(value=repr(right), numbers=dict(numbers)),
            found=repr(one),
            hint=_("Write down the three waits, and leave out the method that is not allowed."),
        )


def _situation(images: int, workers: int, save_seconds: float, *, late: bool) -> dict[str, Any]:
    return {
        "images": images,
        "rate": 2000,
        "workers": workers,
        "order_seconds": 0.5,
        "save_seconds": save_seconds,
        "may_be_late": late,
    }


EXERCISES = {
    "shared_accuracy": Exercise(
        _accuracies,
        (
            Criterion(1, gettext_noop("All workers see the same number."), _agree),
            Criterion(2, gettext_noop("It is the accuracy on all images."), _of_all),
        ),
        {"parts": [[(30, 40), (5, 10)], [(0, 1), (90, 99)]]},
    ),
    "to_keep": Exercise(
        _ask_after_each,
        (
            Criterion(2, gettext_noop("Training stops when it should."), _stops),
            Criterion(1, gettext_noop("The best checkpoint is kept."), _keeps),
        ),
        {
            "patience": 300,
            "series": [
                # the evaluations, the last step of training, the best step
                (
                    [(100, 0.7), (200, 0.8), (300, 0.79), (400, 0.78), (500, 0.79), (600, 0.9)],
                    500,
                    200,
                ),
                (
                    [(100, 0.8), (200, 0.7), (300, 0.85), (500, 0.84), (550, 0.84), (650, 0.83)],
                    650,
                    300,
                ),
                ([(100, 0.9), (300, 0.9), (450, 0.7)], 450, 100),
            ],
        },
        visible_case=hide_last("series", 2),
    ),
    "evaluated": Exercise(
        _follow,
        (Criterion(2, gettext_noop("You find which checkpoints a side-car evaluates."), _sees),),
        {
            "trainings": [
                # the times of checkpoints, the seconds per evaluation, the evaluated checkpoints
                ([10, 20, 30, 40], 4, [0, 1, 2, 3]),
                ([10, 20, 30, 40, 50], 25, [0, 2, 4]),
                ([10, 20, 60, 61, 62], 15, [0, 1, 2, 4]),
                ([5], 100, [0]),
            ]
        },
        visible_case=hide_last("trainings"),
    ),
    "cheapest": Exercise(
        _choices,
        (Criterion(2, gettext_noop("Training waits as briefly as possible."), _waits_least),),
        {
            "situations": [
                (_situation(10_000, 4, 3.0, late=False), "distributed"),
                (_situation(10_000, 4, 1.0, late=True), "side-car"),
                (_situation(1_000, 4, 2.0, late=True), "direct"),
                (_situation(1_000, 8, 0.1, late=False), "direct"),
                (_situation(10_000, 8, 3.0, late=True), "distributed"),
            ]
        },
        visible_case=hide_last("situations"),
    ),
}
