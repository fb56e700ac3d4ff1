"""Small training functions: a model with one weight, quick to build, with a known answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from helpers.worker.context import WorkerContext


def tiny_input_fn(mode: str, params: Mapping[str, Any], input_context: Any = None) -> Any:
    """100 examples (x, 2x) of shape [batch, 1]."""
    values = tf.range(100, dtype=tf.float32)[:, None] / 100
    dataset = tf.data.Dataset.from_tensor_slices((values, 2 * values))
    if mode == "train" and input_context:
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.batch(params["batch_size"], drop_remainder=mode == "train")


def tiny_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """Learns the 2 in y = 2x."""
    weight = tf.compat.v1.get_variable("w", [], initializer=tf.compat.v1.zeros_initializer())
    losses = tf.reduce_sum(tf.square(features * weight - labels), axis=1)
    if mode == "eval":
        error = tf.compat.v1.metrics.mean(tf.abs(weight - 2.0))
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.reduce_mean(losses), eval_metric_ops={"error": error}
        )
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    loss = tf.reduce_sum(losses) / (params["batch_size"] * replicas)
    optimizer = tf.keras.optimizers.legacy.SGD(0.1)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    train_op = optimizer.get_updates(loss, [weight])[0]
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


PARAMS: Mapping[str, Any] = {"batch_size": 5}


def keras_fit(
    context: WorkerContext, backup_dir: str, steps: int, backup_every: int, own: bool = False
) -> dict[str, Any]:
    """Learns the 2 in y = 2x with the worker's Keras, `backup_every` steps per epoch, to `steps`.

    Its backups are Keras's or, if `own`, ours.

    Returns: the steps trained in all attempts, the weight, and the epochs of this attempt.
    """
    from helpers.keras_callbacks import BackupAndRestore, StepReportCallback

    layers = tf.keras.layers
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.Input([1]), layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
        )
        model.compile(tf.keras.optimizers.SGD(0.05), "mse")
    values = tf.range(100, dtype=tf.float32)[:, None] / 100
    dataset = tf.data.Dataset.from_tensor_slices((values, 2 * values)).batch(10).repeat()
    options = tf.data.Options()
    options.autotune.enabled = False  # its thread may sleep for seconds before `fit` can return
    dataset = dataset.with_options(options)
    if own:
        backup = BackupAndRestore(context, backup_dir)
    else:  # kept at the end, otherwise a later fault would restart at step 0
        backup = tf.keras.callbacks.BackupAndRestore(backup_dir, delete_checkpoint=False)
    history = model.fit(
        dataset,
        epochs=steps // backup_every,
        steps_per_epoch=backup_every,
        callbacks=[backup, StepReportCallback(context, global_batch=10)],
        verbose=0,
    )
    weight = float(model.layers[0].kernel.numpy()[0, 0])
    step = int(model.optimizer.iterations.numpy())
    return {"step": step, "weight": weight, "epochs": history.epoch}
