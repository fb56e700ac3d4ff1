"""Project 3: the reference solution, and TensorFlow's Adam, which does not divide its moments.

Both update the same weights with the same gradients in two processes, and are compared with an Adam
that computes with float64. The messages of the reference solution go through the switch of the
project.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from helpers.cluster.local import LocalCluster
from helpers.course.projects.data_parallel_race import WIDTHS
from helpers.course.projects.race import WORKERS
from helpers.course.projects.sharded_adam import EXERCISE
from helpers.course.projects.sharded_adam_expected import (
    Settings,
    Shapes,
    flat,
    make_gradients,
    make_parameters,
    unsharded_adam,
)
from helpers.course.projects.sharded_adam_runs import Training, works
from helpers.strategies import MULTI_WORKER

SHAPES = [shape for sizes in pairwise(WIDTHS) for shape in (sizes, sizes[1:])]
SEED, SETTINGS = EXERCISE.case["seed"], Settings(*EXERCISE.case["settings"])
ROUNDS, STEPS = 5, 40


@dataclass
class Side:
    """One of the two.

    Attributes:
      seconds: of each step in process 0, without the first step of each round.
      state: the bytes of moments that a process has.
      difference: the largest difference of a weight from the Adam with float64.
    """

    seconds: list[float] = field(default_factory=list)
    state: int = 0
    difference: float = 0.0

    def add(self, seconds: list[float], state: int, differences: Any) -> None:
        """Adds the result of a round."""
        self.seconds += seconds[1:]
        self.state = max(self.state, state)
        self.difference = max(self.difference, float(np.abs(differences).max()))


class Sides(NamedTuple):
    """The module, and TensorFlow."""

    own: Side
    tensorflow: Side


def measure(module: Path, rounds: int = ROUNDS, steps: int = STEPS) -> Sides:
    """Measures both in turns."""
    turns = (make_gradients(SHAPES, SEED, turn, WORKERS) for turn in range(steps))
    means = [sum(map(flat, gradients)) / WORKERS for gradients in turns]
    wanted = unsharded_adam(flat(make_parameters(SHAPES, SEED)), means, SETTINGS)
    sides = Sides(Side(), Side())
    with LocalCluster(workers=WORKERS) as cluster:
        for _round in range(rounds):
            seconds, state, weights = _own_round(module, steps)
            sides.own.add(seconds, state, weights - wanted)
            arguments = SHAPES, SEED, SETTINGS, steps
            seconds, state, weights = cluster.run(_train, *arguments, keras=2, timeout=120)[0]
            sides.tensorflow.add(seconds, state, weights - wanted)
    return sides


def _own_round(module: Path, steps: int) -> tuple[list[float], int, Any]:
    """The seconds of each step, the size of the largest file that a process saves, the weights."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Training(module, EXERCISE.case, WORKERS, SHAPES) as training,
    ):
        if training.open() and training.create() and training.steps(steps):
            training.compare()
            training.group.put([[np.array(folder)]] * WORKERS)
            training.call("save")
        assert works(training.session), training.session
        calls = training.session["calls"]
        seconds = [call["replies"][0]["seconds"][0] for call in calls if call["method"] == "step"]
        state = max(path.stat().st_size for path in Path(folder).iterdir())
        return seconds, state, training.parameters


def _train(shapes: Shapes, seed: int, settings: Settings, steps: int) -> tuple[Any, ...]:
    """The same of TensorFlow. Runs in each worker."""
    from helpers.either_keras import tf
    from helpers.worker.devices import make_strategy

    strategy = make_strategy(MULTI_WORKER, "RING")
    workers, rank = strategy.num_replicas_in_sync, strategy.cluster_resolver.task_id
    with strategy.scope():
        variables = [tf.Variable(array) for array in make_parameters(shapes, seed)]
        optimizer = tf.keras.optimizers.Adam(
            settings.learning_rate, settings.beta_1, settings.beta_2, settings.epsilon
        )
        optimizer.build(variables)

    def update(*gradients: Any) -> None:
        means = [gradient / workers for gradient in gradients]
        optimizer.apply_gradients(zip(means, variables, strict=True))  # of all workers, summed

    step, seconds = tf.function(lambda *gradients: strategy.run(update, gradients)), []
    for turn in range(steps):
        gradients = [*map(tf.constant, make_gradients(shapes, seed, turn, workers)[rank])]
        start = time.perf_counter()
        step(*gradients)
        seconds.append(time.perf_counter() - start)
    moments = [variable.numpy() for variable in optimizer.variables if variable.shape.rank]
    weights = flat(variable.numpy() for variable in variables)
    return seconds, sum(array.nbytes for array in moments), weights
