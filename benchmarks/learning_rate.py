"""The accuracy of the course's network as a function of learning rate and global batch size.

    python -m benchmarks.learning_rate [--num-examples 20480] [--output FILE]

One process trains the network on the same images repeatedly, each time from the same weights and in
the same order. It combines each global batch size with each learning rate. The optimizer is
gradient descent with the course's momentum, at a constant rate and without a warm-up. The number of
examples is the same in all runs, not the number of steps, so a batch twice as large runs half as
many steps. For each seed, it writes the accuracies on test images to the file that
`helpers.course.simulations` reads. It takes three minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import ROOT
from benchmarks.machine import describe, sentence
from helpers.course.data import load, scale
from helpers.course.model import make_network
from helpers.estimator import tf
from helpers.params import DEFAULT_PARAMS

OUTPUT = ROOT / "helpers" / "course" / "simulations" / "learning_rates.json"
BATCHES = 32, 64, 128, 256, 512, 1024
RATES = tuple(0.00625 * 2**power for power in range(9))  # up to 1.6
SEEDS = 1, 2
TRAINED, TESTED = 20_480, 2_000  # images; every batch size divides the first number
MOMENTUM = DEFAULT_PARAMS["momentum"]


class Images(NamedTuple):
    """Float32 images [n, 28, 28, 1] from 0 to 1, and their labels, int64 [n]."""

    pixels: tf.Tensor
    labels: tf.Tensor


class Trainer:
    """Trains one network from the same initial weights, as often as needed.

    Args:
      images: of the training set.
      seed: of the weights, and of the order of the images.
    """

    def __init__(self, images: Images, seed: int) -> None:
        tf.keras.utils.set_random_seed(seed)
        self.network = make_network()
        self.network(images.pixels[:1])
        order = tf.random.shuffle(tf.range(len(images.labels)), seed=seed)
        self._images = Images(*(tf.gather(part, order) for part in images))
        self._first = self.network.get_weights()
        self._rate = tf.Variable(0.0)
        self._speeds = [tf.Variable(tf.zeros_like(w)) for w in self.network.trainable_variables]
        self._epoch = tf.function(self._train)

    def accuracy(self, batch: int, rate: float, test: Images) -> float:
        """Returns the fraction of `test` that is classified correctly after one epoch."""
        self.network.set_weights(self._first)
        for speed in self._speeds:
            speed.assign(tf.zeros_like(speed))
        self._rate.assign(rate)
        self._epoch(batch)
        found = tf.argmax(self.network(test.pixels), axis=1)
        return float(tf.reduce_mean(tf.cast(found == test.labels, tf.float32)))

    def _train(self, batch: int) -> None:
        """Trains one epoch, step by step. It is traced once for each batch size."""
        weights = self.network.trainable_variables
        for step in tf.range(len(self._images.labels) // batch):
            pixels, labels = (part[step * batch : (step + 1) * batch] for part in self._images)
            with tf.GradientTape() as tape:
                logits = self.network(pixels, training=True)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, weights)
            for weight, speed, gradient in zip(weights, self._speeds, gradients, strict=True):
                # The update rule of Keras's SGD.
                speed.assign(MOMENTUM * speed - self._rate * gradient)
                weight.assign_add(speed)


def images_of(split: str, count: int) -> Images:
    """The first `count` images of a split, decoded."""
    return Images(*scale(*next(iter(load(split).take(count).batch(count)))))


def measure(examples: int) -> Iterator[tuple[int, int, float, float]]:
    """Yields seed, batch, rate and accuracy of each training run as soon as it is done."""
    training, test = images_of("train", examples), images_of("test", TESTED)
    for seed in SEEDS:
        trainer = Trainer(training, seed)
        for batch in BATCHES:
            for rate in RATES:
                yield seed, batch, rate, trainer.accuracy(batch, rate, test)


def report(examples: int, found: Sequence[tuple[int, int, float, float]]) -> dict[str, Any]:
    """Returns the contents of the JSON file.

    Its "accuracy" has, for each batch size and each rate, a list with one accuracy for each seed.
    """
    accuracy = {
        str(batch): [
            [round(a, 4) for _seed, b, r, a in found if (b, r) == (batch, rate)] for rate in RATES
        ]
        for batch in BATCHES
    }
    return {
        "machine": sentence(describe(None)),
        "network": "cnn",
        "dataset": "mnist",
        "trained": examples,
        "tested": TESTED,
        "momentum": MOMENTUM,
        "seeds": list(SEEDS),
        "rates": list(RATES),
        "accuracy": accuracy,
    }


def main() -> None:
    """Measures, prints, and writes the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--num-examples", type=int, default=TRAINED)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    found = []
    for training in measure(options.num_examples):
        found.append(training)
        print("seed {}, batch {:4d}, rate {:.5f}: {:.4f}".format(*training), flush=True)
    content = json.dumps(report(options.num_examples, found), indent=1)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(content + "\n", encoding="utf-8")
    print(f"{time.process_time():.0f} s of CPU time")


if __name__ == "__main__":
    main()
