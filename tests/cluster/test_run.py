"""`LocalCluster.run`: any function, in every worker or in a coordinator."""

from __future__ import annotations

import functools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from helpers import LocalCluster
from helpers.cluster import processes
from helpers.errors import ClusterError, ConfigError, UserCodeError
from helpers.system import machine


@dataclass
class Report:
    """What a function returns."""

    task: str
    arrays: dict[int, Any]


def test_values_of_any_type_come_back_in_order_and_their_files_are_deleted() -> None:
    def measure(context: Any) -> tuple[Report, set[str]]:
        arrays = {1: np.arange(3), 2: tf.constant([1.5, 2.5])}
        return Report(str(context.config.task), arrays), {"nothing"}

    seen: list[Any] = []
    with LocalCluster(workers=2) as cluster:
        values = cluster.run(measure, on_event=seen.append)
        left = [path.name for path in cluster._folder.rglob("*.pickle")]  # type: ignore[union-attr]
    assert [report.task for report, _rest in values] == ["worker 0", "worker 1"]
    report, rest = values[0]
    assert type(report) is Report
    assert report.arrays[1].tolist() == [0, 1, 2]
    assert type(report.arrays[2]) is np.ndarray
    assert rest == {"nothing"}
    assert {id(e["value"]) for e in seen if e["event"] == "result"} == {*map(id, values)}
    assert left == []


def test_a_function_gets_the_arguments_after_its_context() -> None:
    def scaled(context: Any, rate: float, *, offset: int = 0) -> float:
        return float(rate * context.config.task.index + offset)

    with LocalCluster(workers=2) as cluster:
        assert cluster.run(scaled, 0.5, offset=2) == [2.0, 2.5]


def test_a_function_without_an_argument_finds_its_peers_through_tf_config() -> None:
    def add_up() -> float:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        values = strategy.run(lambda: tf.constant(1.5))
        return float(strategy.reduce("SUM", values, axis=None))

    with LocalCluster(workers=3) as cluster:
        assert cluster.run(add_up) == [4.5, 4.5, 4.5]


def test_every_worker_sees_gpus_of_its_own_and_no_other_task_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        (tmp_path / f"nvidia{number}").touch()
    monkeypatch.setattr(machine, "NVIDIA", str(tmp_path / "nvidia[0-9]*"))
    monkeypatch.setattr(processes, "can_fork", lambda: False)  # as with a real driver

    def seen() -> str | None:
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    with LocalCluster(workers=2) as cluster:
        assert cluster.run(seen) == ["0", "1"]
    with LocalCluster(workers=1, ps=1) as cluster:
        assert cluster.run(seen) == [""]  # in the coordinator


def test_a_coordinator_schedules_steps_on_real_workers() -> None:
    def schedule() -> list[Any]:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            total = tf.Variable(0)
        step = tf.function(lambda: total.assign_add(1))
        for _ in range(10):
            coordinator.schedule(step)
        coordinator.join()
        return [int(total.numpy()), total.device]

    tasks = set()
    with LocalCluster(workers=2, ps=1) as cluster:
        values = cluster.run(schedule, on_event=lambda event: tasks.add(event.get("task")))
    assert values == [[10, "/job:ps/replica:0/task:0/device:CPU:0"]]
    assert tasks == {"chief 0", "worker 0", "worker 1", "ps 0"}


def test_an_evaluator_works_beside_the_others(tmp_path: Path) -> None:
    def write(context: Any) -> str:
        (tmp_path / str(context.config.task.index)).touch()
        return "trained"

    def wait(context: Any) -> str:
        while len(list(tmp_path.iterdir())) < 2:
            context.report("evaluation_progress")
        return str(context.config.task)

    with LocalCluster(workers=2) as cluster:
        assert cluster.run(write, evaluator_fn=wait) == ["trained", "trained", "evaluator 0"]


def test_after_a_restart_only_the_new_values_count(tmp_path: Path) -> None:
    def die_once(context: Any) -> int:
        if context.config.task.index == 1 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return len(list(tmp_path.iterdir()))

    with LocalCluster(workers=2) as cluster:
        assert cluster.run(die_once)[1] == 1


def test_a_function_that_never_returns_is_ended_at_its_timeout() -> None:
    def wait_for_ever() -> None:
        while True:
            signal.pause()

    with (
        LocalCluster(workers=1, max_restarts=0) as cluster,
        pytest.raises(ClusterError, match="made no progress for 2 s"),
    ):
        cluster.run(wait_for_ever, timeout=2)


def join_late(context: Any, seconds: float) -> None:
    """All connect immediately, except worker 1, which waits first."""
    if str(context.config.task) == "worker 1":
        time.sleep(seconds)
    tf.distribute.MultiWorkerMirroredStrategy()


def test_those_that_wait_for_a_late_worker_are_not_taken_for_frozen() -> None:
    events: list[str] = []
    with LocalCluster(workers=3, step_timeout=2) as cluster:
        cluster.run(
            functools.partial(join_late, seconds=5),
            on_event=lambda event: events.append(event["event"]),
        )
    assert "group_restart" not in events
    assert events.count("connecting") == events.count("connected") == 3


def test_a_worker_that_keeps_the_others_waiting_for_ever_is_named() -> None:
    with (
        LocalCluster(workers=3, max_restarts=0) as cluster,
        pytest.raises(ClusterError, match="worker 1 and its peers have made no progress for 4 s"),
    ):
        cluster.run(functools.partial(join_late, seconds=100), timeout=4)


def test_a_value_that_cannot_be_sent_is_named_with_an_alternative() -> None:
    def make_variable() -> list[Any]:
        return [tf.Variable(1.0)]

    with (
        LocalCluster(workers=1) as cluster,
        pytest.raises(ConfigError, match=r"type ResourceVariable belongs .* NumPy arrays"),
    ):
        cluster.run(make_variable)


def test_an_error_in_the_function_is_the_readers_own_traceback() -> None:
    def divide() -> float:
        return 1 / 0

    with LocalCluster(workers=2) as cluster, pytest.raises(UserCodeError) as caught:
        cluster.run(divide)
    assert "return 1 / 0" in str(caught.value)
    assert "helpers" not in caught.value.traceback
