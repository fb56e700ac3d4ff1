"""The program that exercise 11 migrates: an Estimator, its losses and its checkpoints."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from helpers.cluster.local import LocalCluster

CLASSES = 3


def examples() -> Any:
    """A dataset of single examples: 96 examples are 6 global batches of 16."""
    from helpers.estimator import tf

    features = np.random.default_rng(1).normal(size=[96, 4]).astype("float32")
    return tf.data.Dataset.from_tensor_slices((features, features.argmax(1) % CLASSES))


@functools.cache
def estimator_losses(batch_size: int, steps: int) -> list[float]:
    """The losses of the old program shown in the notebook, on two real workers."""

    def input_fn(mode: str, params: Mapping[str, Any], input_context: Any) -> Any:
        pipelines, own = input_context.num_input_pipelines, input_context.input_pipeline_id
        return examples().shard(pipelines, own).batch(params["batch_size"])

    with tempfile.TemporaryDirectory() as folder, LocalCluster(workers=2) as cluster:
        file = Path(folder) / "losses"
        cluster.train(
            functools.partial(legacy_model_fn, file=str(file)),
            input_fn,
            steps=steps,
            params={"batch_size": batch_size},
            evaluate=None,
            progress=False,
        )
        return [json.loads(line) for line in file.read_text().splitlines()]


def legacy_model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any], file: str
) -> Any:
    """The `model_fn` shown in the notebook, which also writes the losses of its steps to a file."""
    from helpers.estimator import tf

    layer = tf.keras.layers.Dense(CLASSES, kernel_initializer="identity")
    logits = layer(features)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    loss = tf.reduce_sum(losses) / (params["batch_size"] * replicas)
    step = tf.compat.v1.train.get_or_create_global_step()
    rate = tf.compat.v1.train.exponential_decay(0.5, step, decay_steps=2, decay_rate=0.8)
    optimizer = tf.keras.optimizers.legacy.SGD(rate, momentum=0.9)
    optimizer.iterations = step
    train_op = optimizer.get_updates(loss, layer.trainable_variables)[0]
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, training_chief_hooks=[_write_losses(file)]
    )


def _write_losses(file: str) -> Any:
    """A hook that writes the loss of every step to a file."""
    from helpers.estimator import tf

    class WriteLosses(tf.estimator.SessionRunHook):
        def begin(self) -> None:
            graph = tf.compat.v1.get_default_graph()
            # The last tensor is the sum over the replicas, as in
            # `helpers.worker.hooks.ProgressHook`.
            self.loss = graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]

        def before_run(self, run_context: Any) -> Any:
            return tf.estimator.SessionRunArgs(self.loss)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            with open(file, "a") as lines:
                print(float(run_values.results), file=lines)

    return WriteLosses()


def write_checkpoint(saved: Mapping[str, Any], folder: str) -> str:
    """Writes a name-based checkpoint, like an Estimator, and returns its path."""
    from helpers.estimator import tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in saved.items():
            kind = tf.int64 if name == "global_step" else tf.float32
            v1.get_variable(name, initializer=tf.constant(value, kind))
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver().save(session, f"{folder}/model.ckpt", saved["global_step"])
    return str(path)
