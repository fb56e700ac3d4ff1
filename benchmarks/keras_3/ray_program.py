"""A program like the examples for Ray Train's `TensorflowTrainer`.

Each worker calls a function with its configuration, which reads `TF_CONFIG` and reports after each
epoch. It uses nothing from this package, unless its one line is added.

python -m benchmarks.keras_3.ray_program [--mended]
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf

if "--mended" in sys.argv:
    import helpers.keras_3  # noqa: F401

REPORTS: list[float] = []


def report(metrics: dict[str, float]) -> None:
    """Replaces `ray.train.report`."""
    REPORTS.append(metrics["loss"])


class ReportCallback(tf.keras.callbacks.Callback):
    """Reports after each epoch, like Ray's callback for Keras."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras after each epoch."""
        report({"loss": logs["loss"]})


def train_func(config: dict[str, Any]) -> None:
    """Runs in each worker."""
    workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input(shape=(1,)),
                tf.keras.layers.Dense(10),
                tf.keras.layers.Dense(1),
            ]
        )
        model.compile(
            optimizer=tf.keras.optimizers.SGD(learning_rate=config["lr"]),
            loss=tf.keras.losses.MeanSquaredError(),
            metrics=[tf.keras.metrics.MeanSquaredError()],
        )
    x = np.linspace(-1, 1, 512, dtype="float32")[:, None]
    dataset = tf.data.Dataset.from_tensor_slices((x, 2 * x + 1))
    dataset = dataset.repeat().batch(config["batch_size"] * workers)
    model.fit(
        dataset,
        epochs=config["epochs"],
        steps_per_epoch=4,
        callbacks=[ReportCallback()],
        verbose=0,
    )


if __name__ == "__main__":
    train_func({"lr": 1e-3, "batch_size": 32, "epochs": 2})
    print("losses", REPORTS)
