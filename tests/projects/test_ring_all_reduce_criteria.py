"""The criteria of project 1 without processes: what is compared, and what a message says."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from helpers.course.projects import ring_all_reduce, ring_all_reduce_runs
from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, Reply
from helpers.course.projects.observations import is_right, to_data
from helpers.course.projects.ring_all_reduce import EXERCISE, wanted_bytes
from helpers.course.projects.ring_all_reduce_runs import compare, make_arrays
from tests.projects.criteria import failures_of

SIZE = 1000, "float32"
OK = Reply(RETURNED, seconds=(0.1,))


def session(workers: int = 2, replies: Sequence[Reply] = (), **call: Any) -> dict[str, Any]:
    """What a right module does, with other replies or values of its only call."""
    share = int(wanted_bytes(workers, 4000))
    made = {
        "size": SIZE,
        "replies": to_data(replies or [OK] * workers),
        "sent": [share] * workers,
        "difference": None,
        "connections": workers,
    }
    ends = to_data([OK] * workers)
    calls = [{**made, **call}, made]
    return {"workers": workers, "opened": ends, "calls": calls, "closed": ends}


def fault(*replies: Reply) -> dict[str, Any]:
    found = to_data(replies or [Reply(RAISED, "TimeoutError")] * 3)
    found_by = {"timeout": 2.0, "ranks": [0, 2, 3], "replies": found}
    return {"session": session(4), "triggered": True, **found_by}


def seen(**changed: Any) -> dict[str, Any]:
    stages = ("pair", "sizes", "lengths", "large", "traffic", "repeated")
    faults = {"killed": fault(), "frozen": fault(), "absent": fault()}
    return {**{stage: [session()] for stage in stages}, **faults, **changed}


failures = functools.partial(failures_of, EXERCISE, EXERCISE.case)


def test_a_right_observation_fulfills_all_criteria_which_are_worth_20_points() -> None:
    assert failures(seen()) == {}
    assert EXERCISE.points == 20


def test_if_two_processes_fail_nothing_else_is_judged() -> None:
    late = session(replies=[OK, Reply(LATE)])
    found = failures({"pair": [late]})
    assert "process 1 was still running after 8 s" in found[0]
    assert {found[place] for place in range(1, 8)} == {
        "skipped: Two processes must return the sum first."
    }


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        (
            [OK, Reply(LATE)],
            "all_reduce returns in every process (2 processes, 1,000 float32 numbers",
        ),
        ([Reply(LATE), Reply(RAISED, "ValueError: x")], "process 1 raised ValueError: x"),
        ([Reply(LATE), Reply(DEAD)], "process 1 ended, and printed nothing"),
        ([Reply(DEAD, "Killed"), OK], "process 0 ended, and printed Killed"),
    ],
)
def test_the_cause_is_named_and_not_who_waits_for_it(replies: list[Reply], text: str) -> None:
    found = failures(seen(lengths=[session(replies=replies)]))
    assert list(found) == [2]
    assert text in found[2]


def test_each_wrong_value_is_shown_with_its_place() -> None:
    at = {"rank": 1, "element": 7, "found": 0.5, "wanted": 1.5}
    found = failures(seen(large=[session(difference={"problem": "value", **at})]))
    assert "element 7 is 1.5 (2 processes" in found[3]
    assert "process 1 returned 0.5" in found[3]
    other = {"problem": "array", "rank": 0, "found": "float64[3]"}
    found = failures(seen(large=[session(difference=other)]))
    assert "an array of float32 of length 1000" in found[3]
    found = failures(seen(sizes=[session(difference={"problem": "bits", **at})]))
    assert list(found) == [1]
    assert "element 7 is 1.5 in process 0, but 0.5 in process 1" in found[1]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ([4000, 4000], ""),
        ([4079, 4000], ""),  # headers
        ([4000, 4081], "process 1 sent 4,081 bytes, 102% of that | Divide the array"),
        ([3919, 4000], "process 0 sent 3,919 bytes, 98% of that | No all-reduce can send less"),
        ([0, 4000], "process 0 sent 0 bytes, 0% of that"),
    ],
)
def test_bytes_may_differ_by_two_percent(sent: list[int], text: str) -> None:
    found = failures(seen(traffic=[session(sent=sent)]))
    assert (text in found[4]) if text else not found


def test_new_connections_and_changed_arguments_fail_one_criterion() -> None:
    found = failures(seen(repeated=[session(connections=1)]))
    assert list(found) == [5]
    assert "1 new connection after the first call" in found[5]
    changed = [OK, OK._replace(changed=True)]
    found = failures(seen(repeated=[session(replies=changed)]))
    assert "the argument of process 1 has changed" in found[5]
    hanging = {**session(), "closed": to_data([OK, Reply(LATE)])}
    assert "close returns in every process" in failures(seen(repeated=[hanging]))[5]


def test_after_a_fault_only_an_error_is_right() -> None:
    error = Reply(RAISED, "ConnectionError")
    for reply, text in (
        (Reply(LATE), "process 2 was still waiting after 8 s"),
        (OK, "process 2 returned a result"),
        (Reply(DEAD, "bye"), "process 2 ended, and printed bye"),
    ):
        found = failures(seen(frozen=fault(error, reply, error)))
        assert list(found) == [7]
        assert "within 2 s after process 1 was frozen" in found[7]
        assert text in found[7]
    found = failures(seen(killed={**fault(), "triggered": False}))
    assert "so it was never killed" in found[6]
    found = failures(seen(absent=fault(error, Reply(LATE), error)))
    assert list(found) == [7]
    assert "if process 1 was frozen before it connected" in found[7]
    assert "process 2 was still waiting after 8 s | accept waits forever" in found[7]


def test_an_error_without_a_fault_earns_nothing_for_errors_after_a_fault() -> None:
    fails = session(4, replies=[Reply(RAISED, "TimeoutError")] * 4)
    found = failures(seen(killed={**fault(), "session": fails}))
    assert list(found) == [6]
    assert "process 0 raised TimeoutError" in found[6]


def test_a_sum_within_rounding_in_any_order_is_right() -> None:
    arrays = make_arrays(3, (2000, "float32"), seed=3)
    total = arrays[2] + arrays[0] + arrays[1]
    assert compare(arrays, [total] * 3) is None
    nearly = total.copy()
    nearly[5] *= 1.00001
    found = compare(arrays, [total, nearly, total])
    assert found and (found["problem"], found["rank"], found["element"]) == ("value", 1, 5)
    rounded = arrays[0] + (arrays[1] + arrays[2])
    found = compare(arrays, [total, total, rounded])
    assert found and (found["problem"], found["rank"]) == ("bits", 2)


def test_what_is_no_sum_is_reported() -> None:
    arrays = make_arrays(2, (4, "float64"), seed=0)
    total = arrays[0] + arrays[1]
    for wrong, problem in (
        (total.astype("float32"), "array"),
        (total[:3], "array"),
        (Reply(RETURNED, other="list [1]"), "array"),
        (np.full(4, np.nan), "value"),
    ):
        found = compare(arrays, [total, wrong])
        assert found and (found["problem"], found["rank"]) == (problem, 1)
    empty = make_arrays(2, (0, "float32"), seed=0)
    assert compare(empty, empty) is None


class FakeGroup:
    """Two processes that add, except in the turns after `until`."""

    def __init__(self, until: int) -> None:
        self.members, self.relay = [None, None], self
        self.connections, self.sent = 2, [0, 0]
        self._turn, self._until = 0, until

    def open(self, seconds: float) -> list[Reply]:
        return [OK, OK]

    def put(self, arguments: Any) -> None:
        self._arrays = [array for [array] in arguments]

    def call(self, method: str, seconds: float) -> list[Reply]:
        self._turn += 1
        self.sent = [sent + 10 for sent in self.sent]
        return [OK, OK] if self._turn <= self._until else [OK, Reply(LATE)]

    def fetch(self) -> list[Any]:
        return [sum(self._arrays)] * 2


def test_calls_end_at_the_first_failure_and_each_has_its_own_bytes() -> None:
    group: Any = FakeGroup(until=2)
    calls = ring_all_reduce_runs.observe_calls(group, [SIZE] * 5, seed=0)["calls"]
    assert [call["sent"] for call in calls] == [[10, 10]] * 3
    assert [is_right(call) for call in calls] == [True, True, False]


def test_the_formula_of_the_ring() -> None:
    assert [ring_all_reduce.wanted_bytes(n, 100) for n in (1, 2, 4)] == [0, 100, 150]
