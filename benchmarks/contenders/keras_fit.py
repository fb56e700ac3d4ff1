"""Keras `fit` under MultiWorkerMirroredStrategy as it is usually written.

It uses our network and our learning rate, the TFDS dataset mapped, cached, shuffled and batched,
and TensorFlow's own threads.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.contenders.report import Arguments, Report, StepClock, own_peaks
from helpers import input_fn
from helpers.course.data import load, scale
from helpers.course.model import learning_rate, make_network
from helpers.estimator import tf


class Schedule(tf.keras.optimizers.schedules.LearningRateSchedule):
    """The schedule of `helpers.course.model` as a Keras schedule."""

    def __init__(self, args: Arguments) -> None:
        self._args = args

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate of a step."""
        return learning_rate(step, self._args.global_batch, self._args.learning_rate)


class ClockCallback(tf.keras.callbacks.Callback):
    """Ticks once per step."""

    _supports_tf_logs = True  # otherwise Keras would convert the loss to NumPy after every step

    def __init__(self, clock: StepClock) -> None:
        super().__init__()
        self._clock = clock

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras after each step."""
        self._clock.tick()


def train(args: Arguments, clock: StepClock) -> list[Any]:
    """Trains on all workers and returns the weights."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images = load("train").map(scale).cache().shuffle(10_000).repeat()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = images.batch(args.global_batch).with_options(options)
    with strategy.scope():
        network = compiled_network(args)
    network.fit(dataset, verbose=0, callbacks=[ClockCallback(clock)], **length(args))
    return network.get_weights()


def compiled_network(args: Arguments) -> tf.keras.Model:
    """Returns the network, ready for `fit`."""
    network = make_network()
    network.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(Schedule(args), momentum=args.momentum),
    )
    return network


def length(args: Arguments) -> dict[str, int]:
    """Returns the length of the run as arguments of `fit`."""
    if args.limit:
        return {"steps_per_epoch": args.limit, "epochs": 1}
    return {"steps_per_epoch": args.steps_per_epoch, "epochs": args.epochs}


def evaluate(weights: list[Any]) -> float:
    """Returns the test accuracy of a copy outside the strategy, so that no peer has to join."""
    network = make_network()
    network.build((None, 28, 28, 1))
    network.set_weights(weights)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)  # required by Keras 3
    network.compile(loss=loss, metrics=["sparse_categorical_accuracy"])
    return float(network.evaluate(input_fn("eval"), verbose=0, return_dict=True)[_ACCURACY])


_ACCURACY = "sparse_categorical_accuracy"


def main() -> None:
    """Trains. Rank 0 then evaluates and reports."""
    args = Arguments.parse()
    clock = StepClock()
    weights = train(args, clock)
    report = Report(peaks=own_peaks())
    if args.rank == 0:
        accuracy = evaluate(weights)
        report = Report(args.global_batch, clock.marks, own_peaks(), accuracy, time.time())
    report.save(args.folder, args.rank)


if __name__ == "__main__":
    main()
