"""A preempted machine: TensorFlow saves, and the group is restarted."""

from __future__ import annotations

import functools
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.protocol.events import Event
from helpers.protocol.failures import error_fields


def train_until_told(folder: str, context: Any) -> list[int]:
    """Adds 1 in each step, in both workers. Returns the first and the last value of an attempt."""
    import time

    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        total = tf.Variable(0.0)
    handler = tf.distribute.experimental.PreemptionCheckpointHandler(
        tf.distribute.cluster_resolver.TFConfigClusterResolver(),
        tf.train.Checkpoint(total=total),
        folder,
    )
    begun = int(total.numpy())

    def add_one() -> None:
        """With an all-reduce, because the handler requires all workers to be at the same step."""
        ones = strategy.run(lambda: tf.constant(1.0))
        total.assign_add(strategy.reduce("MEAN", ones, axis=None))

    step = tf.function(add_one)
    while int(total.numpy()) < 150:
        handler.run(step)
        time.sleep(0.01)
        context.report("step", step=int(total.numpy()), loss=0.0, examples_per_second=None)
    return [begun, int(total.numpy())]


@pytest.mark.parametrize("told", ["worker 0", "worker 1"])
def test_a_worker_that_is_told_to_stop_costs_no_step(told: str, tmp_path: Path) -> None:
    told_at: list[int] = []
    reasons: list[str] = []

    def tell(event: Event) -> None:
        if event["event"] == "group_restart":
            reasons.append(event["reason"])
        if event["event"] == "step" and event["step"] >= 50 and not told_at:
            told_at.append(event["step"])
            [process] = [p for p in cluster.processes if str(p.task) == told]
            process.signal(signal.SIGTERM)

    with LocalCluster(workers=2) as cluster:
        train = functools.partial(train_until_told, str(tmp_path))
        [first, second] = cluster.run(train, on_event=tell)
    assert first == second
    assert first[0] >= told_at[0]  # nothing was lost, because it resumed at the same step
    assert first[1] == 150
    assert len(reasons) == 1
    assert "received a request to stop" in reasons[0]


def test_a_program_that_ends_itself_is_not_taken_for_one_that_was_told_to() -> None:
    try:
        sys.exit(42)
    except SystemExit as error:
        assert not error_fields(error)["retryable"]
