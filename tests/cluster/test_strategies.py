"""Estimators under the other strategies, and faults that parameter servers survive."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.errors import ConfigError
from helpers.protocol.events import Event
from helpers.results.training_result import TrainingResult
from helpers.worker.context import WorkerContext
from tests.support.faults import FaultAtStep, kill
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn

STEPS = 2000


def train(cluster: LocalCluster, **options: Any) -> TrainingResult:
    chosen = {"steps": STEPS, "params": PARAMS, "save_checkpoints_steps": 200, "progress": False}
    chosen |= options
    return cluster.train(tiny_model_fn, tiny_input_fn, **chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "replicas"), [("MirroredStrategy", 2), ("OneDeviceStrategy", 1)]
)
def test_a_strategy_of_one_process_trains_there(strategy: str, replicas: int) -> None:
    with LocalCluster(workers=replicas, strategy=strategy) as cluster:
        result = train(cluster)
        assert len(cluster.processes) == 1
    assert result.global_batch == PARAMS["batch_size"] * replicas
    assert list(result.history) == ["worker 0"]
    assert [evaluation.step for evaluation in result.evaluations] == [STEPS]
    assert result.evaluation["error"] < 0.05
    assert strategy in repr(result)


def test_an_epoch_under_replicas_is_a_pass_over_the_data() -> None:
    with LocalCluster(workers=2, strategy="MirroredStrategy") as cluster:
        result = train(cluster, steps=None, epochs=3)
    assert result.steps == 3 * 100 // (2 * PARAMS["batch_size"])


def test_an_estimator_trains_with_parameter_servers_and_an_evaluator_beside() -> None:
    with LocalCluster(workers=1, ps=1) as cluster:
        result = train(cluster, evaluate="sidecar")
        tasks = [str(process.task) for process in cluster.processes]
    assert tasks == ["chief 0", "worker 0", "ps 0", "evaluator 0"]
    assert set(result.history) == {"chief 0", "worker 0"}
    assert all(result.history.values()), "one of them made no step"
    assert result.steps >= STEPS  # a task that adds the last steps does not wait for the other
    assert result.evaluation["error"] < 0.05


@pytest.mark.faults
def test_an_evaluator_beside_one_that_saves_often_evaluates_what_was_saved_last() -> None:
    """If it is too late for one of 600 checkpoints, of which five are kept, it continues."""
    with LocalCluster(workers=1, ps=1) as cluster:
        result = train(cluster, steps=3000, save_checkpoints_steps=5, evaluate="sidecar")
    assert result.evaluations[-1].step >= 3000


def test_an_epoch_with_parameter_servers_counts_the_batches_of_all() -> None:
    with LocalCluster(workers=1, ps=1) as cluster:
        result = train(cluster, steps=None, epochs=4, evaluate=None)
    assert result.total_steps == 4 * 100 // PARAMS["batch_size"]


def test_a_lost_worker_beside_parameter_servers_is_replaced_and_the_others_go_on() -> None:
    with LocalCluster(workers=2, ps=1) as cluster:
        saboteur = FaultAtStep(cluster, 500, kill("worker 1"))
        result = train(cluster, steps=6000, evaluate=None, on_event=saboteur)
    assert result.restarts == []
    assert "worker 1" in result.warnings[-1]
    assert {point.attempt for point in result.history["chief 0"]} == {0}


@pytest.mark.parametrize("task", ["ps 0", pytest.param("chief 0", marks=pytest.mark.faults)])
def test_a_lost_parameter_server_or_chief_restarts_all_from_the_checkpoint(task: str) -> None:
    with LocalCluster(workers=1, ps=1) as cluster:
        result = train(cluster, on_event=FaultAtStep(cluster, 500, kill(task)))
    assert len(result.restarts) == 1
    assert task in result.restarts[0]
    assert result.resumed_at[1] >= 400
    assert result.evaluation["error"] < 0.05


def count_slowly(context: WorkerContext) -> tuple[int, int]:
    """A coordinator schedules 200 steps of 20 ms. Returns how many were scheduled and counted."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        total = tf.Variable(0)

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        tf.py_function(lambda: time.sleep(0.02), [], [])
        total.assign_add(1)

    for number in range(20):
        for _ in range(10):
            coordinator.schedule(step)
        coordinator.join()
        context.report("step", step=10 * number, loss=0.0, examples_per_second=None)
    return 200, int(total.numpy())


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGSTOP, id="frozen", marks=pytest.mark.faults),
    ],
)
def test_a_coordinators_lost_worker_is_replaced_and_no_step_is_lost(how: int) -> None:
    events: list[Event] = []
    with LocalCluster(workers=2, ps=1, step_timeout=8) as cluster:

        def on_event(event: Event) -> None:
            harmed = any(e["event"] == "step" and e["step"] >= 50 for e in events)
            events.append(event)
            if event["event"] == "step" and event["step"] >= 50 and not harmed:
                [victim] = [p for p in cluster.processes if str(p.task) == "worker 1"]
                victim.signal(how)

        [(scheduled, counted)] = cluster.run(count_slowly, on_event=on_event)
    kinds = [event["event"] for event in events]
    assert "group_restart" not in kinds
    assert kinds.count("respawned") == 1
    assert counted >= scheduled  # a running step may have been counted, and run again


def test_a_worker_that_is_lost_again_and_again_ends_the_run() -> None:
    with (
        LocalCluster(workers=1, ps=1, max_restarts=0) as cluster,
        pytest.raises(RuntimeError, match="worker 0 ended with signal 9"),
    ):
        train(cluster, on_event=FaultAtStep(cluster, 500, kill("worker 0")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 2, "strategy": "OneDeviceStrategy"}, "workers=2"),
        ({"ps": 1, "strategy": "MirroredStrategy"}, "ps=1"),
        ({"ps": 0, "strategy": "ParameterServerStrategy"}, "ps=0"),
        ({"strategy": "TPUStrategy"}, "TPUStrategy"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LocalCluster(**options)
