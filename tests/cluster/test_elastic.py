"""Groups that shrink and grow: the decisions of the supervisor, without processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.group_size import GroupSize, check_elastic
from helpers.errors import ClusterError, ConfigError
from helpers.protocol.events import Event, EventType
from helpers.results.training_result import TrainingResult
from helpers.strategies import MIRRORED
from helpers.tf_config import build_tf_configs
from tests.support.fake_cluster import FakeProcess
from tests.support.fake_worker import step
from tests.support.scripted_group import (
    Launcher,
    clock,
    events_of,
    finish,
    is_last_launch,
    kinds,
)

__all__ = ["clock"]  # a fixture

Sizes = list[tuple[int, int, int]]


def sizes_of(events: list[Event]) -> Sizes:
    """Each change of the size: the step, the number before it and after it."""
    resized = [event for event in events if event["event"] == EventType.GROUP_RESIZED]
    return [(event["step"], event["previous"], event["workers"]) for event in resized]


def at_each_start(launcher: Launcher, *actions: Callable[[], None]) -> Callable[[Event], None]:
    """Calls one action at the start of each attempt, and ends the workers of the last one."""
    left = list(actions)

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            for process in launcher.processes:
                process.send(EventType.READY, step=0)
                step(process, 10 * len(launcher.attempts))
            if left:
                left.pop(0)()
            else:
                finish(launcher)

    return react


@pytest.mark.usefixtures("clock")
def test_a_worker_that_fails_once_too_often_is_left_out() -> None:
    launcher = Launcher(workers=3, min_workers=2)

    def kill() -> None:
        launcher.processes[1].end(-signal.SIGKILL)

    events = events_of(launcher, at_each_start(launcher, kill, kill), max_restarts=1)
    assert [len(attempt) for attempt in launcher.attempts] == [3, 3, 2]
    assert sizes_of(events) == [(20, 3, 2)]
    result = TrainingResult.for_run("MultiWorkerMirroredStrategy", 3, "RING")
    for event in events:
        result.add(event)
    [resize] = result.resizes
    assert str(resize).startswith("from 3 to 2 workers at step 20: worker 1 ended with signal 9")
    assert str(resize) in repr(result)
    assert "from 3 to 2 workers at step 20" in repr(result.fault_log)


@pytest.mark.usefixtures("clock")
def test_a_smaller_group_has_all_its_restarts_again_and_ends_at_its_minimum() -> None:
    launcher = Launcher(workers=3, min_workers=2)

    def kill() -> None:
        launcher.processes[0].end(-signal.SIGKILL)

    with pytest.raises(ClusterError, match="max_restarts=1"):
        events_of(launcher, at_each_start(launcher, *[kill] * 9), max_restarts=1)
    assert [len(attempt) for attempt in launcher.attempts] == [3, 3, 2, 2]


@pytest.mark.usefixtures("clock")
def test_a_lost_machine_costs_no_restart_and_its_return_is_used_at_a_checkpoint() -> None:
    launcher = Launcher(workers=3, min_workers=2)

    def lose() -> None:
        launcher.size.lose_slot("worker 1")
        launcher.processes[1].end(-signal.SIGKILL)

    def give_back() -> None:
        launcher.size.return_slot("worker 1")
        launcher.processes[0].send(EventType.CHECKPOINT, step=25)

    events = events_of(launcher, at_each_start(launcher, lose, give_back), max_restarts=0)
    assert sizes_of(events) == [(10, 3, 2), (20, 2, 3)]
    reasons = [event["reason"] for event in events if event["event"] == EventType.GROUP_RESTART]
    assert reasons[1] == "the machine of worker 1 is available again"


@pytest.mark.usefixtures("clock")
def test_a_requested_size_waits_for_a_checkpoint_that_is_not_the_last() -> None:
    launcher = Launcher(workers=3, min_workers=1)

    def resize() -> None:
        launcher.size.request(1)
        launcher.processes[0].send(EventType.CHECKPOINT, step=11)

    def resize_late() -> None:
        launcher.size.request(3)
        [only] = launcher.processes
        only.send(EventType.RUN_INFO, total_steps=30, global_batch=8)
        only.send(EventType.CHECKPOINT, step=30)
        only.end()

    events = events_of(launcher, at_each_start(launcher, resize, resize_late))
    assert sizes_of(events) == [(10, 3, 1)]
    assert [event["reason"] for event in events if event["event"] == EventType.GROUP_RESTART] == [
        "resize(1) was called"
    ]


@pytest.mark.usefixtures("clock")
def test_without_min_workers_a_lost_machine_ends_the_run() -> None:
    launcher = Launcher(workers=2)

    def lose() -> None:
        launcher.size.lose_slot("worker 0")
        launcher.processes[0].end(-signal.SIGKILL)

    with pytest.raises(ClusterError, match="1 machine is available, and the group needs at least"):
        events_of(launcher, at_each_start(launcher, lose))


@pytest.mark.usefixtures("clock")
def test_too_few_machines_are_waited_for() -> None:
    launcher = Launcher(workers=3, min_workers=2)

    def lose_two() -> None:
        launcher.size.lose_slot("worker 1")
        launcher.size.lose_slot("worker 2")
        launcher.processes[2].end(-signal.SIGKILL)

    on_start = at_each_start(launcher, lose_two)

    def react(event: Event) -> None:
        on_start(event)
        if event["event"] == EventType.GROUP_RESTART:
            assert not launcher.size.is_possible
            launcher.size.return_slot("worker 1")

    assert sizes_of(events_of(launcher, react)) == [(10, 3, 2)]


def preempt(launcher: Launcher, index: int) -> None:
    """Lets a worker leave, after a peer that saved with it."""
    launcher.processes[index].send(EventType.PREEMPTED)
    error = {"retryable": True, "type": "SystemExit", "message": "", "frames": []}
    for process in reversed(launcher.processes):
        process.send(EventType.ERROR, **error, error_class=None)
        process.end(138)


@pytest.mark.parametrize(("min_workers", "sizes"), [(1, [3, 2]), (None, [3, 3])])
@pytest.mark.usefixtures("clock")
def test_a_preempted_worker_is_left_out_if_the_group_may_shrink(
    min_workers: int | None, sizes: list[int]
) -> None:
    launcher = Launcher(workers=3, min_workers=min_workers)
    events = events_of(
        launcher, at_each_start(launcher, lambda: preempt(launcher, 0)), max_restarts=1
    )
    assert [len(attempt) for attempt in launcher.attempts] == sizes
    [restart] = [event for event in events if event["event"] == EventType.GROUP_RESTART]
    assert restart["reason"] == "worker 0 was preempted (SIGTERM) at step 10"


def test_a_preempted_and_a_lost_machine_are_two_until_a_resize() -> None:
    size = GroupSize(4, 1)
    assert size.exclude_worker()
    size.lose_slot("worker 0")
    assert size.target == 2
    size.request(4)
    assert size.target == 3
    size.return_slot("worker 0")
    assert size.target == 4


def test_only_a_worker_has_a_machine_that_can_be_lost() -> None:
    configs = build_tf_configs(
        [f"127.0.0.1:{port}" for port in range(2000, 2004)], chief=True, ps=1
    )
    processes: list[Any] = [FakeProcess(config) for config in configs]
    tasks = [str(config.task) for config in configs]
    injector, size = FaultInjector(tasks), GroupSize(2, 1)
    injector.set_processes(lambda: processes)
    injector.attach(tasks, size)
    for task in ("chief 0", "ps 0"):
        refused = f"'node_loss' can be injected only into a worker, not into {task}"
        with pytest.raises(ConfigError, match=refused):
            injector.inject("node_loss", task, {})
    assert not any(process.signals for process in processes)
    injector.inject("node_loss", "worker 1", {})
    lost = processes[tasks.index("worker 1")]
    assert (size.target, lost.signals) == (1, [signal.SIGKILL])
    injector.clear("node_loss", "worker 1")
    assert size.target == 2


@pytest.mark.usefixtures("clock")
def test_with_parameter_servers_a_worker_leaves_and_returns_without_a_restart() -> None:
    launcher = Launcher(workers=2, ps=1, min_workers=1)

    def lose() -> None:
        launcher.size.lose_slot("worker 1")
        launcher.processes[2].end(-signal.SIGKILL)

    def react(event: Event) -> None:
        on_start(event)
        if event["event"] == EventType.GROUP_RESIZED and event["workers"] == 1:
            launcher.size.return_slot("worker 1")
        elif event["event"] == EventType.GROUP_RESIZED:
            finish(launcher)

    on_start = at_each_start(launcher, lose)
    events = events_of(launcher, react, max_restarts=0)
    assert sizes_of(events) == [(10, 2, 1), (10, 1, 2)]
    assert len(launcher.attempts) == 1
    assert ("exit", "worker 1") in kinds(events)


@pytest.mark.parametrize(
    ("min_workers", "workers", "message"),
    [
        (2, 1, "min_workers=2 and at most workers=4"),
        (2, 5, "min_workers=2 and at most workers=4"),
        (None, 3, "always has 4 workers"),
        (2, 2.5, "whole number"),
    ],
)
def test_a_size_that_is_impossible_is_rejected(
    min_workers: int | None, workers: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        GroupSize(4, min_workers).request(workers)


@pytest.mark.parametrize(
    ("min_workers", "strategy", "message"),
    [
        (3, "MultiWorkerMirroredStrategy", "greater than workers=2"),
        (0, "MultiWorkerMirroredStrategy", "at least 1"),
        (1, MIRRORED, "several processes"),
    ],
)
def test_min_workers_is_checked(min_workers: int, strategy: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_elastic(min_workers, 2, strategy)
