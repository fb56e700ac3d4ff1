"""Project 2, the bonus: a student's training and TensorFlow's, measured in turns.

Both train the same network from the same weights, with the same batches, in two processes over
loopback, without the relay. The weights of both are compared with those of one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from helpers.cluster.local import LocalCluster
from helpers.course.projects.data_parallel_expected import train_alone
from helpers.course.projects.data_parallel_runs import NAME, Job, make_arguments
from helpers.course.projects.group import HANG, ProcessGroup
from helpers.course.projects.observations import all_returned
from helpers.course.projects.race import WORKERS, compare_medians, take_turns
from helpers.i18n import _
from helpers.strategies import MULTI_WORKER

BATCH = 64
WIDTHS = (784, 400, 80, 10)  # 347 thousand weights, as many as the network of the lessons has
BUCKET = 250_000
ROUNDS, STEPS = 5, 40


@dataclass
class Side:
    """One of the two.

    Attributes:
      seconds: of a step, in each round.
      difference: the largest difference from the weights of one process.
    """

    seconds: list[float]
    difference: float = 0.0

    def add(self, seconds: float, differences: Any) -> None:
        """Adds the result of a round."""
        self.seconds.append(seconds)
        self.difference = max(self.difference, float(np.abs(differences).max()))


class Sides(NamedTuple):
    """The student's module, and TensorFlow."""

    own: Side
    tensorflow: Side

    def __str__(self) -> str:
        text = _(
            "Median time of a training step in two processes: {own} ms with your module, {other} "
            "ms with TensorFlow. Yours is {ratio} times as fast."
        )
        return compare_medians(text, self.own.seconds, self.tensorflow.seconds)


def race(module: str) -> None:
    """Measures a module and TensorFlow in turns, and prints the median times."""
    print(measure(Path(module)))


def measure(module: Path, rounds: int = ROUNDS, steps: int = STEPS) -> Sides:
    """The times of both, in turns, and the differences of their weights.

    Raises:
      ConfigError: the module does not work with two processes.
    """
    job = Job(WIDTHS, [[BATCH] * WORKERS] * steps, BUCKET)
    arguments = make_arguments(job, seed=0)
    wanted = np.concatenate([array.ravel() for array in train_alone(arguments)])
    own, tensorflow = Side([]), Side([])

    def own_turn(group: ProcessGroup) -> bool:
        group.put(arguments)
        replies = group.call("train", 10 * HANG, repeat=2)  # the first one is the warm-up
        if not all_returned(replies):
            return False
        own.add(replies[0].seconds[1] / steps, group.fetch()[0] - wanted)
        return True

    def other_turn(cluster: LocalCluster) -> None:
        seconds, weights = cluster.run(_train, arguments, steps, timeout=120)[0]
        tensorflow.add(seconds / steps, weights - wanted)

    take_turns(module, NAME, rounds, own_turn, other_turn)
    return Sides(own, tensorflow)


def _train(arguments: Any, steps: int) -> tuple[float, Any]:
    """Runs in each worker of TensorFlow, and returns the seconds of all steps, and the weights."""
    import time

    from helpers.either_keras import tf
    from helpers.worker.devices import make_strategy

    strategy = make_strategy(MULTI_WORKER, "RING")
    own = arguments[strategy.cluster_resolver.task_id]
    rate, workers = float(own[0][0]), len(arguments)
    with strategy.scope():
        layers = [tf.Variable(array) for array in own[4:]]
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(rate)

    def train(examples: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            scores = examples
            for place, weights in enumerate(layers):
                scores = tf.tanh(scores) if place else scores
                scores = scores @ weights[:-1] + weights[-1]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            loss = tf.reduce_mean(losses) / workers
        gradients = tape.gradient(loss, layers)
        optimizer.apply_gradients(zip(gradients, layers, strict=True))  # of all workers, summed

    step = tf.function(lambda *batch: strategy.run(train, batch))
    parts = zip(np.split(own[2], steps), np.split(own[3], steps), strict=True)
    batches = [tuple(map(tf.constant, batch)) for batch in parts]
    step(*batches[0])  # the trace
    for variable, array in zip(layers, own[4:], strict=True):
        variable.assign(array)
    start = time.perf_counter()
    for batch in batches:
        step(*batch)
    joined = np.concatenate([variable.numpy().ravel() for variable in layers])
    return time.perf_counter() - start, joined
