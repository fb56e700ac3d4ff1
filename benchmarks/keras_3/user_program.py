"""A typical Keras program of a user: it uses nothing from this package, unless its line is added.

python -m benchmarks.keras_3.user_program [--mended]
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

PER_WORKER = 32


def make_data(global_batch: int) -> Any:
    """Yields batches endlessly."""
    chance = np.random.default_rng(0)
    pixels = chance.uniform(size=(1024, 28, 28)).astype("float32")
    digits = (pixels.mean((1, 2)) > 0.5).astype("int64")
    dataset = tf.data.Dataset.from_tensor_slices((pixels, digits))
    return dataset.shuffle(1024, seed=1).repeat().batch(global_batch)


def make_model() -> Any:
    """Returns a model compiled in the current scope."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.InputLayer(shape=(28, 28)),
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.001), loss=loss, metrics=["accuracy"])
    return model


def main() -> None:
    """Trains as one of the workers in `TF_CONFIG`."""
    workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    data = make_data(PER_WORKER * workers)
    with strategy.scope():
        model = make_model()
    history = model.fit(data, epochs=2, steps_per_epoch=5, verbose=0).history
    print("losses", history["loss"])


if __name__ == "__main__":
    main()
