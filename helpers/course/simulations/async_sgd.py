"""A small simulation of asynchronous training, in which workers do not wait for each other.

Each worker fetches the weights and computes a gradient. The gradient is applied immediately,
regardless of the number of updates by other workers in the meantime. This number is the gradient's
staleness, which lesson 5 counts. The algorithm is in Dean et al., 2012, "Large Scale Distributed
Deep Networks", NeurIPS 25, section 4.1. With N equal workers, the mean staleness is N−1 updates,
because every other worker updates once while one worker computes.

The reason is that these workers only compute. Lesson 5 measures less than N−1, because it counts
from reading to updating, and its workers also wait for the next order between two steps.

The loss is quadratic, which is the simplest case in which staleness can prevent convergence. With
curvature h, learning rate η and a constant staleness τ, w ← w − ηh·w(τ updates ago) converges only
if ηh < 2·sin(π / (2(2τ+1))). This bound is 2 for τ=0, 1 for τ=1, and about π/(2τ) for large τ.
Source: Levin and May, 1976, "A note on difference-delay equations", Theoretical Population Biology
9(2).
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import NamedTuple

from helpers.errors import ConfigError, check_count
from helpers.i18n import _

UPDATES = 300
CURVATURES = 1.0, 0.5, 0.25, 0.1  # h in the loss ½·Σ h·w²
SPREAD = 0.2  # of the logarithm of a gradient's time, whose median is 1
NOISE = 0.05  # of a gradient; the first gradients are about 1
DIVERGED = 1e6  # the multiple of the first loss at which the simulation stops
SEED = 1

Vector = tuple[float, ...]


class Training(NamedTuple):
    """The course of asynchronous training, compared with synchronous training.

    Attributes:
      staleness: the staleness of each update's gradient.
      by_slow: whether the slow worker computed each update.
      losses: the loss after each update, relative to the first loss. The first entry is 1.
      synchronous: the relative loss after each step of synchronous training with the mean gradient
        of all workers.
      same_time: the number of steps of synchronous training in the time of all asynchronous
        updates.
    """

    staleness: list[int]
    by_slow: list[bool]
    losses: list[float]
    synchronous: list[float]
    same_time: int

    @property
    def mean(self) -> float:
        """The mean staleness."""
        return sum(self.staleness) / len(self.staleness)


def largest_rate(staleness: int) -> float:
    """The learning rate above which the weights diverge under a constant staleness."""
    return 2 * math.sin(math.pi / (2 * (2 * staleness + 1))) / max(CURVATURES)


def simulate(workers: int, slowness: float, rate: float, updates: int = UPDATES) -> Training:
    """Simulates asynchronous and synchronous training. Equal arguments yield equal results.

    Args:
      workers: the number of workers, of which the first is the slow one.
      slowness: the factor of the slow worker's time for a gradient, 1 or more.
      rate: the learning rate.
      updates: the number of asynchronous updates.

    Raises:
      ConfigError: a number is outside its range.
    """
    check_count("workers", workers)
    check_count("updates", updates)
    if not (slowness >= 1 and 0 < rate < math.inf):
        message = _(
            "slowness={slowness!r} and rate={rate!r} cannot be simulated: use a slowness of "
            "at least 1, and a learning rate above 0."
        )
        raise ConfigError(message.format(slowness=slowness, rate=rate))
    chance = Random(SEED)
    times = [
        [math.exp(chance.gauss(0, SPREAD)) for _worker in range(workers)] for _ in range(updates)
    ]
    times = [[slowness * first, *others] for first, *others in times]
    noise = [tuple(chance.gauss(0, NOISE) for _h in CURVATURES) for _ in range(updates)]
    order = _order(times)
    staleness, losses = _train_asynchronously(order, rate, noise)
    steps = list(accumulate(map(max, times)))  # each step lasts as long as its slowest worker
    shared = math.sqrt(workers)
    return Training(
        staleness,
        [worker == 0 and slowness > 1 for worker, _end in order],
        losses,
        _train_synchronously(rate, [tuple(one / shared for one in step) for step in noise]),
        bisect_right(steps, order[-1][1]),
    )


def _order(times: Sequence[Sequence[float]]) -> list[tuple[int, float]]:
    """The worker and the time of each update."""
    updates = len(times)
    ends = [(first, worker) for worker, first in enumerate(times[0])]
    heapq.heapify(ends)
    done = [1] * len(ends)
    order: list[tuple[int, float]] = []
    while len(order) < updates:
        end, worker = ends[0]
        order.append((worker, end))
        # No worker computes more gradients than there are updates, so the last time is not needed.
        again = times[min(done[worker], updates - 1)][worker]
        done[worker] += 1
        heapq.heapreplace(ends, (end + again, worker))
    return order


def _train_asynchronously(
    order: list[tuple[int, float]], rate: float, noise: Sequence[Vector]
) -> tuple[list[int], list[float]]:
    weights = _first_weights()
    fetched: dict[int, tuple[int, Vector]] = {}
    staleness, losses = [], [1.0]
    for update, (worker, _end) in enumerate(order):
        version, seen = fetched.get(worker, (0, _first_weights()))
        staleness.append(update - version)
        weights = _updated(weights, seen, noise[update], rate)
        fetched[worker] = update + 1, weights
        losses.append(_loss(weights))
    return staleness, losses


def _train_synchronously(rate: float, noise: Sequence[Vector]) -> list[float]:
    weights = _first_weights()
    losses = [1.0]
    for one in noise:
        weights = _updated(weights, weights, one, rate)
        losses.append(_loss(weights))
    return losses


def _first_weights() -> Vector:
    """Initial weights with a loss of 1, to which each curvature contributes equally."""
    return tuple(math.sqrt(2 / (h * len(CURVATURES))) for h in CURVATURES)


def _loss(weights: Vector) -> float:
    return sum(h * w * w for h, w in zip(CURVATURES, weights, strict=True)) / 2


def _updated(weights: Vector, seen: Vector, noise: Vector, rate: float) -> Vector:
    """The weights after an update with the gradient at `seen`. Diverged weights stay unchanged."""
    if _loss(weights) > DIVERGED:
        return weights
    return tuple(
        w - rate * (h * old + error)
        for w, h, old, error in zip(weights, CURVATURES, seen, noise, strict=True)
    )
