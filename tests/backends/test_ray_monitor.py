"""When the monitor of a run on Ray aborts an attempt, tested without a running Ray."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.cluster.group_size import GroupSize
from helpers.cluster.liveness import FailureCause
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.cluster.timeouts import Timeouts
from helpers.errors import ClusterError
from helpers.protocol.events import Event, EventType, supervisor_event
from helpers.protocol.stack_dump import ThreadStack

pytestmark = pytest.mark.ray


class FakeQueue:
    """Replaces the actor, and remembers why an attempt was aborted, and its answers to Ray."""

    def __init__(self) -> None:
        self.aborted: list[tuple[int, FailureCause]] = []
        self.sizes: list[tuple[int, int]] = []
        self.abort = SimpleNamespace(remote=lambda *values: self.aborted.append(values))
        self.set_size = SimpleNamespace(remote=lambda *values: self.sizes.append(values))


class FakeCollector:
    """Replaces the collector of stacks, and remembers its calls."""

    def __init__(self) -> None:
        self.found = Stacks()
        self.ended: list[Stacks] = []
        self.attempts: list[int] = []

    def begin(self, _event_queue: Any, attempt: int, tasks: list[str]) -> None:
        self.attempts.append(attempt)

    def end(self, stacks: Stacks) -> None:
        self.ended.append(stacks)

    def collect(self, *, before_kill: bool = False) -> Stacks:
        assert before_kill
        return self.found


def stacks_at(*lines: int) -> Stacks:
    """The stacks of workers that sleep at these lines."""
    found = Stacks()
    for index, line in enumerate(lines):
        frame = ("/home/me/train.py", line, "step")
        task, threads = f"worker {index}", (ThreadStack(True, (frame,)),)
        found[task] = TaskStack(task, WaitsFor.SLEEP, frame, 7, threads)
    return found


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


Monitors = Callable[..., Any]


@pytest.fixture
def make_monitor(queue: FakeQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Monitors:
    """Creates the monitor of a group, by default of two workers that is not elastic."""
    module: Any = importlib.import_module("helpers.backends.ray.monitor")
    tasks: Any = importlib.import_module("helpers.backends.ray.tasks")
    monkeypatch.setattr(module.ray, "get", lambda value: value)
    monkeypatch.setattr(module.ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(module.ray, "available_resources", dict)

    def make(workers: int = 2, min_workers: int | None = None, max_restarts: int = 1) -> Any:
        size = GroupSize(workers, min_workers)
        counts = (workers, size.minimum, False, max_restarts)
        run = tasks.RayRun(tmp_path, *counts, Timeouts(60, 5, 30), "en", 2)
        return module._RunMonitor(run, size, queue, None, FakeCollector())

    return make


@pytest.fixture
def monitor(make_monitor: Monitors) -> Any:
    return make_monitor()


def event(kind: EventType, task: str, **fields: Any) -> Event:
    return supervisor_event(kind, task, attempt=0, **fields)


def start(monitor: Any, *tasks: str) -> None:
    for task in tasks:
        monitor._update(event(EventType.LAUNCHED, task, host="10.0.0.1"))
        monitor._update(event(EventType.STARTED, task))


def at(monitor: Any, seconds: float) -> Callable[[], None]:
    monitor._clock.now = seconds
    return monitor._check_deadlines


def test_group_without_progress_is_aborted_once(monitor: Any, queue: FakeQueue) -> None:
    start(monitor, "worker 0", "worker 1")
    for task in ("worker 0", "worker 1"):
        monitor._update(event(EventType.READY, task, step=7))
    at(monitor, 30)()
    assert queue.aborted == []  # no heartbeats arrive here, and none are missed
    at(monitor, 31)()
    at(monitor, 32)()
    reason = "worker 0 and its peers have made no progress for 30 s since step 7"
    assert queue.aborted == [(0, FailureCause("worker 0", reason))]


def test_late_worker_is_named(monitor: Any, queue: FakeQueue) -> None:
    start(monitor, "worker 0", "worker 1")
    monitor._update(event(EventType.CONNECTING, "worker 0"))
    at(monitor, 61)()
    [(_attempt, cause)] = queue.aborted
    assert cause.reason.startswith("worker 1 was not ready within 60 s; worker 0 may only have")


def test_workers_that_ray_did_not_start_are_an_error(monitor: Any, queue: FakeQueue) -> None:
    start(monitor, "worker 0")
    with pytest.raises(ClusterError, match="Ray did not start 2 workers within 60 s"):
        at(monitor, 61)()
    assert queue.aborted == []


def test_an_aborted_attempt_names_the_line_of_each_worker(monitor: Any, queue: FakeQueue) -> None:
    start(monitor, "worker 0", "worker 1")
    for task in ("worker 0", "worker 1"):
        monitor._update(event(EventType.READY, task, step=7))
    found = monitor._collector.found = stacks_at(12, 17)
    at(monitor, 31)()
    [(_attempt, cause)] = queue.aborted
    assert cause.reason.endswith(
        "; worker 0 sleeps (train.py:12, in step); worker 1 sleeps (train.py:17, in step)"
    )
    failed = {"attempt": 0, "lost": [], "raised": [cause], "stacks": Stacks()}
    restart = monitor._restart(failed)
    assert restart["reason"] == cause.reason
    assert monitor._collector.ended == [found, found], "when it is aborted, and when it has failed"
    assert monitor._collector.attempts == [0], "the next attempt counts after the event"


def test_stacks_that_a_supervisor_collected_before_a_failure_are_kept(monitor: Any) -> None:
    found, cause = stacks_at(12), FailureCause("worker 1", "worker 1 has not responded for 5 s")
    monitor._restart({"attempt": 0, "lost": [], "raised": [cause], "stacks": found})
    assert monitor._collector.ended == [found]


def failure(monitor: Any, task: str, *, lost: bool = False) -> Event:
    """Lets the current attempt fail. Returns the event for the notebook."""
    cause = FailureCause(task, f"{task} ended with signal 9")
    index = int(task.rpartition(" ")[2])
    about = {"lost": [index] if lost else [], "raised": [] if lost else [cause]}
    restart = monitor._restart({"attempt": monitor._attempts, "stacks": Stacks(), **about})
    monitor._begin()
    return dict(restart)


def counted(monitor: Any, slots: int, request: int | None = None) -> list[Event]:
    """Lets Ray count its resources. Returns the events for the notebook."""
    return list(monitor._answer({"slots": slots, "request": request}))


def sizes_of(events: list[Event]) -> list[tuple[int, int, str]]:
    return [(event["previous"], event["workers"], event["reason"]) for event in events]


def test_a_group_begins_with_the_workers_for_which_ray_has_resources(
    make_monitor: Monitors, queue: FakeQueue
) -> None:
    monitor = make_monitor(4, 2)
    assert counted(monitor, 1, request=1) == [] == queue.sizes, "too few, so Ray asks again"
    [resized] = counted(monitor, 3, request=2)
    assert sizes_of([resized]) == [(4, 3, "Ray has resources for 3 workers")]
    assert queue.sizes == [(2, 3)]


def test_a_lost_host_shrinks_the_group_and_its_return_ends_the_attempt_at_a_checkpoint(
    make_monitor: Monitors, queue: FakeQueue
) -> None:
    monitor = make_monitor(3, 1)
    start(monitor, "worker 0", "worker 1", "worker 2")
    monitor._update(event(EventType.RUN_INFO, "worker 0", total_steps=90, global_batch=8))
    monitor._update(event(EventType.STEP, "worker 0", step=7))
    restart = failure(monitor, "worker 2", lost=True)
    assert restart["reason"].startswith("worker 2 was lost at step 7")
    assert counted(monitor, 3, request=1) == [], "Ray has not noticed it yet, and tries in vain"
    assert sizes_of(counted(monitor, 2, request=2)) == [(3, 2, restart["reason"])]
    assert queue.sizes == [(1, 3), (2, 2)]

    assert counted(monitor, 3) == [], "while the group is running"
    for step in (10, 90):
        checkpoint = event(EventType.CHECKPOINT, "worker 0", step=step)
        monitor._check_size(checkpoint)
        assert queue.aborted == [], "of an earlier attempt"
    monitor._update({**event(EventType.STEP, "worker 0", step=20), "attempt": 1})
    monitor._check_size({**checkpoint, "step": 20, "attempt": 1})
    [(attempt, cause)] = queue.aborted
    assert (attempt, cause.reason) == (1, "Ray has resources for 3 workers")
    grown = monitor._restart({"attempt": 1, "lost": [], "raised": [cause], "stacks": Stacks()})
    monitor._begin()
    assert grown["reason"] == cause.reason
    [resized] = counted(monitor, 3, request=3)
    assert (resized["previous"], resized["workers"], resized["step"]) == (2, 3, 20)
    assert resized["attempt"] == 2


def test_no_attempt_is_ended_at_its_last_checkpoint(
    make_monitor: Monitors, queue: FakeQueue
) -> None:
    monitor = make_monitor(2, 1)
    start(monitor, "worker 0", "worker 1")
    monitor._update(event(EventType.RUN_INFO, "worker 0", total_steps=90, global_batch=8))
    monitor._size.request(1)
    monitor._check_size(event(EventType.CHECKPOINT, "worker 0", step=90))
    assert queue.aborted == []
    monitor._check_size(event(EventType.CHECKPOINT, "worker 0", step=80))
    assert [cause.reason for _attempt, cause in queue.aborted] == ["resize(1) was called"]


def test_a_worker_on_ray_that_fails_once_too_often_is_left_out_until_a_machine_joins(
    make_monitor: Monitors,
) -> None:
    monitor = make_monitor(3, 2, max_restarts=1)
    counted(monitor, 3, request=1)
    for request, expected in ((2, []), (3, [(3, 2)]), (4, [])):
        failure(monitor, "worker 1")
        resized = sizes_of(counted(monitor, 3, request))
        assert [sizes[:2] for sizes in resized] == expected
    with pytest.raises(ClusterError, match="max_restarts=1"):
        failure(monitor, "worker 1")
    counted(monitor, 2)
    counted(monitor, 3)
    assert monitor._size.target == 3


def test_a_preempted_worker_on_ray_is_left_out(make_monitor: Monitors) -> None:
    monitor = make_monitor(2, 1, max_restarts=0)
    start(monitor, "worker 0", "worker 1")
    monitor._update(event(EventType.PREEMPTED, "worker 1"))
    peer = FailureCause("worker 0", "another worker was preempted")
    own = FailureCause("worker 1", "worker 1 was preempted (SIGTERM) at step 7")
    restart = monitor._restart(
        {"attempt": 0, "lost": [], "raised": [peer, own], "stacks": Stacks()}
    )
    assert restart["reason"] == own.reason
    monitor._begin()
    assert sizes_of(counted(monitor, 2, request=1)) == [(2, 1, own.reason)]


def test_a_group_that_no_longer_fits_waits_for_the_start_timeout(
    make_monitor: Monitors, queue: FakeQueue
) -> None:
    monitor = make_monitor(4, 2)
    counted(monitor, 4, request=1)
    failure(monitor, "worker 3", lost=True)
    counted(monitor, 1, request=2)
    at(monitor, 60)()
    assert queue.sizes == [(1, 4)]
    with pytest.raises(ClusterError, match="Ray did not start 2 workers within 60 s"):
        at(monitor, 61)()


def test_without_min_workers_a_group_on_ray_keeps_its_size_and_ends_after_its_restarts(
    monitor: Any,
) -> None:
    failure(monitor, "worker 1")
    with pytest.raises(ClusterError, match=r"Ray restarted the group 1 time \(max_restarts=1\)"):
        failure(monitor, "worker 1")
    assert monitor._size.current == 2
