"""Groups that shrink and grow while real workers train, and every example is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import LocalCluster
from helpers.protocol.events import Event
from helpers.results.training_result import TrainingResult
from tests.support.counted import (
    assert_counted_once,
    assert_nothing_repeated,
    counted_input_fn,
    counted_model_fn,
    examples_of_steps,
    weight_after,
)

Action = tuple[int, Callable[[LocalCluster], None]]
BATCH_SIZE, EPOCHS = 5, 10


def at_steps(cluster: LocalCluster, *actions: Action) -> Callable[[Event], None]:
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
    folder: Path, workers: int, min_workers: int, *actions: Action, by_sum: bool = False
) -> TrainingResult:
    """Trains for `EPOCHS`, with a checkpoint every 10 steps."""
    log = folder / "log"
    log.mkdir()
    params = {"batch_size": BATCH_SIZE, "seed": 1, "log": str(log), "sum": by_sum}
    with LocalCluster(workers, min_workers=min_workers) as cluster:
        return cluster.train(
            counted_model_fn,
            counted_input_fn,
            epochs=EPOCHS,
            params=params,
            model_dir=folder / "model",
            save_checkpoints_steps=10,
            evaluate=None,
            progress=False,
            on_event=at_steps(cluster, *actions),
        )


def assert_exact(folder: Path, workers: int) -> None:
    """Every example was counted once per epoch, and the weight is that of one worker."""
    from helpers.estimator import tf

    steps = examples_of_steps(folder / "log")
    assert_counted_once(steps, EPOCHS, workers * BATCH_SIZE)
    weight = tf.train.load_checkpoint(str(folder / "model")).get_tensor("w")
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


@pytest.mark.parametrize(
    ("task", "min_workers"),
    [("worker 0", 2), pytest.param("worker 1", 3, marks=pytest.mark.faults)],
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
