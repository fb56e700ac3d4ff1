"""The published tutorial "Multi-worker training with Estimator", as its reader would run it.

Its pipeline, its hyperparameters and its faults are kept on purpose. Nothing is pinned, the pixels
are scaled image by image, and the loss is divided by the batch of one worker. SGD without momentum
has a learning rate of 1e-4, and there is only one pass over the data.
https://www.tensorflow.org/tutorials/distribute/multi_worker_with_estimator

Three things are added: a hook that records the time of each step, the accuracy as a metric, and an
evaluation by the chief at the end. The last one is needed because `train_and_evaluate` evaluates
nothing on two workers.
"""

from __future__ import annotations

import os
import time
from typing import Any

import tensorflow_datasets as tfds

from benchmarks.contenders.report import Arguments, Report, StepClock, own_peaks
from helpers.course.data import DATA_DIR
from helpers.estimator import tf

BUFFER_SIZE = 10_000
BATCH_SIZE = 64
LEARNING_RATE = 1e-4


def input_fn(mode: str, input_context: tf.distribute.InputContext | None = None) -> Any:
    """One pass over this worker's shard. Each image is scaled separately, before the cache."""
    splits = tfds.load("mnist", data_dir=DATA_DIR, download=False, as_supervised=True)
    dataset = splits["train" if mode == tf.estimator.ModeKeys.TRAIN else "test"]
    if input_context is not None:
        pipelines, index = input_context.num_input_pipelines, input_context.input_pipeline_id
        dataset = dataset.shard(pipelines, index)
    dataset = dataset.map(lambda image, label: (tf.cast(image, tf.float32) / 255, label))
    return dataset.cache().shuffle(BUFFER_SIZE).batch(BATCH_SIZE)


def model_fn(features: tf.Tensor, labels: tf.Tensor, mode: str) -> tf.estimator.EstimatorSpec:
    """The small convolutional network, in inference mode even during training."""
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    logits = network(features, training=False)
    losses = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )(labels, logits)
    loss = tf.reduce_sum(losses) / BATCH_SIZE
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(LEARNING_RATE)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class ClockHook(tf.estimator.SessionRunHook):
    """Ticks once per step."""

    def __init__(self, clock: StepClock) -> None:
        self._clock = clock

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Called by Estimator after each step."""
        self._clock.tick()


def main() -> None:
    """Trains. Rank 0 then evaluates alone and reports."""
    args = Arguments.parse()
    tf.compat.v1.disable_eager_execution()
    model_dir = str(args.folder / "model")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    config = tf.estimator.RunConfig(model_dir=model_dir, train_distribute=strategy)
    clock = StepClock()
    tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, config=config),
        tf.estimator.TrainSpec(input_fn, max_steps=args.limit, hooks=[ClockHook(clock)]),
        tf.estimator.EvalSpec(input_fn),
    )
    report = Report(peaks=own_peaks())
    if args.rank == 0:
        os.environ.pop("TF_CONFIG", None)
        alone = tf.estimator.Estimator(model_fn, model_dir=model_dir)
        accuracy = float(alone.evaluate(input_fn)["accuracy"])
        report = Report(args.global_batch, clock.marks, own_peaks(), accuracy, time.time())
    report.save(args.folder, args.rank)


if __name__ == "__main__":
    main()
