"""A small regression that does not depend on TensorFlow's version: NumPy generates its numbers.

256 examples of 8 features, a network of 8 × 16 × 1, and SGD with momentum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.estimator import tf

BATCH = 32
_random = np.random.RandomState(7)  # NumPy guarantees the same sequence in all its versions
FEATURES = _random.normal(size=(256, 8)).astype(np.float32)
LABELS = np.sin(FEATURES.sum(axis=1, keepdims=True))
WEIGHTS = [_random.normal(scale=0.3, size=size).astype(np.float32) for size in ((8, 16), (16, 1))]


def input_fn(mode: str = "train", input_context: Any = None) -> tf.data.Dataset:
    """One epoch in fixed order. For training, only this worker's shard."""
    dataset = tf.data.Dataset.from_tensor_slices((FEATURES, LABELS))
    if mode == "train" and input_context:
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    dataset = dataset.batch(BATCH, drop_remainder=True)
    return dataset.repeat() if mode == "train" else dataset


def network() -> tf.keras.Sequential:
    """The network with its fixed first weights."""
    layers = tf.keras.layers
    first, second = (tf.compat.v1.constant_initializer(weights) for weights in WEIGHTS)
    return tf.keras.Sequential(
        [
            layers.InputLayer(input_shape=(8,), name="features"),
            layers.Dense(16, activation="tanh", kernel_initializer=first),
            layers.Dense(1, kernel_initializer=second),
        ]
    )


def model_fn(features: tf.Tensor, labels: tf.Tensor | None, mode: str) -> Any:
    """A `model_fn` for `tf.estimator.Estimator`. The loss is a mean over the global batch."""
    model = network()
    outputs = model(features, training=mode == tf.estimator.ModeKeys.TRAIN)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": outputs})
    losses = tf.reduce_sum(tf.square(outputs - labels), axis=1)
    if mode == tf.estimator.ModeKeys.EVAL:
        error = tf.compat.v1.metrics.mean_absolute_error(labels, outputs)
        loss = tf.reduce_mean(losses)
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"error": error})
    loss = tf.reduce_mean(losses) / tf.distribute.get_strategy().num_replicas_in_sync
    optimizer = tf.keras.optimizers.legacy.SGD(0.05, momentum=0.9)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    train_op = optimizer.get_updates(loss, model.trainable_variables)[0]
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Losses(tf.estimator.SessionRunHook):
    """Collects the loss of every step, which Estimator sums over the replicas."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def begin(self) -> None:
        """Called by Estimator when the graph is built."""
        graph = tf.compat.v1.get_default_graph()
        self._loss = graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context: Any) -> Any:
        """Requests the loss."""
        return tf.estimator.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stores the loss."""
        self.values.append(float(run_values.results))


def serving_input_fn() -> Any:
    """Declares the inputs of an exported model."""
    features = tf.compat.v1.placeholder(tf.float32, [None, 8], name="features")
    return tf.estimator.export.TensorServingInputReceiver(features, {"features": features})
