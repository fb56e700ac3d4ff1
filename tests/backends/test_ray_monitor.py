"""When the monitor of a run on Ray aborts an attempt, tested without a running Ray."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster.liveness import FailureCause
from helpers.cluster.timeouts import Timeouts
from helpers.errors import ClusterError
from helpers.protocol.events import Event, EventType, supervisor_event

pytestmark = pytest.mark.ray


class FakeQueue:
    """Replaces the actor, and remembers why an attempt was aborted."""

    def __init__(self) -> None:
        self.aborted: list[tuple[int, FailureCause]] = []
        self.abort = self

    def remote(self, attempt: int, cause: FailureCause) -> None:
        self.aborted.append((attempt, cause))


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
    return module._RunMonitor(run, queue, None)


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
