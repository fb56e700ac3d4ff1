"""The criteria of project 2 without processes: what is compared, and what a message says."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from helpers.course.projects.data_parallel import EXERCISE, HINTS
from helpers.course.projects.data_parallel_expected import (
    MISTAKES,
    compare,
    train_alone,
)
from helpers.course.projects.data_parallel_network import Network
from helpers.course.projects.data_parallel_runs import Job, make_arguments
from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, Reply
from helpers.course.projects.observations import to_data
from tests.projects.criteria import failures_of

OK = Reply(RETURNED, seconds=(0.1,))
VALUE = {"problem": "value", "rank": 1, "layer": 2, "found": 0.25}


def session(replies: Sequence[Reply] = (OK, OK), **call: Any) -> dict[str, Any]:
    """What a right module does, with other replies or values of its only call."""
    made = {"sizes": [[4, 4]], "bucket": 64, "replies": to_data(replies), "deadline": 8.0}
    made |= {"difference": None}
    return {"workers": 2, "opened": to_data([OK, OK]), "calls": [{**made, **call}]}


def overlap(**changed: Any) -> dict[str, Any]:
    counts = {"bucket": 1000, "smaller": 100, "full": 1200, "early": 0, "during": 1200}
    return {"session": session(), **counts, "waits": None, **changed}


def traffic(*step: float) -> dict[str, Any]:
    return {"session": session(), "gradients": 1000, "step": step or [1000, 1010]}


def killed(*replies: Reply, triggered: bool = True) -> dict[str, Any]:
    found = to_data(replies or [Reply(RAISED, "TimeoutError")] * 2)
    return {"session": session(), "timeout": 2.0, "replies": found, "triggered": triggered}


def seen(**changed: Any) -> dict[str, Any]:
    stages = {stage: [session()] for stage in ("pair", "steps", "uneven", "starts")}
    others = {"traffic": traffic(), "overlap": overlap(), "killed": killed()}
    return {**stages, **others, **changed}


failures = functools.partial(failures_of, EXERCISE, EXERCISE.case)


def test_a_right_observation_fulfills_all_criteria_which_are_worth_20_points() -> None:
    assert failures(seen()) == {}
    assert EXERCISE.points == 20


def test_if_two_processes_fail_nothing_else_is_judged() -> None:
    found = failures({"pair": [session([OK, Reply(LATE)])]})
    assert "process 1 was still running after 8 s" in found[0]
    assert {found[place] for place in range(1, 9)} == {
        "skipped: Two processes must train like one worker first."
    }


@pytest.mark.parametrize(
    ("cause", "sizes", "hint"),
    [
        ("mean", [[5, 2], [0, 4]], "a process with more examples must count more"),
        ("start", [[4, 4]], "each process starts with its own weights"),
        ("weighted sum", [[4, 4]], "Divide by the number"),
        ("mean start", [[4, 4]], "start with the mean of their weights"),
        ("mean at the end", [[4, 4]], "each process has trained alone"),
        ("last bucket", [[4, 4]], "Is the last bucket reduced too"),
        ("", [[4, 4]], "Two all-reduces that run at the same time"),
        ("", [[4, 4], [0, 4]], "Some batches are empty"),
    ],
)
def test_wrong_weights_are_shown_with_their_cause(cause: str, sizes: Any, hint: str) -> None:
    found = failures(seen(uneven=[session(sizes=sizes, difference={**VALUE, "cause": cause})]))
    assert list(found) == [2]
    assert "process 1 differs by 0.25, most in layer 2" in found[2]
    assert hint in found[2]


def test_other_differences_are_named() -> None:
    difference = {**VALUE, "found": None, "cause": ""}
    found = failures(seen(starts=[session(difference=difference)]))
    assert "process 1 has weights in layer 2 that are not finite numbers" in found[3]
    bits = {"problem": "bits", "rank": 1, "found": 1e-8}
    found = failures(seen(steps=[session(difference=bits)], uneven=[session(difference=bits)]))
    assert list(found) == [1]
    assert "the weights of process 1 differ from those of process 0 by 1e-08" in found[1]
    shape = {"problem": "array", "rank": 0, "found": "float32[8]"}
    found = failures(seen(starts=[session(difference=shape)]))
    assert "process 0 has float32[8]" in found[3]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ((1049, 1000), ""),
        ((1000, 1051), "process 1 sent 1,051 bytes, 105% of that | Which arrays"),
        ((949, 1000), "process 0 sent 949 bytes, 95% of that | All traffic must go"),
    ],
)
def test_bytes_may_differ_by_five_percent(sent: tuple[int, int], text: str) -> None:
    found = failures(seen(traffic=traffic(*sent)))
    assert (text in found[4]) if text else not found


def test_only_what_is_sent_during_the_backward_pass_can_be_early_or_waited_for() -> None:
    found = failures(seen(overlap=overlap(during=499, early=300, waits={"rank": 0, "layer": 1})))
    assert list(found) == [5, 6, 7]
    assert "all processes together sent only 499 bytes" in found[5]
    assert found[6] == found[7]
    assert found[7] == "skipped: First, gradients must be sent during the backward pass."


def test_each_fault_of_the_overlap_fails_one_criterion() -> None:
    found = failures(seen(overlap=overlap(during=500, early=101)))
    assert list(found) == [6]
    assert "after the smaller gradients, all processes together had sent 101 bytes" in found[6]
    found = failures(seen(overlap=overlap(waits={"rank": 1, "layer": 3})))
    assert list(found) == [7]
    assert "5 s after the gradient of layer 3, process 1 had not asked for the next one" in found[7]
    missing = {"session": session(), "bucket": 1000}
    assert "iterates over network.gradients once" in failures(seen(overlap=missing))[5]


def test_after_a_fault_only_an_error_is_right() -> None:
    error = Reply(RAISED, "ConnectionError")
    for reply, text in (
        (Reply(LATE), "process 2 was still waiting after 8 s | An error in a thread"),
        (OK, "process 2 returned from train"),
        (Reply(DEAD, "bye"), "process 2 ended, and printed bye"),
    ):
        found = failures(seen(killed=killed(error, reply)))
        assert list(found) == [8]
        assert text in found[8]
    found = failures(seen(killed=killed(triggered=False)))
    assert "so it was never killed" in found[8]


JOB = Job((4, 3, 2), [[3, 1], [0, 2]], bucket=30)


def test_the_gradients_are_those_of_the_mean_loss() -> None:
    arguments = make_arguments(JOB, seed=3)[0]
    examples, labels = arguments[2][:3].astype("float64"), arguments[3][:3]
    weights = [array.astype("float64") for array in arguments[4:]]

    def loss() -> float:
        hidden = np.tanh(np.c_[examples, np.ones(3)] @ weights[0])
        scores = np.c_[hidden, np.ones(3)] @ weights[1]
        odds = np.exp(scores)
        shares = odds[range(3), labels] / odds.sum(axis=1)
        return float(-np.log(shares).mean())

    order = []
    for layer, gradient in Network(weights).gradients(examples, labels):
        order.append(layer)
        for place in np.ndindex(gradient.shape):
            before, step = weights[layer][place], 1e-6
            weights[layer][place] = before + step
            above = loss()
            weights[layer][place] = before - step
            below = loss()
            weights[layer][place] = before
            assert gradient[place] == pytest.approx((above - below) / (2 * step), abs=1e-6)
    assert order == [1, 0]


def test_without_examples_all_gradients_are_zero() -> None:
    weights = make_arguments(JOB, seed=3)[0][4:]
    empty = np.zeros((0, 4), "float32"), np.zeros(0, int)
    found = dict(Network(weights).gradients(*empty))
    for layer, gradient in found.items():
        assert gradient.dtype == "float32"
        assert gradient.shape == weights[layer].shape
        assert not gradient.any()


def joined(weights: Sequence[Any]) -> Any:
    return np.concatenate([array.ravel() for array in weights])


def test_rounding_is_no_difference_but_other_bits_are_reported() -> None:
    arguments = make_arguments(JOB, seed=3)
    right = joined(train_alone(arguments))
    assert compare(arguments, [right, right]) is None
    rounded = right + np.float32(4e-7)
    assert compare(arguments, [right, rounded])["problem"] == "bits"  # type: ignore[index]
    wrong = right.copy()
    wrong[-1] += 2e-6
    found = compare(arguments, [right, wrong])
    assert found
    assert (found["problem"], found["rank"], found["layer"]) == ("value", 1, 1)
    assert found["found"] == pytest.approx(2e-6, rel=0.1)
    wrong[0] = np.nan
    assert compare(arguments, [right, wrong])["found"] is None  # type: ignore[index]
    other = Reply(RETURNED, other="list []")
    for result, text in ((right[1:], "float32[22]"), (other, "list []")):
        found = compare(arguments, [right, result])
        assert found == {"problem": "array", "rank": 1, "found": text}


def test_weights_of_training_alone_are_recognized() -> None:
    arguments = make_arguments(JOB, seed=3)
    for rank, own in enumerate(arguments):
        alone = joined(train_alone([own]))
        found = compare(arguments, [alone if rank == 0 else joined(own[4:]), alone])
        assert found
        assert found["cause"] == ("own" if rank == 0 else "")
    assert set(MISTAKES) < set(HINTS)


def test_usual_mistakes_are_recognized_by_their_weights() -> None:
    own = make_arguments(JOB._replace(same_start=False), seed=3)
    starts = [one[4:] for one in own]
    mean = [(one + other) / 2 for one, other in zip(*starts, strict=True)]
    right = joined(train_alone(own))
    found = joined(train_alone([[*one[:4], *mean] for one in own]))
    assert compare(own, [found, right])["cause"] == "mean start"  # type: ignore[index]
    same = make_arguments(JOB, seed=3)
    found = sum(joined(train_alone([one])) for one in same) / 2
    assert compare(same, [found, right])["cause"] == "mean at the end"  # type: ignore[index]
    for bucket, cause in ((30, ""), (50, "last bucket")):  # layer 0 has 36 bytes, layer 1 has 64
        step = make_arguments(Job((2, 3, 4), [[3, 1]], bucket), seed=3)
        found = [step[0][4].ravel(), train_alone(step)[1].ravel()]
        assert compare(step, [np.concatenate(found)] * 2)["cause"] == cause  # type: ignore[index]
