"""The criteria of project 5 without processes: what is compared, and what a message says."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, Reply
from helpers.course.projects.observations import to_data
from helpers.course.projects.parameter_server import EXERCISE
from helpers.course.projects.parameter_server_updates import Descent, Updates
from tests.projects.criteria import failures_of

OK = Reply(RETURNED)
SINGLE, LOST, CONSISTENT, BYTES, BOUND, AHEAD, BITS, WORKER, SERVER = range(9)


def pull(by: int, at: int, *steps: int) -> dict[str, Any]:
    return {"by": by, "at": at, "problem": "", "steps": list(steps)}


def session(*pulls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What a right module does with two workers and a bound of 1, with other values."""
    return {
        "workers": 2,
        "bound": 1,
        "opened": to_data([OK] * 3),
        "failure": None,
        "changed": False,
        "pulls": list(pulls) or [pull(1, 1, 1, 0), pull(2, 0, 2, 0)],
        "steps": 2,
        "size": 1000,
        "sent": [4000, 2000, 2000],
        "final": {"problem": "", "steps": [2, 2]},
        "slow": 2,
        "rounds": [{"slow": 0, "steps": [2, -1]}, {"slow": 1, "steps": [3, -1]}],
        **more,
    }


def failure(reply: Reply, rank: int = 1, method: str = "pull", printed: str = "") -> dict[str, Any]:
    call = {"rank": rank, "method": method, "step": 1, "printed": printed}
    return session(failure={**call, "reply": reply._asdict()})


def seen(**changed: Any) -> dict[str, Any]:
    stages = ("single", "concurrent", "slow_pull", "slow_push", "stragglers")
    return {
        **{stage: [session()] for stage in stages},
        "synchronous": [session({"by": 1, "at": 0, "problem": ""}, final={"problem": ""})],
        "dead_worker": [session(victim=2, triggered=True)],
        "dead_server": [session(replies=to_data([Reply(RAISED, "ConnectionError")]))],
        **changed,
    }


failures = functools.partial(failures_of, EXERCISE, EXERCISE.case)


def test_a_right_observation_fulfills_all_criteria_which_are_worth_20_points() -> None:
    assert failures(seen()) == {}
    assert EXERCISE.points == 20


def test_if_a_single_worker_fails_nothing_else_is_judged() -> None:
    found = failures({"single": [failure(Reply(LATE))]})
    assert "process 1 was still in pull after 8 s" in found[SINGLE]
    assert {found[place] for place in range(1, 9)} == {"skipped: A single worker must train first."}


@pytest.mark.parametrize(("at", "fails"), [(1, False), (2, True)])
def test_a_pull_may_miss_as_many_steps_as_the_bound(at: int, fails: bool) -> None:
    found = failures(seen(stragglers=[session(pull(1, at, at, 0))]))
    assert list(found) == ([BOUND] if fails else [])
    if fails:
        assert "at most 1 step of each worker (2 workers, bound 1)" in found[BOUND]
        assert "worker 1 pulled in step 2, without step 0 of worker 2" in found[BOUND]


def test_the_others_must_run_ahead_by_the_whole_bound() -> None:
    rounds = [{"slow": 0, "steps": [2, -1]}, {"slow": 1, "steps": [2, -1]}]
    found = failures(seen(stragglers=[session(rounds=rounds)]))
    assert list(found) == [AHEAD]
    assert "while worker 2 has completed 1 step, the others complete 3" in found[AHEAD]
    assert "worker 1 has completed only 2, and is waiting" in found[AHEAD]


