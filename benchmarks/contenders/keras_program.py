"""A typical Keras program for TensorFlow's Keras 2 or 3: MNIST from arrays, and `fit`.

Run as a process, it prints its measurements as JSON in its last line. It imports nothing from the
benchmarks, so that `--fix` can be `helpers.keras_3` of another checkout, by PYTHONPATH.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from typing import Any

import numpy as np
import tensorflow as tf

BATCH, FROM_STEP = 64, 100
"""Examples per replica and step, and the first step of the throughput measurement."""


class Clock(tf.keras.callbacks.Callback):
    """Records when the first step, step `FROM_STEP` and the last step ended."""

    _supports_tf_logs = True  # otherwise Keras 2 would convert the loss to NumPy after every step

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.first = self.start = self.last = 0.0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras after each step."""
        self.steps += 1
        self.last = time.time()
        if self.steps == 1:
            self.first = self.last
        elif self.steps == FROM_STEP:
            self.start = self.last


def make_network() -> Any:
    """The lessons' network."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def make_strategy(*, is_mirrored: bool) -> tf.distribute.Strategy:
    """Returns a strategy for two logical CPUs of this process or for the workers of `TF_CONFIG`."""
    if not is_mirrored:
        return tf.distribute.MultiWorkerMirroredStrategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def train(
    mnist: str, epochs: int, context: Any = None, *, is_mirrored: bool = False
) -> list[float]:
    """Trains on two replicas.

    Args:
      mnist: the file that `dump_mnist` wrote.
      epochs: passes over the training data.
      context: passed by `LocalCluster.run`, and not used.
      is_mirrored: whether both replicas are in this process.

    Returns:
      Four numbers: examples per second from step `FROM_STEP`, the times of the first step and of
      the result (in seconds since the epoch), and the test accuracy. The accuracy is 0 if another
      process reports it.
    """
    del context
    strategy = make_strategy(is_mirrored=is_mirrored)
    tf.keras.utils.set_random_seed(1)
    with np.load(mnist) as arrays:
        images, labels = arrays["train_images"] / np.float32(255), arrays["train_labels"]
        test = arrays["test_images"] / np.float32(255), arrays["test_labels"]
    global_batch = BATCH * strategy.num_replicas_in_sync
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(10_000, seed=1).repeat()
    dataset = dataset.batch(global_batch).prefetch(2).with_options(options)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        network = make_network()
        network.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), loss)
    clock = Clock()
    steps = len(images) // global_batch
    network.fit(dataset, epochs=epochs, steps_per_epoch=steps, verbose=0, callbacks=[clock])
    speed = (clock.steps - FROM_STEP) * global_batch / (clock.last - clock.start)
    is_chief = (
        json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"] == 0
    )
    accuracy = evaluate(network.get_weights(), *test) if is_chief else 0.0
    return [speed, clock.first, time.time(), accuracy]


def evaluate(weights: list[Any], images: Any, labels: Any) -> float:
    """Returns the test accuracy of a copy outside the strategy, so that no peer has to join."""
    network = make_network()
    network.set_weights(weights)
    found = np.concatenate([network(part).numpy().argmax(-1) for part in np.split(images, 10)])
    return float((found == labels).mean())


def main() -> None:
    """Trains, and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mnist")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--mirrored", action="store_true")
    parser.add_argument("--fix", default="", help="a module to import first")
    args = parser.parse_args()
    if args.fix:
        importlib.import_module(args.fix)
    print(json.dumps(train(args.mnist, args.epochs, is_mirrored=args.mirrored)))


if __name__ == "__main__":
    main()
