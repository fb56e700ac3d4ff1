"""The criteria of project 3 without processes: what is compared, and what a message says."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from helpers.course.projects.group import LATE, RAISED, RETURNED, Reply
from helpers.course.projects.observations import find_difference, to_data
from helpers.course.projects.sharded_adam import EXERCISE, wanted_memory
from helpers.course.projects.sharded_adam_expected import (
    KIND,
    Settings,
    allowed_difference,
    flat,
    frequent_mistakes,
    make_gradients,
    make_parameters,
    unsharded_adam,
)
from tests.projects.criteria import failures_of

OK = Reply(RETURNED)
SETTINGS = Settings(0.01, 0.9, 0.98, 0.01)
SHAPES = [[1000, 500]]  # 2 MB
METHODS = ("import", "create_optimizer", "step")


def session(
    methods: Sequence[str] = METHODS, replies: Sequence[Reply] = (OK, OK), **changed: Any
) -> dict[str, Any]:
    """What a right module does, with other replies to its last call, or other values."""
    calls = [{"method": method, "replies": to_data([OK, OK])} for method in methods]
    calls[-1]["replies"] = to_data(replies)
    right = {
        "workers": 2,
        "shapes": SHAPES,
        "calls": calls,
        "sent": [[2_000_000, 2_000_000]],
        "difference": None,
        "memory": {"held": [6_000_000, 6_100_000], "peak": [6_300_000, 6_400_000]},
    }
    return {**right, **changed}


def checkpoint(**changed: Any) -> dict[str, Any]:
    error = [Reply(RAISED, "FileNotFoundError"), Reply(LATE)]
    right = {
        "saved": session((*METHODS, "save")),
        "files": 2,
        "bytes": 4_001_000,
        "restored": session(("import", "create_optimizer", "load", "step")),
        "broken": session(("import", "create_optimizer", "load"), error),
    }
    return {**right, **changed}


def seen(**changed: Any) -> dict[str, Any]:
    stages = ("pair", "weights", "lengths", "traffic", "memory")
    right: dict[str, Any] = {stage: [session()] for stage in stages}
    return {**right, "checkpoints": [checkpoint()], **changed}


failures = functools.partial(failures_of, EXERCISE, EXERCISE.case)


def test_a_right_observation_fulfills_all_criteria_which_are_worth_20_points() -> None:
    assert failures(seen()) == {}
    assert EXERCISE.points == 20


def test_if_two_processes_fail_nothing_else_is_judged() -> None:
    found = failures({"pair": [session(replies=[OK, Reply(LATE)])]})
    assert "process 1 was still running after 15 s | Do all processes call the same" in found[0]
    assert {found[place] for place in range(1, 9)} == {
        "skipped: Two processes must compute the right parameters first."
    }


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        ({"problem": "value"}, "it is 0.5 in process 1 | Which elements are wrong"),
        ({"problem": "value", "mistake": "sum"}, "result for the sum of the gradients"),
        ({"problem": "value", "mistake": "copies"}, "flatten() returns a copy"),
        ({"problem": "value", "mistake": "not finite"}, "In the first call of step, t is 1"),
        ({"problem": "value", "mistake": "corrected"}, "as in PyTorch"),
        ({"problem": "value", "mistake": "inside"}, "Add it to the square root of v"),
        ({"problem": "bits"}, "element 7 is 1.5 in process 0, but 0.5 in process 1"),
        ({"problem": "array", "found": "float64[3]"}, "process 1 has float64[3]"),
    ],
)
def test_each_wrong_parameter_is_shown_with_its_place(difference: Any, text: str) -> None:
    at = {"rank": 1, "element": 7, "found": 0.5, "wanted": 1.5}
    found = failures(seen(lengths=[session(difference={**at, **difference})]))
    assert list(found) == [2]
    assert text in found[2]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (2_039_000, ""),  # headers
        (
            2_041_000,
            "process 1 sent 2,041,000 bytes, 102% of that | In a step, each gradient",
        ),
        (1_900_000, "process 1 sent 1,900,000 bytes, 95% of that | All data must go through"),
    ],
)
def test_bytes_may_differ_by_two_percent(sent: int, text: str) -> None:
    found = failures(seen(traffic=[session(sent=[[2_000_000, sent]])]))
    assert (text in found[3]) if text else not found


def test_memory_is_judged_between_and_during_steps() -> None:
    more = {"held": [6_000_000, 6_700_000], "peak": [6_500_000, 6_900_000]}
    found = failures(seen(memory=[session(memory=more)]))
    assert list(found) == [4, 5]
    assert "needs 6.0 MB between two steps" in found[4]
    assert "process 1 needs 6.7 MB, 112% of that | Keep the moments" in found[4]
    assert "process 1 needs 6.9 MB, 115% of that | Temporary arrays" in found[5]
    less = {"held": [4_000_000, 6_000_000], "peak": [6_500_000, 6_500_000]}
    found = failures(seen(memory=[session(memory=less)]))
    assert "67% of that | The moments must be arrays" in found[4]
    unknown = {"held": [None] * 2, "peak": [None] * 2}
    found = failures(seen(memory=[session(memory=unknown)]))
    assert found[4].startswith("skipped: This system does not report")


def test_a_checkpoint_is_judged_by_its_results_its_size_and_a_missing_file() -> None:
    lost = {"rank": 0, "problem": "value", "element": 7, "found": 0.5, "wanted": 1.5}
    restored = session(("load", "step"), difference={**lost, "mistake": "steps"})
    found = failures(seen(checkpoints=[checkpoint(restored=restored)]))
    assert "if load does not restore the number of steps" in found[6]
    assert found[8] == "skipped: The state must be restored first."
    assert list(found) == [6, 8]
    found = failures(seen(checkpoints=[checkpoint(bytes=8_000_000)]))
    assert "at most 4,400,000 bytes" in found[7]
    assert (
        "2 files with 8,000,000 bytes | float32 is enough: a file of float64 is twice as large"
        in found[7]
    )
    resumed = session(("load", "step"), [OK, Reply(LATE)], saved_by=4, sent=[])
    found = failures(seen(checkpoints=[checkpoint(restored=resumed)]))
    assert "step returns in every process (2 processes, after load, saved by 4" in found[6]
    resumed = session(("load", "step"), saved_by=4, sent=[[1, 1]] * 3)
    found = failures(seen(checkpoints=[checkpoint(restored={**resumed, "difference": lost})]))
    assert "(2 processes, 3 steps after load, saved by 4 processes)" in found[6]
    assert list(failures(seen(checkpoints=[checkpoint(files=0, bytes=0)]))) == [7]
    quiet = session(("import", "create_optimizer", "load"))
    found = failures(seen(checkpoints=[checkpoint(broken=quiet)]))
    assert list(found) == [8]
    assert "no process raised an error" in found[8]


def test_a_save_that_fails_is_reported_by_all_criteria_of_checkpoints() -> None:
    replies = [Reply(RAISED, "NotImplementedError"), OK]
    failed = {"saved": session((*METHODS, "save"), replies)}
    found = failures(seen(checkpoints=[failed]))
    assert list(found) == [6, 7, 8]
    assert all("process 0 raised NotImplementedError" in text for text in found.values())


def in_single_precision(start: Any, means: Sequence[Any]) -> Any:
    """Adam with float32, written independently of `unsharded_adam`."""
    p, m, v = start.astype(KIND), np.zeros(len(start), KIND), np.zeros(len(start), KIND)
    for turn, mean in enumerate(means, 1):
        g = mean.astype(KIND)
        m += KIND.type(0.1) * (g - m)
        v += KIND.type(0.02) * (g * g - v)
        p -= (
            KIND.type(0.01 * (1 - 0.98**turn) ** 0.5 / (1 - 0.9**turn))
            * m
            / (np.sqrt(v) + KIND.type(0.01))
        )
    return p


def test_single_precision_is_within_rounding_and_each_mistake_is_not() -> None:
    shapes = [(30, 20), (7,)]
    start = flat(make_parameters(shapes, seed=3))
    steps = [[flat(one) for one in make_gradients(shapes, 3, turn, 3)] for turn in range(10)]
    means = [sum(step) / 3 for step in steps]
    wanted = unsharded_adam(start, means, SETTINGS)
    allowed = allowed_difference(wanted, 10, SETTINGS)
    right = in_single_precision(start, means)
    assert np.max(np.abs(right - wanted) / allowed) < 0.5
    assert find_difference([right, right], wanted, allowed, KIND) is None
    mistakes = list(frequent_mistakes(start, steps, SETTINGS, place=5, restored=4))
    assert [name for name, _value in mistakes] == [
        "steps", "moments", "steps moments", "unchanged", "sum", "bias", "corrected", "inside",
        "local", "local", "local",
    ]  # fmt: skip
    for name, value in mistakes:
        assert abs(value - wanted[5]) > 2 * allowed[5], name


def test_a_restart_with_fewer_processes_leaves_the_local_gradients_of_the_others_out() -> None:
    start = np.zeros(8)
    steps = [[start + turn + rank for rank in range(4 if turn < 3 else 2)] for turn in range(6)]
    mistakes = frequent_mistakes(start, steps, SETTINGS, place=5, restored=3)
    assert [name for name, _value in mistakes].count("local") == 2


def test_what_differs_is_found_with_its_process() -> None:
    wanted, allowed = np.arange(4.0), np.full(4, 1e-3)
    right = wanted.astype(KIND)
    other = right + KIND.type(1e-4)
    for wrong, problem in (
        (right + 1, "value"),
        (other, "bits"),
        (right[:2], "array"),
        (wanted, "array"),
        (Reply(RETURNED, other="NoneType None"), "array"),
        (np.full(4, np.nan, KIND), "value"),
    ):
        found = find_difference([right, wrong], wanted, allowed, KIND)
        assert found and (found["problem"], found["rank"]) == (problem, 1)


def test_the_formula_of_the_memory() -> None:
    assert [wanted_memory(n, 100) for n in (1, 2, 4)] == [400, 300, 250]
