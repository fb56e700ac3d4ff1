"""The same program on one, two and three workers: data, order and state."""

from __future__ import annotations

import functools
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.keras_3.processes import run
from tests.keras_3.selection import in_lanes, selected_names
from tests.support.faults import needs_keras_3

pytestmark = needs_keras_3

EQUAL = (
    "shards_of_ones_own",
    "uneven_shards_of_ones_own",
    "parts_of_very_unequal_length",
    "generator",
    "generator_in_two_epochs",
    "dataset_of_a_generator",
    "py_dataset_of_slices",
    "generator_of_slices",
    "function_of_slices",
    "shuffled_arrays",
    "shuffled_py_dataset",
    "shuffled_dataset",
    "seeded_arrays",
    "moving_mean",
    "moving_mean_of_uneven_parts",
    "counted_steps",
    "stated_aggregation",
    "one_stops_at_an_epochs_end",
    "all_stop_in_an_epoch",
)

KEPT = (
    "uneven_shards_of_ones_own",
    "py_dataset_of_slices",
    "shuffled_dataset",
)

Answers = Mapping[str, Mapping[str, Any]]
ANSWERS = Callable[[int], list[Answers]]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> Callable[[int], list[Answers]]:
    """The results of the selected programs on each worker of a group of this size."""

    @functools.cache
    def found(workers: int) -> list[Answers]:
        given = {} if workers == 1 else {"workers": workers}
        names = selected_names(request, "answers", **given)
        names.sort(key=lambda name: name == "seeded_arrays")  # must be last, because it sets a seed
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / f"answers-{index}" for index in range(workers)]
            arguments = [[str(file), *names] for file in files]
            for code, printed in run("tests.keras_3.data_programs", arguments, Path(folder)):
                assert code == 0, printed[-3000:]
            return [json.loads(file.read_text("utf-8")) for file in files]

    return found


def leaves(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for key in sorted(value.keys() - {"warnings"}):
            yield from leaves(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield float(value)


def apart(one: Any, other: Any) -> float:
    """The largest difference, relative for numbers above 1."""
    mine, others = list(leaves(one)), list(leaves(other))
    if len(mine) != len(others):
        return math.inf
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(mine, others, strict=True))


@pytest.mark.parametrize("workers", in_lanes([2, 3], [2]))
@pytest.mark.parametrize("name", in_lanes(EQUAL, KEPT))
def test_a_program_on_several_workers_computes_what_it_does_on_one(
    name: str, workers: int, answers: ANSWERS
) -> None:
    [alone] = answers(1)
    for answer in answers(workers):
        assert "error" not in answer[name], answer[name]["error"]
        assert apart(answer[name], alone[name]) < 1e-6, answer[name]


@pytest.mark.keras_3
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", ["shards_from_a_function"])
def test_unequal_parts_end_the_epoch_for_all_at_the_step_of_the_longest(
    name: str, workers: int, answers: ANSWERS
) -> None:
    first, *others = [answer[name] for answer in answers(workers)]
    assert all(apart(other, first) == 0 for other in others)
    assert first["steps"] == answers(1)[0][name]["steps"] == 6
    [notice, _again] = [w for w in first["warnings"] if "different numbers of batches" in w]
    assert "worker 0: 3, worker 1: 2" in notice and "The epoch has 3 steps" in notice


@pytest.mark.keras_3
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", ["steps_by_ones_own_length"])
def test_steps_per_epoch_that_differs_is_the_smallest_for_all(
    name: str, workers: int, answers: ANSWERS
) -> None:
    first, *others = [answer[name] for answer in answers(workers)]
    assert all(apart(other, first) == 0 for other in others)
    least = {2: 5, 3: 3}[workers]
    assert first["steps"] == 2 * least
    assert any(f"All workers run {least} steps" in warning for warning in first["warnings"])


@pytest.mark.keras_3
@pytest.mark.parametrize("workers", [3])
@pytest.mark.parametrize("name", ["shuffled_arrays", "shuffled_py_dataset", "shuffled_dataset"])
def test_each_epoch_sees_each_example_once(name: str, workers: int, answers: ANSWERS) -> None:
    found = answers(workers)[0][name]
    times = {key: set(v) for key, v in found.items() if isinstance(v, list) and v}
    assert times and all(len(values) == 1 for values in times.values()), times


@pytest.mark.parametrize("workers", [2])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("moving_mean_of_uneven_parts", "mean is assigned inside a step"),
        pytest.param("stated_aggregation", "", marks=pytest.mark.keras_3),
        ("one_stops_at_an_epochs_end", "stop_training was set on worker 1 only, so all workers"),
        ("own_statistics", "normalizes with the mean and variance of each worker's part"),
    ],
)
def test_what_is_not_as_on_one_worker_is_said_once(
    name: str, expected: str, workers: int, answers: ANSWERS
) -> None:
    for answer in answers(workers):
        found = answer[name]["warnings"]
        assert len(found) == bool(expected) and all(expected in warning for warning in found)
    assert not answers(1)[0][name]["warnings"]
