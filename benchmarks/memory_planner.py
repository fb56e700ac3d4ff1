"""Compares the memory planner of lesson 13 with the memory of real training steps.

    python -m benchmarks.memory_planner [--repeat 3] [--quick] [--output FOLDER]

A worker trains each network with Keras 3. TensorFlow's allocator counts the bytes of its tensors,
and the peak of the resident memory is measured as well (`helpers.course.peak_memory`). Before that,
the worker trains a small network of the same kind, so that the libraries have allocated what they
keep. Writes `results/memory_planner.md`. The exit code is 1 if a prediction differs from the
allocator's peak by more than 10 %.

After each step, the worker waits until TensorFlow's threads have released the tensors of the step.
Otherwise they sometimes hold the gradients of one more step. A `tf.function` computes the
gradients, and then the optimizer updates one variable after another. If the update is part of the
function, TensorFlow updates several variables at the same time. The last column shows that peak,
which changes from run to run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import RESULTS
from benchmarks.report import page, publish
from helpers import LocalCluster
from helpers.course.memory_planner import MemoryPlan, layers_of, plan

MAX_ERROR = 0.1
STEPS = 3
SMALL_BATCH = 8
RELEASE_SECONDS = 30.0  # the deadline for TensorFlow's threads to release the tensors of a step
SMALL_BYTES = 10_000_000  # what may remain
COLUMNS = (
    *("network", "optimizer", "batch", "weights, MB", "gradients, MB", "optimizer, MB"),
    *("activations, MB", "peak predicted, MB", "peak measured, MB", "predicted / measured"),
    *("resident, MB", "update in the function, MB"),
)


class Network(NamedTuple):
    """A network with its training options, and a smaller one with the same kinds of layers."""

    name: str
    build: Callable[[int], Any]
    size: int
    optimizer: str
    batch: int
    small: int = 16


def perceptron(units: int) -> Any:
    """32 dense layers of `units` units."""
    import keras

    hidden = [keras.layers.Dense(units, "relu") for _layer in range(32)]
    return keras.Sequential([keras.Input((units,)), *hidden, keras.layers.Dense(10)])


def convolutional(size: int) -> Any:
    """24 convolutions over images of `size` × `size`."""
    import keras

    head = [keras.layers.Flatten(), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((size, size, 3)), *_convolutions(24), *head])


def mixed(size: int) -> Any:
    """16 convolutions, one that shrinks the images, and 8 dense layers of 32 · `size` units."""
    import keras

    shrinking = keras.layers.Conv2D(32, 3, strides=4, padding="same", activation="relu")
    hidden = [keras.layers.Dense(32 * size, "relu") for _layer in range(8)]
    head = [shrinking, keras.layers.Flatten(), *hidden, keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((size, size, 3)), *_convolutions(16), *head])


def _convolutions(count: int) -> list[Any]:
    import keras

    layer = keras.layers.Conv2D
    return [layer(32, 3, padding="same", activation="relu") for _layer in range(count)]


NETWORKS = (
    Network("32 dense layers of 1,024 units", perceptron, 1024, "adam", 64),
    Network("32 dense layers of 512 units", perceptron, 512, "momentum", 4096),
    Network("24 convolutions of 32 × 32", convolutional, 32, "sgd", 64),
    Network("17 convolutions and 8 dense layers", mixed, 32, "adam", 64, small=4),
)


def train(network: Network, size: int, batch: int, *, one_function: bool) -> MemoryPlan:
    """Trains for some steps with random data, and returns the prediction."""
    import keras
    import tensorflow as tf

    model = network.build(size)
    images = tf.random.uniform([batch, *model.input_shape[1:]])
    labels = tf.zeros([batch], tf.int64)
    optimizers = {
        "sgd": keras.optimizers.SGD,
        "momentum": lambda: keras.optimizers.SGD(momentum=0.9),
        "adam": keras.optimizers.Adam,
    }
    optimizer = optimizers[network.optimizer]()
    variables = [variable.value for variable in model.trainable_variables]
    optimizer.build(variables)

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        return tape.gradient(loss, variables)

    compute = gradients if one_function else tf.function(gradients)

    def step() -> None:
        optimizer.apply_gradients(zip(compute(), variables, strict=True))

    run = tf.function(step) if one_function else step
    before = _tensor_bytes()
    for _step in range(STEPS):
        run()
        _wait_for_release(before + SMALL_BYTES)
    numbers = math.prod(images.shape[1:])
    return plan(layers_of(model), numbers, batch, optimizer=network.optimizer)


def _tensor_bytes() -> int:
    import tensorflow as tf

    return int(tf.config.experimental.get_memory_info("CPU:0")["current"])


def _wait_for_release(level: int) -> None:
    deadline = time.monotonic() + RELEASE_SECONDS
    while _tensor_bytes() > level and time.monotonic() < deadline:
        time.sleep(0.05)


class Measurement(NamedTuple):
    """The prediction, and the bytes of the peaks: of tensors, and of the resident memory."""

    predicted: MemoryPlan
    tensors: float
    resident: float


def measure(network: Network, one_function: bool) -> Measurement:
    """Measures in this process."""
    from helpers.course.peak_memory import PeakMemory, PeakTensorMemory

    train(network, network.small, SMALL_BATCH, one_function=one_function)
    with PeakMemory() as memory, PeakTensorMemory() as tensors:
        predicted = train(network, network.size, network.batch, one_function=one_function)
    return Measurement(predicted, tensors.peak, memory.peak)


def compare(
    networks: Sequence[Network] = NETWORKS, repeat: int = 1, *, one_function: bool = False
) -> list[Measurement]:
    """The median of the measured peaks of each network. Each run has a new worker."""
    found = []
    for network in networks:
        with LocalCluster(workers=1) as cluster:
            runs = [cluster.run(measure, network, one_function)[0] for _round in range(repeat)]
        peaks = [statistics.median(values) for values in list(zip(*runs, strict=True))[1:]]
        found.append(Measurement(runs[0].predicted, *peaks))
    return found


def row(network: Network, found: Measurement, one_function: Measurement) -> str:
    """The line of the table."""
    plan_ = found.predicted
    parts = plan_.weights, plan_.gradients, plan_.optimizer, plan_.activations, plan_.peak
    numbers = [f"{size / 1e6:,.0f}" for size in (*parts, found.tensors)]
    ratio = f"{plan_.peak / found.tensors:.2f}"
    others = [f"{size / 1e6:,.0f}" for size in (found.resident, one_function.tensors)]
    cells = network.name, network.optimizer, f"{network.batch:,}", *numbers, ratio, *others
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="each network once")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    repeat = 1 if args.quick else args.repeat
    found, others = (compare(repeat=repeat, one_function=one) for one in (False, True))
    rows = [row(*cells) for cells in zip(NETWORKS, found, others, strict=True)]
    publish(page("Memory of a training step", COLUMNS, rows), args.output, "memory_planner.md")
    errors = [abs(one.predicted.peak / one.tensors - 1) for one in found]
    return 0 if max(errors) <= MAX_ERROR else 1


if __name__ == "__main__":
    sys.exit(main())
