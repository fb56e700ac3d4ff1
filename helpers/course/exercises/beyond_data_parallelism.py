"""The tasks of lesson 13: bytes per worker, micro-batches, a network split by units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from helpers import labels
from helpers.course.criteria import (
    Criterion,
    Exercise,
    expect,
    hide_last,
    same_shape_and_close,
)
from helpers.i18n import _, gettext_noop, join_items, number

Case = Mapping[str, Any]
TOLERANCE = 1e-4  # of sums in another order, in float32


def _states(answer: Callable[..., Any], case: Case) -> list[float]:
    """The bytes of each group."""
    return [float(answer(**group)) for (group,) in case["groups"]]


def _judge_states(seen: list[float], case: Case, *, sharded: bool) -> None:
    """Judges the groups that share something, or those that do not."""
    for found, (group, wanted) in zip(seen, case["groups"], strict=True):
        if (group["stage"] > 0 and group["workers"] > 1) == sharded:
            expect(
                abs(found - wanted) <= 1e-6 * wanted,
                expected=_("{value}, with {numbers}").format(
                    value=number(wanted, ",.10g"), numbers=dict(group)
                ),
                found=number(found, ",.10g"),
                hint=_(
                    "Which parts does each stage divide, and how many bytes does each part need?"
                ),
            )


def _replicated(seen: list[float], case: Case) -> None:
    _judge_states(seen, case, sharded=False)


def _sharded(seen: list[float], case: Case) -> None:
    _judge_states(seen, case, sharded=True)


def _counts(answer: Callable[..., Any], case: Case) -> list[Any]:
    """The number of micro-batches of each pipeline."""
    return [answer(**pipeline) for (pipeline,) in case["pipelines"]]


def _enough(seen: list[Any], case: Case) -> None:
    for found, (pipeline, wanted) in zip(seen, case["pipelines"], strict=True):
        expect(
            found == wanted and not isinstance(found, bool),
            expected=_("{value}, with {numbers}").format(value=wanted, numbers=dict(pipeline)),
            found=repr(found),
            hint=_("The bubble is (p − 1)/(m + p − 1) of the time. Solve for m, and round up."),
        )


def _split(answer: Callable[..., Any], case: Case) -> list[dict[str, Any]]:
    """The workers' parts of each network, and the results that they compute with them."""
    seen = []
    for inputs, hidden, outputs, workers in case["networks"]:
        x, first, second = _network(inputs, hidden, outputs)
        parts = answer(first.copy(), second.copy(), workers)
        shapes = [[list(np.shape(matrix)) for matrix in part] for part in parts]
        results = [np.maximum(x @ columns, 0) @ rows for columns, rows in parts]
        seen.append({"shapes": shapes, "results": [result.tolist() for result in results]})
    return seen


def _network(inputs: int, hidden: int, outputs: int) -> list[np.ndarray[Any, Any]]:
    """Three examples and the two matrices of a network."""
    random = np.random.default_rng(hidden)
    shapes = (3, inputs), (inputs, hidden), (hidden, outputs)
    return [random.normal(size=shape).astype("float32") for shape in shapes]


def _sums_up(seen: list[dict[str, Any]], case: Case) -> None:
    for one, (inputs, hidden, outputs, workers) in zip(seen, case["networks"], strict=True):
        x, first, second = _network(inputs, hidden, outputs)
        whole = np.maximum(x @ first, 0) @ second
        total = np.sum(np.array(one["results"], "float32"), axis=0)
        expect(
            len(one["results"]) == workers and same_shape_and_close(total, whole, TOLERANCE),
            expected=_("partial results whose sum is the result, from {workers}").format(
                workers=labels.workers(workers)
            ),
            found=_("results from {workers}, and their sum begins with {value}").format(
                workers=labels.workers(len(one["results"])),
                value=number(float(np.ravel(total)[0]), ".4g"),
            ),
            hint=_(
                "ReLU needs finished sums. Which split of the first matrix keeps each sum on one "
                "worker?"
            ),
        )


def _equal_parts(seen: list[dict[str, Any]], case: Case) -> None:
    for one, (inputs, hidden, outputs, workers) in zip(seen, case["networks"], strict=True):
        units = hidden // workers
        wanted = [[inputs, units], [units, outputs]]
        for shapes in one["shapes"]:
            expect(
                shapes == wanted,
                expected=_("matrices of the shapes {shapes}").format(
                    shapes=join_items(map(str, wanted))
                ),
                found=join_items(map(str, shapes)),
                hint=_("Each worker holds an equal part of both matrices."),
            )


EXERCISES = {
    "state_bytes": Exercise(
        _states,
        (
            Criterion(
                2,
                gettext_noop("You count the bytes of the model states if nothing is divided."),
                _replicated,
            ),
            Criterion(2, gettext_noop("You divide what each stage divides."), _sharded),
        ),
        {
            "groups": [
                ({"weights": 1000, "slots": 2, "workers": 1, "stage": 0}, 16_000),
                ({"weights": 1000, "slots": 0, "workers": 8, "stage": 0}, 8_000),
                ({"weights": 1000, "slots": 1, "workers": 1, "stage": 3}, 12_000),
                ({"weights": 1000, "slots": 2, "workers": 4, "stage": 1}, 10_000),
                ({"weights": 1000, "slots": 2, "workers": 4, "stage": 2}, 7_000),
                ({"weights": 1000, "slots": 1, "workers": 2, "stage": 3}, 6_000),
            ]
        },
        visible_case=hide_last("groups"),
    ),
    "micro_batches": Exercise(
        _counts,
        (
            Criterion(
                3,
                gettext_noop(
                    "You return the smallest number of micro-batches whose bubble is small enough."
                ),
                _enough,
            ),
        ),
        {
            "pipelines": [
                ({"workers": 4, "bubble": 0.26}, 9),
                ({"workers": 2, "bubble": 0.11}, 9),
                ({"workers": 8, "bubble": 0.3}, 17),
                ({"workers": 1, "bubble": 0.5}, 1),
            ]
        },
        visible_case=hide_last("pipelines"),
    ),
    "split_layers": Exercise(
        _split,
        (
            Criterion(
                2,
                gettext_noop("The workers' results add up to the result of the network."),
                _sums_up,
            ),
            Criterion(1, gettext_noop("Every worker holds an equal part."), _equal_parts),
        ),
        {"networks": [(5, 8, 6, 2), (4, 12, 7, 3)]},
    ),
}
