"""When a silent group counts as failed, and which task is named, tested without processes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from helpers.cluster.liveness import LivenessTracker
from helpers.cluster.timeouts import SuspendSafeClock, Timeouts
from helpers.protocol.events import EventType, supervisor_event

TASKS = ["worker 0", "worker 1", "worker 2"]
TIMEOUTS = Timeouts(start=60, heartbeat=5, progress=30)


@dataclass
class FakeClock:
    now: float = 0.0


class Group:
    """A tracker, and the events of a group at the times of a fake clock."""

    def __init__(self, tasks: list[str] = TASKS, timeouts: Timeouts = TIMEOUTS) -> None:
        self.clock = FakeClock()
        self.tracker = LivenessTracker(tasks, timeouts, self.clock)
        self.tasks = tasks

    def send(self, kind: EventType, *tasks: str, at: float, step: int = 0) -> None:
        """Sends an event of each of these tasks, or of all."""
        self.clock.now = at
        for task in tasks or self.tasks:
            self.tracker.observe(task, supervisor_event(kind, task, step=step))

    def check(self, at: float) -> str | None:
        """Returns the reason of the failure at that time."""
        self.clock.now = at
        cause = self.tracker.check()
        assert cause is None or cause.reason.startswith(cause.task)
        return cause and cause.reason


@pytest.fixture
def training() -> Group:
    """All tasks ran step 7 at second 10."""
    group = Group()
    group.send(EventType.READY, at=9)
    group.send(EventType.STEP, at=10, step=7)
    return group


def test_missing_heartbeat_names_the_task_after_the_timeout(training: Group) -> None:
    training.send(EventType.HEARTBEAT, "worker 0", "worker 2", at=14)
    assert training.check(at=15) is None
    reason = training.check(at=15.1)
    assert reason and reason.startswith("worker 1 has not responded for 5 s, at step 7")


def test_connecting_tasks_need_no_heartbeat(training: Group) -> None:
    training.send(EventType.CONNECTING, "worker 1", at=11)
    training.send(EventType.HEARTBEAT, "worker 0", "worker 2", at=25)
    assert training.check(at=25) is None
    training.send(EventType.CONNECTED, "worker 1", at=25)
    training.send(EventType.HEARTBEAT, "worker 0", "worker 2", at=31)
    assert (training.check(at=31) or "").startswith("worker 1 has not responded")


def test_slowdown_multiplies_the_heartbeat_timeout(training: Group) -> None:
    training.tracker.set_slowdown("worker 1", 4)
    training.send(EventType.HEARTBEAT, "worker 0", "worker 2", at=29)
    assert training.check(at=30) is None
    training.send(EventType.HEARTBEAT, "worker 0", "worker 2", at=31)
    assert (training.check(at=31) or "").startswith("worker 1 has not responded for 20 s")


def test_no_heartbeat_timeout_before_the_first_event() -> None:
    assert Group().check(at=59) is None


@pytest.mark.parametrize(
    ("connecting", "suspect"),
    [(["worker 0", "worker 2"], "worker 1"), (["worker 0", "worker 1", "worker 2"], "worker 0")],
)
def test_start_timeout_suspects_the_task_the_others_wait_for(
    connecting: list[str], suspect: str
) -> None:
    group = Group()
    group.send(EventType.CONNECTING, *connecting, at=3)
    assert group.check(at=60) is None
    others = ", ".join(task for task in TASKS if task != suspect)
    expected = f"{suspect} was not ready within 60 s; {others} may only have been waiting for it"
    assert group.check(at=60.1) == expected


def test_start_timeout_suspects_the_task_that_was_silent_first() -> None:
    group = Group(timeouts=Timeouts(60, math.inf, 30))
    group.send(EventType.STARTED, "worker 0", "worker 2", at=20)
    group.send(EventType.STARTED, "worker 1", at=10)
    assert (group.check(at=61) or "").startswith("worker 1 was not ready")


def test_start_timeout_names_the_only_task_that_is_not_ready() -> None:
    group = Group()
    group.send(EventType.READY, "worker 0", "worker 1", at=59)
    assert group.check(at=61) == "worker 2 was not ready within 60 s"


def test_evaluator_may_start_later_than_the_others() -> None:
    group = Group(["worker 0", "evaluator 0"])
    group.send(EventType.READY, "worker 0", at=5)
    group.send(EventType.HEARTBEAT, "worker 0", at=61)
    group.send(EventType.STEP, "worker 0", at=61, step=1)
    assert group.check(at=61) is None
    assert group.tracker.not_ready == []


def test_group_without_progress_fails_although_heartbeats_arrive(training: Group) -> None:
    training.send(EventType.HEARTBEAT, at=40.5)
    training.send(EventType.CONNECTING, "worker 0", at=40.5)
    assert training.check(at=40) is None
    assert training.check(at=40.5) == (
        "worker 1 and its peers have made no progress for 30 s since step 7, "
        "although all processes are alive"
    )


def test_a_group_of_one_has_no_peers() -> None:
    group = Group(["worker 0"])
    group.send(EventType.READY, "worker 0", at=1, step=4)
    group.send(EventType.HEARTBEAT, "worker 0", at=31)
    assert group.check(at=32) == (
        "worker 0 has made no progress for 30 s since step 4, although its process is alive"
    )


def test_without_heartbeats_nothing_is_said_about_living_processes() -> None:
    group = Group(timeouts=Timeouts(60, math.inf, 30))
    group.send(EventType.READY, at=1, step=4)
    assert (
        group.check(at=32) == "worker 0 and its peers have made no progress for 30 s since step 4"
    )


@pytest.mark.parametrize("kind", [EventType.CHECKPOINT, EventType.EVALUATION_PROGRESS])
def test_saving_and_evaluating_count_as_progress(training: Group, kind: EventType) -> None:
    training.send(kind, "worker 0", at=35)
    training.send(EventType.HEARTBEAT, at=60)
    assert training.check(at=60) is None


def test_ended_tasks_are_not_watched(training: Group) -> None:
    training.send(EventType.EXIT, "worker 1", at=11)
    training.send(EventType.HEARTBEAT, "worker 0", "worker 2", at=20)
    assert training.check(at=20) is None
    training.send(EventType.EXIT, "worker 0", "worker 2", at=21)
    assert training.check(at=10_000) is None


def test_reset_gives_a_respawned_task_all_its_timeouts_again(training: Group) -> None:
    training.tracker.set_slowdown("worker 1", 10)
    training.send(EventType.HEARTBEAT, "worker 0", "worker 2", at=30)
    training.tracker.reset("worker 1")
    training.send(EventType.HEARTBEAT, "worker 0", "worker 2", at=35)
    assert training.check(at=35) is None
    assert (training.check(at=35.1) or "").startswith("worker 1 has not responded for 5 s")
    training.send(EventType.HEARTBEAT, at=60)
    assert training.check(at=60) is None
    assert "made no progress" in (training.check(at=60.1) or "")


def test_a_task_respawned_before_it_was_ready_is_not_held_to_the_start_timeout() -> None:
    group = Group()
    group.send(EventType.READY, "worker 0", "worker 2", at=50)
    group.clock.now = 55
    group.tracker.reset("worker 1")
    group.send(EventType.HEARTBEAT, at=60)
    assert group.check(at=61) is None


def test_a_task_that_computes_is_not_late_until_ten_start_timeouts() -> None:
    """Building a large graph takes minutes, during which a task can report nothing else."""
    group = Group()
    for second in range(0, 605, 5):
        group.clock.now = second
        for task in TASKS:
            event = supervisor_event(EventType.HEARTBEAT, task, cpu=second * 0.5)
            group.tracker.observe(task, event)
        assert second > 600 or group.check(at=second) is None
    reason = group.check(at=601)
    assert reason and "was not ready within 60 s" in reason


def test_a_task_that_waits_and_does_not_compute_is_late() -> None:
    group = Group()
    for second in range(0, 61, 5):
        group.clock.now = second
        for task in TASKS:
            event = supervisor_event(EventType.HEARTBEAT, task, cpu=second * 0.05)
            group.tracker.observe(task, event)
    reason = group.check(at=61)
    assert reason and "was not ready within 60 s" in reason


def test_a_debugger_pauses_the_group_until_it_continues_or_ends(training: Group) -> None:
    assert not training.tracker.is_paused
    for end in (EventType.DEBUGGER_CONTINUED, EventType.EXIT):
        training.send(EventType.DEBUGGER_STOPPED, "worker 1", at=11)
        assert training.tracker.is_paused
        training.send(end, "worker 1", at=12)
        assert not training.tracker.is_paused
    training.send(EventType.DEBUGGER_STOPPED, "worker 2", at=13)
    training.tracker.reset("worker 2")
    assert not training.tracker.is_paused
    training.send(EventType.DEBUGGER_STOPPED, "worker 0", at=14)
    training.tracker.remove("worker 0")  # the others continue, so their timeouts count again
    assert not training.tracker.is_paused


def test_a_paused_clock_stands_still() -> None:
    seconds = iter([0.0, 0.5, 9.0, 9.25])
    clock = SuspendSafeClock(lambda: next(seconds))
    clock.tick()
    clock.tick(paused=True)
    clock.tick()
    assert clock.now == 0.75
