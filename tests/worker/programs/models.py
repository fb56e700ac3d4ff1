"""Shared code of the programs: a model with one weight, and data for it."""

from __future__ import annotations

from typing import Any

from helpers.estimator import tf

v1 = tf.compat.v1
EXAMPLES, BATCH = 100, 5


def examples(mode: str = "train", input_context: Any = None) -> Any:
    """(x, 2x), sharded among the training workers, with 10 batches for each of two."""
    values = tf.range(EXAMPLES, dtype=tf.float32)[:, None] / EXAMPLES
    data = tf.data.Dataset.from_tensor_slices((values, 2 * values))
    if mode == "train" and input_context:
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data


def batches(mode: str, input_context: Any = None) -> Any:
    """The same in batches."""
    return examples(mode, input_context).batch(BATCH, drop_remainder=mode == "train")


def loss_of(features: Any, labels: Any) -> tuple[Any, Any]:
    """The loss, and the weight that it depends on."""
    weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
    return tf.reduce_mean(tf.square(features * weight - labels)), weight


def spec(mode: str, loss: Any, train_op: Any = None, metrics: Any = None, **more: Any) -> Any:
    """The result of a model_fn."""
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, **more
    )


def plain_model_fn(features: Any, labels: Any, mode: str) -> Any:
    """The model in the style of TensorFlow 1 programs."""
    loss, _weight = loss_of(features, labels)
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    return spec(mode, loss, optimizer.minimize(loss, v1.train.get_or_create_global_step()))
