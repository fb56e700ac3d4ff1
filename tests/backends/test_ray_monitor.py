"""When the monitor of a run on Ray aborts an attempt, tested without a running Ray."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster.liveness import FailureCause
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.cluster.timeouts import Timeouts
from helpers.errors import ClusterError
from helpers.protocol.events import Event, EventType, supervisor_event
from helpers.protocol.stack_dump import ThreadStack

pytestmark = pytest.mark.ray


class FakeQueue:
    """Replaces the actor, and remembers why an attempt was aborted."""

    def __init__(self) -> None:
        self.aborted: list[tuple[int, FailureCause]] = []
        self.abort = self

    def remote(self, attempt: int, cause: FailureCause) -> None:
        self.aborted.append((attempt, cause))


class FakeCollector:
    """Replaces the collector of stacks, and remembers its calls."""

    def __init__(self) -> None:
        self.found = Stacks()
        self.ended: list[Stacks] = []
        self.attempts: list[int] = []

    def begin(self, _event_queue: Any, attempt: int) -> None:
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


@pytest.fixture
def monitor(queue: FakeQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = importlib.import_module("helpers.backends.ray.monitor")
    tasks: Any = importlib.import_module("helpers.backends.ray.tasks")
    monkeypatch.setattr(module.ray, "get", lambda value: value)
    monkeypatch.setattr(module.ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(module.ray, "available_resources", dict)
    run = tasks.RayRun(tmp_path, 2, False, 1, Timeouts(60, 5, 30), "en", 2)
    return module._RunMonitor(run, queue, None, FakeCollector())


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
