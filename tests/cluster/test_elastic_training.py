"""Groups that shrink and grow while real workers train, and every example is counted."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.cluster.base import Cluster
from helpers.protocol.events import Event
from helpers.protocol.job import GLOBAL, PER_WORKER
from helpers.results.history import Resize
from helpers.results.training_result import TrainingResult
from tests.cluster.test_strategies import count_slowly
from tests.support.counted import (
    EXAMPLES,
    assert_counted_once,
    assert_nothing_repeated,
    counted_fit,
    counted_input_fn,
    counted_model_fn,
    examples_of_steps,
    weight_after,
)
from tests.support.faults import needs_keras_3, train_tiny

Action = tuple[int, Callable[[Any], None]]
"""A step, and what happens to the cluster at it."""
BATCH_SIZE, EPOCHS = 5, 10


def at_steps(cluster: Cluster, *actions: Action) -> Callable[[Event], None]:
    """Calls each action at the first report of its step or a later one, in order."""
    left = list(actions)

    def react(event: Event) -> None:
        if event["event"] == "step" and left and event["step"] >= left[0][0]:
            left.pop(0)[1](cluster)

    return react


def lose(task: str) -> Callable[[LocalCluster], None]:
    return lambda cluster: cluster.inject_fault("node_loss", task)


def give_back(task: str) -> Callable[[LocalCluster], None]:
    return lambda cluster: cluster.clear_fault("node_loss", task)


def train_counted(
    folder: Path,
    workers: int,
    min_workers: int,
    *actions: Action,
    by_sum: bool = False,
    elastic_batch: str = GLOBAL,
) -> TrainingResult:
    """Trains for `EPOCHS` on this machine, as `train_counted_on`."""
    with LocalCluster(workers, min_workers=min_workers, elastic_batch=elastic_batch) as cluster:
        on_event = at_steps(cluster, *actions)
        return train_counted_on(cluster, folder, on_event, by_sum=by_sum)


def train_counted_on(
    cluster: Cluster, folder: Path, on_event: Callable[[Event], None], *, by_sum: bool = False
) -> TrainingResult:
    """Trains for `EPOCHS`, with a checkpoint every 10 steps."""
    log = folder / "log"
    log.mkdir(exist_ok=True)
    return cluster.train(
        counted_model_fn,
        counted_input_fn,
        epochs=EPOCHS,
        params={"batch_size": BATCH_SIZE, "seed": 1, "log": str(log), "sum": by_sum},
        model_dir=folder / "model",
        save_checkpoints_steps=10,
        evaluate=None,
        progress=False,
        on_event=on_event,
    )


def fit_counted(
    folder: Path,
    keras: int,
    min_workers: int,
    *actions: Action,
    backup_every: int | str = "epoch",
) -> tuple[list[Resize], float]:
    """Trains with `fit` on three workers. Returns the changes of their number and the weight."""
    (folder / "log").mkdir()
    fit = functools.partial(counted_fit, str(folder), EPOCHS, BATCH_SIZE, backup_every=backup_every)
    resizes: list[Resize] = []
    with LocalCluster(3, min_workers=min_workers) as cluster, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the change of the number
        react = at_steps(cluster, *actions)

        def on_event(event: Event) -> None:
            if event["event"] == "group_resized":
                resizes.append(Resize.from_event(event))
            react(event)

        results = cluster.run(fit, keras=keras, on_event=on_event)
    assert len({weight for [weight] in results}) == 1
    return resizes, results[0][0]


def tf_weight(folder: Path) -> float:
    """The weight in the last checkpoint of an Estimator."""
    from helpers.estimator import tf

    return float(tf.train.load_checkpoint(str(folder / "model")).get_tensor("w"))


def assert_exact(folder: Path, workers: int, weight: float | None = None) -> None:
    """Every example was counted once per epoch, and the weight is that of one worker."""
    steps = examples_of_steps(folder / "log")
    assert_counted_once(steps, EPOCHS, workers * BATCH_SIZE)
    weight = tf_weight(folder) if weight is None else weight
    assert weight == pytest.approx(weight_after(steps), rel=1e-5)


@pytest.mark.parametrize(
    "by_sum", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["mean", "sum"]
)
def test_a_group_that_shrinks_and_grows_counts_every_example_once(
    tmp_path: Path, by_sum: bool
) -> None:
    actions = (30, lose("worker 0")), (60, give_back("worker 0"))
    result = train_counted(tmp_path, 3, 2, *actions, by_sum=by_sum)
    assert [(one.previous, one.workers) for one in result.resizes] == [(3, 2), (2, 3)]
    assert result.steps == EPOCHS * 16
    assert_exact(tmp_path, workers=3)


@pytest.mark.faults
def test_whole_batches_are_counted_once_too(tmp_path: Path) -> None:
    actions = (30, lose("worker 0")), (60, give_back("worker 0"))
    result = train_counted(tmp_path, 3, 2, *actions, by_sum=True, elastic_batch=PER_WORKER)
    assert [(one.previous, one.workers) for one in result.resizes] == [(3, 2), (2, 3)]
    steps = examples_of_steps(tmp_path / "log")
    assert {len(found) for found in steps.values()} == {3 * BATCH_SIZE, 2 * BATCH_SIZE}
    counts = Counter(one for found in steps.values() for one in found)
    missing = EPOCHS * EXAMPLES - counts.total()
    assert 0 <= missing < 3 * BATCH_SIZE  # an incomplete last step is left out
    assert set(counts.values()) <= {EPOCHS, EPOCHS - 1}
    assert len(steps) == result.steps == result.total_steps
    weight = tf_weight(tmp_path)
    assert weight == pytest.approx(weight_after(steps), rel=1e-5)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("task", "min_workers"),
    [("worker 0", 2), ("worker 1", 3)],
    ids=["elastic", "not elastic"],
)
def test_a_preempted_worker_costs_no_step(tmp_path: Path, task: str, min_workers: int) -> None:
    preempt = (35, lambda cluster: cluster.inject_fault("preempt", task))
    result = train_counted(tmp_path, 3, min_workers, preempt)
    [reason] = result.restarts
    assert reason.startswith(f"{task} was preempted (SIGTERM) at step")
    points = [point for points in result.history.values() for point in points]
    last = max(point.step for point in points if point.attempt == 0)
    assert result.resumed_at[1] >= last  # of the reported steps, and no step is repeated
    assert result.resumed_at[1] in result.checkpoints
    assert [one.workers for one in result.resizes] == [2] * (min_workers == 2)
    assert_exact(tmp_path, workers=3)
    assert_nothing_repeated(tmp_path / "log")


@needs_keras_3
@pytest.mark.faults
@pytest.mark.parametrize("backup_every", ["epoch", 7])
def test_fit_counts_every_example_once_in_a_group_that_shrinks_and_grows(
    tmp_path: Path, backup_every: int | str
) -> None:
    actions = (40, lose("worker 1")), (80, give_back("worker 1"))
    resizes, weight = fit_counted(tmp_path, 3, 2, *actions, backup_every=backup_every)
    assert [(one.previous, one.workers) for one in resizes] == [(3, 2), (2, 3)]
    assert_exact(tmp_path, 3, weight)


@pytest.mark.faults
@pytest.mark.parametrize("keras", [pytest.param(3, marks=needs_keras_3), 2])
def test_a_preempted_worker_of_fit_costs_no_step(tmp_path: Path, keras: int) -> None:
    preempt = (40, lambda cluster: cluster.inject_fault("preempt", "worker 2"))
    resizes, weight = fit_counted(tmp_path, keras, 2, preempt)
    assert [(one.previous, one.workers) for one in resizes] == [(3, 2)]
    assert_counted_once(examples_of_steps(tmp_path / "log"), EPOCHS, 3 * BATCH_SIZE)
    assert_nothing_repeated(tmp_path / "log")
    if keras == 3:  # Keras 2 averages the means of unequal shares
        assert_exact(tmp_path, 3, weight)


@pytest.mark.faults
def test_a_worker_with_parameter_servers_leaves_and_returns_without_a_restart() -> None:
    with LocalCluster(2, ps=1, min_workers=1) as cluster:
        react = at_steps(cluster, (500, lose("worker 1")), (1500, give_back("worker 1")))
        result = train_tiny(cluster, 8000, react)
    assert [(one.previous, one.workers) for one in result.resizes] == [(2, 1), (1, 2)]
    assert result.restarts == []
    back = result.resizes[1].step
    assert result.history["worker 1"][-1].step > back


@pytest.mark.faults
def test_a_coordinator_continues_with_the_workers_that_are_left() -> None:
    resized: list[Event] = []
    with LocalCluster(2, ps=1, min_workers=1) as cluster, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        react = at_steps(cluster, (50, lambda cluster: cluster.resize(1)), (100, grow))

        def on_event(event: Event) -> None:
            assert event["event"] != "group_restart"
            if event["event"] == "group_resized":
                resized.append(event)
            react(event)

        [(scheduled, counted)] = cluster.run(count_slowly, on_event=on_event)
    assert [event["workers"] for event in resized] == [1, 2]
    assert counted >= scheduled  # a running step may have been counted, and run again


def grow(cluster: LocalCluster) -> None:
    """Asks for all workers."""
    cluster.resize(cluster.workers)
