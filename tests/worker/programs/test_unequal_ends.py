"""Programs whose workers cannot end together."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster.local import LocalCluster
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.protocol.events import Event
from helpers.worker.context import WorkerContext
from tests.worker.programs.models import BATCH, batches, examples, loss_of, plain_model_fn, spec

v1 = tf.compat.v1
FILES = 3
SOON = 15.0  # seconds after the last step; a deadline would be 30, restarts several times that


def own_shard(count: int) -> Any:
    """Batches of this worker's files, out of `count` files with 25 examples each."""
    task = json.loads(os.environ["TF_CONFIG"])
    workers = len(task["cluster"]["worker"])
    mine = list(range(count))[task["task"]["index"] :: workers]
    values = [tf.range(25, dtype=tf.float32)[:, None] / 25 for _file in mine]
    data = tf.concat([*values, tf.zeros([0, 1])], 0)
    return tf.data.Dataset.from_tensor_slices((data, 2 * data)).batch(BATCH, drop_remainder=True)


def three_files() -> Any:
    return own_shard(FILES)


def one_file() -> Any:
    return own_shard(1)


class StopAfter(tf.estimator.SessionRunHook):
    def __init__(self, batches: int) -> None:
        self.left = batches

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.left -= 1
        if not self.left:
            run_context.request_stop()


def stopping_model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    loss, _weight = loss_of(features, labels)
    step = v1.train.get_or_create_global_step()
    train_op = v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)
    return spec(mode, loss, train_op, **{params["hooks"]: [StopAfter(params["after"])]})


def one_shot_on_worker_1(mode: str) -> Any:
    """Tensors that end after 7 batches on the second worker."""
    first = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
    data = batches(mode).repeat(None if first and mode == "train" else 1).take(1000 if first else 7)
    return v1.data.make_one_shot_iterator(data).get_next()


def refused(cluster: LocalCluster, *functions: Callable[..., Any], **options: Any) -> str:
    """The error of `train`, raised immediately and without a restart."""
    seen: list[Event] = []
    with pytest.raises(ConfigError) as raised:
        cluster.train(*functions, progress=False, on_event=seen.append, **options)
    assert "restart" not in {event["event"] for event in seen}
    steps = [event["time"] for event in seen if event["event"] == "step"]
    assert not steps or time.time() - steps[-1] < SOON
    return str(raised.value)


def test_unequal_shards_are_named_before_the_first_step(cluster: LocalCluster) -> None:
    said = refused(cluster, plain_model_fn, three_files, epochs=1, evaluate=None)
    assert "An epoch has 10 steps on worker 0 and 5 steps on worker 1" in said
    assert "steps=" in said


@pytest.mark.programs
def test_with_steps_unequal_shards_are_repeated(cluster: LocalCluster) -> None:
    result = cluster.train(plain_model_fn, three_files, steps=30, evaluate=None, progress=False)
    assert result.steps == 30 and not result.restarts


@pytest.mark.programs
def test_fewer_files_than_workers_are_named(cluster: LocalCluster) -> None:
    said = refused(cluster, plain_model_fn, one_file, epochs=1, evaluate=None)
    assert "no batch for" in said and "fewer files" in said


def test_a_hook_that_ends_only_the_chief_is_named_with_both_counts(cluster: LocalCluster) -> None:
    said = refused(
        cluster,
        stopping_model_fn,
        batches,
        steps=1000,
        params={"hooks": "training_chief_hooks", "after": 20},
    )
    assert "worker 0 stopped training after 20 batches (step 20)" in said
    assert "worker 1 is training batch 21" in said


@pytest.mark.programs
def test_data_that_ends_on_one_worker_is_named_with_both_counts(cluster: LocalCluster) -> None:
    said = refused(cluster, plain_model_fn, one_shot_on_worker_1, steps=1000, evaluate=None)
    assert "worker 1 stopped training after" in said and "while worker 0 is training batch" in said


@pytest.mark.programs
def test_a_hook_that_ends_all_workers_is_fine(cluster: LocalCluster, tmp_path: Path) -> None:
    result = cluster.train(
        stopping_model_fn,
        batches,
        steps=1000,
        params={"hooks": "training_hooks", "after": 20},
        evaluate="sidecar",
        model_dir=tmp_path,
        progress=False,
    )
    assert result.steps == result.evaluations[-1].step == 20 and not result.restarts


def loop_over_unequal_shards(context: WorkerContext) -> int:
    """A loop as in the guides, with one batch fewer on worker 1."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    data = examples().batch(BATCH).take(10 - context.config.task.index)
    with strategy.scope():
        weight = tf.Variable(0.0)

    def step(batch: Any) -> Any:
        def replica(features: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(features * weight - labels))
            gradient = tape.gradient(loss, weight)
            all_reduce = tf.distribute.get_replica_context().all_reduce
            return all_reduce(tf.distribute.ReduceOp.SUM, gradient)

        return strategy.run(replica, args=batch)

    step = tf.function(step)

    count = 0
    for batch in data:
        step(batch)
        count += 1
    return count


@pytest.mark.programs
def test_a_function_that_returns_before_its_peers_is_named(cluster: LocalCluster) -> None:
    seen: list[Event] = []
    with pytest.raises(ConfigError, match="worker 1 has finished, while worker 0 is still"):
        cluster.run(loop_over_unequal_shards, on_event=seen.append)
    assert "restart" not in {event["event"] for event in seen}


@pytest.mark.programs
@pytest.mark.parametrize("evaluate", ["after", "sidecar"])
def test_a_chief_that_ends_first_leaves_one_step_in_the_result(
    evaluate: str, servers: LocalCluster
) -> None:
    result = servers.train(
        stopping_model_fn,
        batches,
        steps=400,
        params={"hooks": "training_chief_hooks", "after": 20},
        evaluate=evaluate,
        progress=False,
    )
    assert result.steps == result.checkpoints[-1] == result.evaluations[-1].step < 400
    [notice] = result.warnings
    assert f"so step {result.steps} is saved and evaluated" in notice
    assert "The chief stopped training" in notice
    assert not result.restarts


@pytest.mark.programs
def test_workers_that_end_before_the_chief_are_fine(servers: LocalCluster) -> None:
    result = servers.train(
        stopping_model_fn,
        batches,
        steps=400,
        params={"hooks": "training_hooks", "after": 1000},
        progress=False,
    )
    assert result.steps == result.evaluations[-1].step >= 400
    assert not result.restarts
