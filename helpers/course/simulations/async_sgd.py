"""Workers that do not wait for each other: a small simulation of asynchronous training.

Each worker fetches the weights, computes a gradient for a while, and has it applied at once,
however many updates others have made in the meantime: their number is the gradient's staleness
(Dean et al., 2012, "Large Scale Distributed Deep Networks", NeurIPS 25, section 4.1, has the
algorithm; lesson 5 counts it). With N equal workers a gradient is stale by N−1 updates on average,
since while one worker computes, each other one updates once.

That is so because here a worker does nothing but compute. Lesson 5 measures less than N−1: it
counts from reading to updating, and between two steps its workers also wait for the next order.

What is learned is a quadratic, the simplest case in which staleness can do harm. With curvature h,
learning rate η and a staleness that is always τ, w ← w − ηh·w(τ updates ago) shrinks only while
ηh < 2·sin(π / (2(2τ+1))): 2 for τ=0, 1 for τ=1, and about π/(2τ) for many (Levin and May, 1976, "A
note on difference-delay equations", Theoretical Population Biology 9(2)).
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np

from helpers.errors import ConfigError, check_count
from helpers.i18n import _

UPDATES = 300
CURVATURES = np.array([1.0, 0.5, 0.25, 0.1])  # of the loss ½·Σ h·w²
SPREAD = 0.2  # of the logarithm of the time that a gradient takes; its median is 1
NOISE = 0.05  # of a gradient, beside which the first ones are about 1
DIVERGED = 1e6  # times the first loss, beyond which nothing is computed
SEED = 1

Vector = np.ndarray[Any, Any]


class Training(NamedTuple):
    """What asynchronous training did, beside synchronous training.

    Attributes:
      staleness: of each update's gradient.
      by_slow: whether the slow worker computed it.
      losses: after each update, as parts of the first loss; the first is 1.
      synchronous: the same over the steps of synchronous training, each with the mean gradient of
        all workers.
      same_time: the steps that synchronous training makes while the others make all updates.
    """

    staleness: list[int]
    by_slow: list[bool]
    losses: list[float]
    synchronous: list[float]
    same_time: int

    @property
    def mean(self) -> float:
        """The staleness on average."""
        return sum(self.staleness) / len(self.staleness)


def largest_rate(staleness: int) -> float:
    """The learning rate from which on a staleness that is always the same lets weights grow."""
    return 2 * math.sin(math.pi / (2 * (2 * staleness + 1))) / float(CURVATURES.max())


def simulate(workers: int, slowness: float, rate: float, updates: int = UPDATES) -> Training:
    """The same for the same arguments, always.

    Args:
      workers: the first of them is the slow one.
      slowness: how many times as long that one needs for a gradient, 1 or more.
      rate: the learning rate.

    Raises:
      ConfigError: a number that cannot be.
    """
    check_count("workers", workers)
    check_count("updates", updates)
    if not (slowness >= 1 and 0 < rate < math.inf):
        message = _(
            "slowness={slowness!r} and rate={rate!r} cannot be simulated: use a slowness from 1, "
            "and a learning rate above 0."
        )
        raise ConfigError(message.format(slowness=slowness, rate=rate))
    chance = np.random.default_rng(SEED)
    times = np.exp(SPREAD * chance.standard_normal((updates, workers)))
    times[:, 0] *= slowness
    noise = NOISE * chance.standard_normal((updates, len(CURVATURES)))
    order = _order(times, updates)
    staleness, losses = _train_asynchronously(order, rate, noise)
    steps = np.cumsum(times.max(axis=1))  # each takes as long as its slowest worker
    return Training(
        staleness,
        [worker == 0 and slowness > 1 for worker, _end in order],
        losses,
        _train_synchronously(rate, noise / math.sqrt(workers)),
        int(np.searchsorted(steps, order[-1][1], side="right")),
    )


def _order(times: Vector, updates: int) -> list[tuple[int, float]]:
    """Whose gradient is applied when: worker and time of each update."""
    ends = [(float(first), worker) for worker, first in enumerate(times[0])]
    heapq.heapify(ends)
    done = [1] * times.shape[1]
    order: list[tuple[int, float]] = []
    while len(order) < updates:
        end, worker = ends[0]
        order.append((worker, end))
        # None computes more gradients than there are updates; the last one's time is not needed.
        again = float(times[min(done[worker], updates - 1), worker])
        done[worker] += 1
        heapq.heapreplace(ends, (end + again, worker))
    return order


def _train_asynchronously(
    order: list[tuple[int, float]], rate: float, noise: Vector
) -> tuple[list[int], list[float]]:
    weights = _first_weights()
    fetched: dict[int, tuple[int, Vector]] = {}
    staleness, losses = [], [1.0]
    for update, (worker, _end) in enumerate(order):
        version, seen = fetched.get(worker, (0, _first_weights()))
        staleness.append(update - version)
        weights = _updated(weights, CURVATURES * seen + noise[update], rate)
        fetched[worker] = update + 1, weights
        losses.append(_loss(weights))
    return staleness, losses


def _train_synchronously(rate: float, noise: Vector) -> list[float]:
    weights = _first_weights()
    losses = [1.0]
    for one in noise:
        weights = _updated(weights, CURVATURES * weights + one, rate)
        losses.append(_loss(weights))
    return losses


def _first_weights() -> Vector:
    """Where the loss is 1, in equal parts from each curvature."""
    return np.sqrt(2 / (CURVATURES * len(CURVATURES)))


def _loss(weights: Vector) -> float:
    return float(CURVATURES @ weights**2 / 2)


def _updated(weights: Vector, gradient: Vector, rate: float) -> Vector:
    """One step further; what has grown beyond hope stays as it is."""
    return weights if _loss(weights) > DIVERGED else weights - rate * gradient
