"""The criteria of project 6 without processes: what is compared, and what a message says."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.course.projects.fault_injector import Fault, FaultInjector, Plan, Start
from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, Reply
from helpers.course.projects.observations import to_data
from helpers.course.projects.supervised_worker import (
    COMPUTE,
    SAVE,
    START,
    checkpoint_path,
    damage,
    encode_checkpoint,
    final_states,
    initial_state,
    next_state,
    read_checkpoint,
)
from helpers.course.projects.supervisor import EXERCISE, expected_resumes
from helpers.course.projects.supervisor_runs import detection_seconds, expected_faults, plans
from tests.projects.criteria import failures_of
from tests.projects.supervisor_designs import hidden_case, reference

CASE = EXERCISE.case
RESULTS = final_states(CASE["workers"], CASE["steps"], CASE["seed"])


def observation(name: str, **other: Any) -> dict[str, Any]:
    """What a right supervisor does in a run, with other values."""
    plan, restarts = next((p, r) for one, p, r in plans(CASE) if one == name)
    faults = expected_faults(plan, restarts)
    resumes = expected_resumes(plan.faults, CASE["save_every"])
    count = len(faults) + (not plan.always)
    starts = [
        [start, rank, resumes[min(start, len(resumes) - 1)]]
        for start in range(count)
        for rank in range(CASE["workers"])
    ]
    returned = {"results": None if plan.always else RESULTS, "faults": faults}
    found = {"replies": to_data([Reply(RETURNED)]), "returned": returned, "starts": starts}
    return {**found, "left": [], "quiet": 6.5, "port_busy": False, **other}


def seen(**changed: Any) -> dict[str, Any]:
    return {**{name: observation(name) for name, _plan, _restarts in plans(CASE)}, **changed}


failures = functools.partial(failures_of, EXERCISE, CASE)


def returned(results: Any, faults: Any) -> dict[str, Any]:
    return {"returned": {"results": results, "faults": faults}}


def test_a_right_observation_fulfills_all_criteria_which_are_worth_20_points() -> None:
    assert failures(seen()) == {}
    assert EXERCISE.points == 20


def test_if_a_run_without_faults_fails_nothing_else_is_judged() -> None:
    late = observation("undisturbed", replies=to_data([Reply(LATE)]))
    found = failures({"undisturbed": late})
    assert "supervise was still running after 1 start of the group" in found[0]
    assert {found[place] for place in range(1, 9)} == {
        "skipped: A run without faults must return the results first."
    }


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(LATE), "within 6.5 s of the last event (worker 1 is frozen at step 6; worker 2"),
        (Reply(LATE), "still running after 3 starts of the group | A frozen process does not"),
        (
            Reply(RAISED, "KeyError: 1", file="supervisor.py", line=4),
            "raised KeyError: 1 (supervisor.py, line 4) | Start at the line",
        ),
        (Reply(DEAD, "Killed"), "the process of supervise ended, and printed: Killed"),
    ],
)
def test_a_run_that_does_not_return_is_described(reply: Reply, text: str) -> None:
    found = failures(seen(frozen=observation("frozen", replies=to_data([reply]))))
    assert list(found) == [3]
    assert text in found[3]


def test_another_worker_or_kind_fails_one_criterion() -> None:
    wrong = observation("silent", **returned(RESULTS, [[0, "silent"], [0, "silent"]]))
    found = failures(seen(silent=wrong))
    assert list(found) == [4]
    assert "the faults are [(2, 'silent'), (0, 'silent')] (worker 2 hangs at step 7" in found[4]
    assert "supervise returned the faults [(0, 'silent'), (0, 'silent')]" in found[4]
    alarm = observation("slow", **returned(RESULTS, [[1, "frozen"]]))
    found = failures(seen(slow=alarm))
    assert "the faults are [] (slow workers, but no fault)" in found[5]


def test_results_and_restarts_are_judged() -> None:
    faults = [[2, "died"], [0, "died"]]
    found = failures(seen(killed=observation("killed", **returned(RESULTS[::-1], faults))))
    assert f"supervise returned the results {RESULTS[::-1]}" in found[1]
    found = failures(seen(killed=observation("killed", **returned(None, faults))))
    assert "so the group restarts after fault number 2, too. Only fault number 3" in found[1]
    starts = [[start, 0, 0] for start in range(4)]
    found = failures(seen(killed=observation("killed", starts=starts)))
    assert "3 starts of the group (worker 2 is killed" in found[1]
    assert "4 starts of the group" in found[1]
    found = failures(seen(gives_up=observation("gives_up", **returned([1], [[1, "died"]] * 3))))
    assert "the results are None (at every start, worker 1 is killed at step 6)" in found[7]
    found = failures(seen(gives_up=observation("gives_up", **returned(None, [[1, "died"]] * 2))))
    assert "max_restarts is 2 in this run" in found[7]
    assert "The run ends at fault number 3" in found[7]


def test_a_port_in_use_is_named() -> None:
    died = returned(None, [[0, "died"]])
    found = failures(seen(killed=observation("killed", **died, port_busy=True)))
    assert list(found) == [1]
    assert "ended with exit code 4, because its port was in use" in found[1]


def test_a_supervisor_that_never_returns_after_a_fault_earns_nothing_for_leaving_nothing() -> None:
    raised = {"replies": to_data([Reply(RAISED, "KeyError: 1")])}
    runs = {name: observation(name, **raised) for name, plan, _ in plans(CASE) if plan.faults}
    found = failures(seen(**runs))
    assert found[8] == "skipped: A run with a fault must return first."


@pytest.mark.parametrize("value", ["[1, 2]", "null", "'faults'"])
def test_another_result_is_shown(value: str) -> None:
    found = failures(seen(start=observation("start", returned={"other": value})))
    assert f"supervise returned {value}" in found[2]


def test_each_start_resumes_from_the_newest_complete_checkpoint() -> None:
    right = observation("saving")
    for place, resume in ((3, 0), (6, 12), (10, 8)):
        starts = [list(start) for start in right["starts"]]
        starts[place][2] = resume
        found = failures(seen(saving=observation("saving", starts=starts)))
        assert list(found) == [6]
        assert f"start {starts[place][0] + 1} of the group resumes from step" in found[6]
        assert f"worker {starts[place][1]} resumed from step {resume}" in found[6]
    late = observation("saving", starts=starts, replies=to_data([Reply(LATE)]))
    assert "resumed from step 8" in failures(seen(saving=late))[6]


@pytest.mark.parametrize(
    ("left", "text"),
    [
        ({"rank": 1, "problem": "running"}, "worker 1 is still running | Kill all workers"),
        ({"rank": 2, "problem": "zombie"}, "worker 2 is a zombie | Call wait()"),
        ({"port": 4123, "problem": "port"}, "port 4123 still accepts connections"),
    ],
)
def test_what_is_left_fails_one_criterion(left: dict[str, Any], text: str) -> None:
    found = failures(seen(gives_up=observation("gives_up", left=[left])))
    assert list(found) == [8]
    assert text in found[8]


@pytest.mark.parametrize("case", [CASE, {**CASE, **hidden_case()}])
def test_no_fault_happens_while_another_worker_may_still_save(case: Any) -> None:
    for _name, plan, _restarts in plans(case):
        for fault in plan.faults:
            assert fault.phase in (START, SAVE) or (fault.step - 1) % case["save_every"]
            assert fault.phase != SAVE or fault.step % case["save_every"] == 0


def test_the_step_to_resume_from() -> None:
    faults = [
        Fault(0, "killed", START),
        Fault(0, "killed", COMPUTE, 6),
        Fault(1, "killed", SAVE, 8),
        Fault(1, "killed", COMPUTE, 11),
    ]
    assert expected_resumes(faults, 4) == [0, 0, 4, 4, 8]


@pytest.mark.parametrize("how", ["empty", "half", "digit"])
def test_a_damaged_checkpoint_is_detected(how: str, tmp_path: Path) -> None:
    path, content = checkpoint_path(tmp_path, 8, 1), encode_checkpoint(8, 1239)
    path.write_bytes(content)
    assert read_checkpoint(path) == 1239
    path.write_bytes(damage(content, how))
    with pytest.raises(ValueError, match=r"step-8-worker-1.json is damaged"):
        read_checkpoint(path)
    if how == "digit":
        assert json.loads(damage(content, how).split(b"\n")[1]) == {"step": 8, "state": 1230}


def test_the_final_states_depend_on_every_step_and_worker() -> None:
    assert final_states(1, 0, seed=3) == [initial_state(0, 3)]
    assert final_states(2, 3, 1) != final_states(2, 4, 1) != final_states(2, 4, 2)
    assert final_states(3, 2, 1)[:2] != final_states(2, 2, 1)
    assert next_state(1, 10, rank=2) == 31


def test_a_plan_names_one_worker_at_each_start() -> None:
    one, two = Fault(1, "killed", COMPUTE, 2), Fault(0, "frozen", COMPUTE, 3)
    plan = Plan([one, two])
    assert [plan.fault(1, 0), plan.fault(0, 0), plan.fault(0, 1)] == [one, None, two]
    assert plan.fault(0, 2) is None
    assert Plan([one], always=True).fault(1, 5) == one


class Numbered(FaultInjector):
    """An injector without a thread."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.starts = []
        for rank in ranks:
            number = self._number(rank)
            start = Start(rank, number, 0, 0, 0, float(len(self.starts)), connection=None)  # type: ignore[arg-type]
            self.starts.append(start)


@pytest.mark.parametrize(
    ("ranks", "numbers"),
    [
        ([0, 1, 2, 2, 0, 1], [0, 0, 0, 1, 1, 1]),
        ([0, 1, 0, 1, 2], [0, 0, 1, 1, 1]),  # worker 2 never started the first time
        ([0, 1, 1, 1], [0, 0, 1, 2]),
    ],
)
def test_a_worker_that_was_counted_begins_the_next_start(
    ranks: list[int], numbers: list[int]
) -> None:
    assert [start.number for start in Numbered(ranks).starts] == numbers


def test_detection_is_measured_from_the_fault_to_the_next_start() -> None:
    starts = Numbered([0, 1, 1, 0]).starts
    starts[1].fault_at = 1.25
    assert detection_seconds(starts) == [0.75]
    starts[3].fault_at = 5.0  # the last start
    assert detection_seconds(starts) == [0.75]


def test_the_reference_reads_only_what_the_specification_names() -> None:
    assert "helpers" not in reference()
