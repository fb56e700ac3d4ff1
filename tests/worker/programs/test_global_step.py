"""Programs whose global step does not count batches, or does not change."""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.cluster.local import LocalCluster
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.protocol.events import Event
from tests.worker.programs.models import BATCH, EXAMPLES, batches, loss_of, spec

v1 = tf.compat.v1
OWN_BATCHES = EXAMPLES // BATCH // 2  # of one of two workers, per epoch


def noting(folder: str, data: Any) -> Any:
    """The data, with every example that is read written to a file of the process's task."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    path = Path(folder) / f"{task['type']}-{task['index']}"

    def note(features: Any, labels: Any) -> Any:
        with path.open("a") as file:
            file.write(f"{float(np.ravel(features)[0]):.2f}\n")
        return features

    def add(features: Any, labels: Any) -> Any:
        noted = v1.py_func(note, [features, labels], tf.float32)
        noted.set_shape(features.shape)
        return noted, labels

    return data.map(add)


def two_optimizers(features: Any, labels: Any, mode: str) -> Any:
    """Like a GAN, where both minimize() calls count a step."""
    loss, weight = loss_of(features, labels)
    other = v1.get_variable("other", [], initializer=v1.zeros_initializer())
    step = v1.train.get_or_create_global_step()
    one = v1.train.GradientDescentOptimizer(0.05).minimize(loss, step, [weight])
    both = v1.train.GradientDescentOptimizer(0.05).minimize(
        loss + tf.square(other - 1.0), step, [other]
    )
    return spec(mode, loss, tf.group(one, both))


def every_fifth(features: Any, labels: Any, mode: str) -> Any:
    """Gradient accumulation, where the step counts updates of the weight."""
    loss, weight = loss_of(features, labels)
    if mode != "train":
        return spec(mode, loss)
    step = v1.train.get_or_create_global_step()
    kept = v1.get_variable("kept", [], initializer=v1.zeros_initializer(), trainable=False)
    seen = v1.get_variable("seen", [], tf.int64, v1.zeros_initializer(), trainable=False)
    [gradient] = tf.gradients(loss, [weight])
    replicas = tf.distribute.get_replica_context()
    gradient = replicas.all_reduce(tf.distribute.ReduceOp.MEAN, gradient)
    with tf.control_dependencies([kept.assign_add(gradient)]):
        full = tf.equal(seen.assign_add(1) % 5, 0)
        factor = tf.cast(full, tf.float32)
        with tf.control_dependencies([weight.assign_sub(0.1 * factor * kept)]):
            emptied = kept.assign(kept * (1 - factor))
        with tf.control_dependencies([emptied]):
            train_op = step.assign_add(tf.cast(full, tf.int64))
    return spec(mode, loss, train_op)


PROGRAMS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "two optimizers": (two_optimizers, 2, 1),  # steps, in that many batches
    "accumulation": (every_fifth, 1, 5),
}


def input_fn(folder: str, mode: str, input_context: Any = None) -> Any:
    data = batches(mode, input_context)
    return noting(folder, data) if mode == "train" else data


@pytest.mark.programs
@pytest.mark.parametrize("evaluate", ["after", "sidecar"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_epoch_is_an_epoch_however_steps_are_counted(
    name: str, evaluate: str, cluster: LocalCluster, tmp_path: Path
) -> None:
    model_fn, steps, of_batches = PROGRAMS[name]
    result = cluster.train(
        model_fn, batches, epochs=2, evaluate=evaluate, model_dir=tmp_path, progress=False
    )
    expected = 2 * OWN_BATCHES * steps // of_batches
    assert (result.steps, result.total_steps) == (expected, expected)
    assert result.checkpoints[-1] == result.evaluations[-1].step == expected
    assert not result.restarts
    again = cluster.train(
        model_fn, batches, epochs=2, evaluate=None, model_dir=tmp_path, progress=False
    )
    assert again.steps in (0, expected)  # complete, so no step is added


def kill_once(cluster: LocalCluster, at: int) -> Callable[[Event], None]:
    left = [signal.SIGKILL]

    def on_event(event: Event) -> None:
        if left and event["event"] == "checkpoint" and event["step"] >= at:
            cluster.inject_fault("kill", "worker 1")
            left.clear()

    return on_event


@pytest.mark.parametrize(
    "name",
    [
        name if name == "two optimizers" else pytest.param(name, marks=pytest.mark.programs)
        for name in PROGRAMS
    ],
)
def test_a_restart_repeats_and_skips_no_batch(
    name: str, cluster: LocalCluster, tmp_path: Path
) -> None:
    model_fn, steps, of_batches = PROGRAMS[name]
    folder = tmp_path / "read"
    folder.mkdir()
    epochs = 120
    result = cluster.train(
        model_fn,
        functools.partial(input_fn, str(folder)),
        epochs=epochs,
        save_checkpoints_steps=40,
        evaluate=None,
        model_dir=tmp_path / "model",
        progress=False,
        on_event=kill_once(cluster, 80),
    )
    assert len(result.restarts) == 1
    assert result.total_steps == result.steps == epochs * OWN_BATCHES * steps // of_batches
    resumed = result.resumed_at[1]
    assert resumed >= 80
    done = resumed * of_batches // steps
    for task in ("worker-0", "worker-1"):
        read = (folder / task).read_text().split()
        order = read[:OWN_BATCHES]
        # The second attempt ends with the last batch of the last epoch.
        assert read[-epochs * OWN_BATCHES + done :][:3] == (order * 2)[done % OWN_BATCHES :][:3]
        assert read[-1] == order[-1]


def no_global_step(features: Any, labels: Any, mode: str) -> Any:
    loss, _weight = loss_of(features, labels)
    return spec(mode, loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss))


def keras_without_iterations(features: Any, labels: Any, mode: str) -> Any:
    loss, weight = loss_of(features, labels)
    optimizer = tf.keras.optimizers.legacy.SGD(0.1)
    train_op = optimizer.get_updates(loss, [weight])[0]
    v1.train.get_or_create_global_step()
    return spec(mode, loss, train_op)


@pytest.mark.parametrize(
    ("model_fn", "line"),
    [
        (no_global_step, "minimize(loss)"),
        pytest.param(keras_without_iterations, "optimizer.get_updates", marks=pytest.mark.programs),
    ],
)
def test_a_step_that_stands_still_is_named_after_one_batch(
    model_fn: Callable[..., Any], line: str, cluster: LocalCluster
) -> None:
    events: list[Event] = []
    with pytest.raises(ConfigError, match="did not increase in 1 batch") as raised:
        cluster.train(
            model_fn,
            batches,
            steps=20,
            evaluate=None,
            progress=False,
            on_event=events.append,
        )
    assert line in str(raised.value) and "test_global_step.py, line" in str(raised.value)
    assert "restart" not in {event["event"] for event in events}