def test_a_missing_push_and_a_missing_own_push_are_told_apart() -> None:
    found = failures(seen(concurrent=[session(final={"problem": "", "steps": [2, 1]})]))
    assert list(found) == [LOST]
    assert "push 1 of worker 2 is missing" in found[LOST]
    found = failures(seen(concurrent=[session(pull(1, 1, 0, 1))]))
    assert list(found) == [CONSISTENT]
    assert "the pull of worker 1 contains 0 pushes of worker 1" in found[CONSISTENT]


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (
            {"problem": "torn", "with": 7, "without": 0},
            "7 contains push 1 of worker 2, but element 0",
        ),
        ({"problem": "factor", "factor": 2.0}, "push 1 of worker 2 is added with the factor 2"),
        ({"problem": "gap"}, "push 1 of worker 2 is missing, but a later one is there"),
        ({"problem": "array", "found": "None"}, "of worker 1 in step 3 is None"),
    ],
)
def test_what_a_pull_must_not_contain_is_named(broken: dict[str, Any], text: str) -> None:
    wrong = {"by": 1, "at": 3, "rank": 2, "step": 1, **broken}
    found = failures(seen(slow_pull=[session(wrong)]))
    assert list(found) == [CONSISTENT]
    assert text in found[CONSISTENT]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ([4079, 2039, 2000], ""),
        ([4000, 2041, 2000], "process 1 sent 2,041 bytes, 102% of that | Does the server"),
        ([0, 2000, 2000], "process 0 sent 0 bytes, 0% of that | Send each array"),
    ],
)
def test_bytes_may_differ_by_two_percent(sent: list[int], text: str) -> None:
    found = failures(seen(concurrent=[session(sent=sent)]))
    assert (text in found[BYTES]) if text else not found


def test_a_rounding_and_another_value_get_different_hints() -> None:
    for problem, hint in (
        ("bits", "in the order of the ranks"),
        ("value", "none of the same step"),
    ):
        wrong = {"by": 1, "at": 2, "problem": problem, "element": 3, "wanted": 0.5, "found": 0.75}
        found = failures(seen(synchronous=[session(wrong)]))
        assert list(found) == [BITS]
        assert "element 3 is 0.5" in found[BITS]
        assert "worker 1 pulled 0.75 in step 2" in found[BITS]
        assert hint in found[BITS]


def test_after_a_fault_the_others_continue_and_a_dead_server_is_an_error() -> None:
    waits = {**failure(Reply(LATE)), "victim": 2, "triggered": True}
    found = failures(seen(dead_worker=[waits]))
    assert "the others continue after worker 2 was killed" in found[WORKER]
    assert "process 1 was still in pull" in found[WORKER]
    found = failures(seen(dead_worker=[session(victim=2, triggered=False)]))
    assert "so it was never killed" in found[WORKER]
    for reply, text in (
        (OK, "already returned"),
        (Reply(LATE), "still in"),
        (Reply(DEAD), "ended"),
    ):
        found = failures(seen(dead_server=[session(replies=to_data([reply]))]))
        assert list(found) == [SERVER]
        assert text in found[SERVER]


def test_what_the_server_printed_is_part_of_the_message() -> None:
    broken = failure(Reply(RAISED, "ConnectionError"), printed="AttributeError: peding")
    found = failures(seen(concurrent=[broken]))
    assert "and process 0 printed AttributeError: peding" in found[LOST]


def test_parameters_show_which_pushes_they_contain() -> None:
    updates = Updates(2, 3, 50, "float32", seed=1)
    initial, column = updates.initial, updates.update
    assert updates.read(0, 0, initial)["steps"] == [0, 0]
    both = initial + column(1, 0, None) + column(2, 0, None) + column(2, 1, None)
    assert updates.read(0, 0, both) == {"problem": "", "steps": [1, 2]}
    assert updates.read(0, 0, both + column(2, 1, None))["factor"] == 2
    gap = updates.read(0, 0, initial + column(1, 1, None))
    assert (gap["problem"], gap["rank"], gap["step"]) == ("gap", 1, 0)
    torn = both.copy()
    torn[:25] = initial[:25]
    found = updates.read(0, 0, torn)
    assert (found["problem"], found["without"]) == ("torn", 3)
    assert found["with"] >= 25
    assert updates.read(0, 0, both.astype("float64"))["problem"] == "array"
    assert updates.read(0, 0, Reply(RETURNED, other="None"))["problem"] == "array"


def test_the_synchronous_loop_depends_on_the_order_of_the_updates() -> None:
    descent = Descent(3, 2, 1000, "float32", seed=1)
    start = descent.initial
    first, second, third = (descent.update(rank, 0, start) for rank in (1, 2, 3))
    assert descent.read(1, 1, start + first + second + third)["problem"] == ""
    assert descent.read(1, 1, start + third + second + first)["problem"] == "bits"
    assert descent.read(1, 1, start + first + second)["problem"] == "value"
    assert descent.read(1, 1, np.zeros(3))["problem"] == "array"
