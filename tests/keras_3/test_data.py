"""The same program on one, two and three workers: data, order and state."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.keras_3.processes import run
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
    "counted_steps",
    "stated_aggregation",
    "one_stops_at_an_epochs_end",
    "all_stop_in_an_epoch",
)

Answers = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def answers() -> dict[int, list[Answers]]:
    """What each worker of groups of one, two and three returned."""
    found = {}
    for workers in (1, 2, 3):
        with tempfile.TemporaryDirectory() as name:
            files = [Path(name) / f"answers-{index}" for index in range(workers)]
            arguments = [[str(file)] for file in files]
            for code, printed in run("tests.keras_3.data_programs", arguments, Path(name)):
                assert code == 0, printed[-3000:]
            found[workers] = [json.loads(file.read_text("utf-8")) for file in files]
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
    """The largest difference, in parts of numbers above 1."""
    mine, others = list(leaves(one)), list(leaves(other))
    if len(mine) != len(others):
        return math.inf
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(mine, others, strict=True))


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", EQUAL)
def test_a_program_on_several_workers_computes_what_it_does_on_one(
    name: str, workers: int, answers: dict[int, list[Answers]]
) -> None:
    [alone] = answers[1]
    for answer in answers[workers]:
        assert "error" not in answer[name], answer[name]["error"]
        assert apart(answer[name], alone[name]) < 1e-6, answer[name]


@pytest.mark.parametrize("workers", [2, 3])
def test_unequal_parts_end_the_epoch_for_all_at_the_step_of_the_longest(
    workers: int, answers: dict[int, list[Answers]]
) -> None:
    name = "shards_from_a_function"
    first, *others = [answer[name] for answer in answers[workers]]
    assert all(apart(other, first) == 0 for other in others)
    assert first["steps"] == answers[1][0][name]["steps"] == 6
    [notice, _again] = [w for w in first["warnings"] if "different numbers of batches" in w]
    assert "worker 0: 3, worker 1: 2" in notice and "The epoch has 3 steps" in notice


@pytest.mark.parametrize("workers", [2, 3])
def test_steps_per_epoch_that_differs_is_the_smallest_for_all(
    workers: int, answers: dict[int, list[Answers]]
) -> None:
    first, *others = [answer["steps_by_ones_own_length"] for answer in answers[workers]]
    assert all(apart(other, first) == 0 for other in others)
    least = {2: 5, 3: 3}[workers]
    assert first["steps"] == 2 * least
    assert any(f"All do {least} steps" in warning for warning in first["warnings"])


@pytest.mark.parametrize("name", ["shuffled_arrays", "shuffled_py_dataset", "shuffled_dataset"])
def test_each_epoch_sees_each_example_once(name: str, answers: dict[int, list[Answers]]) -> None:
    times = {key: set(v) for key, v in answers[3][0][name].items() if isinstance(v, list) and v}
    assert times and all(len(found) == 1 for found in times.values()), times


def test_state_that_is_averaged_says_so_unless_the_program_said_how(
    answers: dict[int, list[Answers]],
) -> None:
    found = answers[2][0]
    assert any("mean is assigned inside a step" in w for w in found["moving_mean"]["warnings"])
    assert not found["stated_aggregation"]["warnings"]
    [stop] = found["one_stops_at_an_epochs_end"]["warnings"]
    assert stop.startswith("stop_training was set on worker 1 only, so all workers stop here")
