"""Compares the memory planner of lesson 13 with the memory of real training steps.

    python -m benchmarks.memory_planner [--repeat 3] [--quick] [--output FOLDER]

A worker trains each network with Keras 3, and `helpers.course.peak_memory` measures by how much the
peak of its resident memory exceeds the level before the model was created. Before that, the worker
trains a small network of the same kind, so that the libraries have allocated what they keep. Writes
`results/memory_planner.md`. The exit code is 1 if a prediction differs by more than 10 %.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import RESULTS
from benchmarks.report import page, publish
from helpers import LocalCluster
from helpers.course.memory_planner import MemoryPlan, layers_of, plan

MAX_ERROR = 0.1
STEPS = 3
SMALL_BATCH = 8
COLUMNS = (
    *("network", "optimizer", "batch", "weights, MB", "gradients, MB", "optimizer, MB"),
    *("activations, MB", "peak predicted, MB", "peak measured, MB", "predicted / measured"),
)


class Network(NamedTuple):
    """A network with its training options, and a smaller one with the same kinds of layers."""

    name: str
    build: Callable[[int], Any]
    size: int
    optimizer: str
    batch: int
    small: int = 16


def perceptron(width: int) -> Any:
    """Eight dense layers of `width` units."""
    import keras

    hidden = [keras.layers.Dense(width, "relu") for _layer in range(8)]
    return keras.Sequential([keras.Input((width,)), *hidden, keras.layers.Dense(10)])


def convolutional(size: int) -> Any:
    """Six convolutions over images of `size` × `size`."""
    import keras

    hidden = [keras.layers.Conv2D(32, 3, padding="same", activation="relu") for _layer in range(6)]
    head = [keras.layers.Flatten(), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((size, size, 3)), *hidden, *head])


def vgg(size: int) -> Any:
    """Convolutions with pooling, and a large dense layer, for images of `size` × `size`."""
    import keras

    layers: list[Any] = [keras.Input((size, size, 3))]
    for filters in (32, 64, 128):
        for _layer in range(2):
            layers.append(keras.layers.Conv2D(filters, 3, padding="same", activation="relu"))
        layers.append(keras.layers.MaxPooling2D())
    layers += [keras.layers.Flatten(), keras.layers.Dense(1024, "relu"), keras.layers.Dense(10)]
    return keras.Sequential(layers)


NETWORKS = (
    Network("8 dense layers of 2,048 units", perceptron, 2048, "adam", 64),
    Network("8 dense layers of 1,024 units", perceptron, 1024, "momentum", 8192),
    Network("6 convolutions of 64 × 64", convolutional, 64, "adam", 64),
    Network("VGG, 64 × 64", vgg, 64, "adam", 64),
)


def train(network: Network, size: int, batch: int) -> MemoryPlan:
    """Trains for some steps with random data, and returns the prediction."""
    import keras
    import tensorflow as tf

    model = network.build(size)
    shape = model.input_shape[1:]
    images, labels = tf.random.uniform([batch, *shape]), tf.zeros([batch], tf.int64)
    optimizers = {
        "sgd": keras.optimizers.SGD,
        "momentum": lambda: keras.optimizers.SGD(momentum=0.9),
        "adam": keras.optimizers.Adam,
    }
    optimizer = optimizers[network.optimizer]()
    optimizer.build(model.trainable_variables)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    for _step in range(STEPS):
        step()
    numbers = int(tf.size(images)) // batch
    return plan(layers_of(model), numbers, batch, optimizer=network.optimizer)


def measure(network: Network) -> tuple[MemoryPlan, int]:
    """The prediction, and the measured peak in bytes, in this process."""
    from helpers.course.peak_memory import PeakMemory

    train(network, network.small, SMALL_BATCH)
    with PeakMemory() as memory:
        predicted = train(network, network.size, network.batch)
    return predicted, memory.peak


def compare(networks: tuple[Network, ...] = NETWORKS, repeat: int = 1) -> list[tuple[Any, ...]]:
    """The network, the plan and the median of the measured peaks, each in a new worker."""
    found = []
    for network in networks:
        with LocalCluster(workers=1) as cluster:
            runs = [cluster.run(measure, network)[0] for _round in range(repeat)]
        found.append((network, runs[0][0], statistics.median(peak for _plan, peak in runs)))
    return found


def row(network: Network, predicted: MemoryPlan, measured: float) -> str:
    """The line of the table."""
    parts = predicted.weights, predicted.gradients, predicted.optimizer, predicted.activations
    numbers = [f"{size / 1e6:,.0f}" for size in (*parts, predicted.peak, measured)]
    cells = network.name, network.optimizer, f"{network.batch:,}", *numbers
    return f"| {' | '.join(cells)} | {predicted.peak / measured:.2f} |"


def main() -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="each network once")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    found = compare(repeat=1 if args.quick else args.repeat)
    rows = [row(*one) for one in found]
    publish(page("Memory of a training step", COLUMNS, rows), args.output, "memory_planner.md")
    errors = [abs(predicted.peak / measured - 1) for _network, predicted, measured in found]
    return 0 if max(errors) <= MAX_ERROR else 1


if __name__ == "__main__":
    sys.exit(main())
