"""Project 3, the expected results: gradients, an unsharded Adam, and frequent mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

KIND = np.dtype("float32")
MAX_GRADIENT = 256  # gradients are multiples of 1/256, so their sums have no rounding errors
Shapes = Sequence[Sequence[int]]


class Settings(NamedTuple):
    """The hyperparameters of Adam."""

    learning_rate: float
    beta_1: float
    beta_2: float
    epsilon: float


def make_parameters(shapes: Shapes, seed: int) -> list[Any]:
    """The initial parameters, equal in all processes."""
    generator = np.random.default_rng([seed, 1])
    return [generator.uniform(-1, 1, shape).astype(KIND) for shape in shapes]


def make_gradients(shapes: Shapes, seed: int, turn: int, workers: int) -> list[list[Any]]:
    """The gradients of each process for one step."""
    generator = np.random.default_rng([seed, 2, turn])
    high = MAX_GRADIENT + 1
    return [
        [(generator.integers(-MAX_GRADIENT, high, shape) / MAX_GRADIENT).astype(KIND)
         for shape in shapes]
        for _rank in range(workers)
    ]  # fmt: skip


def flat(arrays: Iterable[Any]) -> Any:
    """All numbers of several arrays in one array of float64."""
    return np.concatenate([array.reshape(-1) for array in arrays]).astype("float64")


def unsharded_adam(
    start: Any,
    gradients: Iterable[Any],
    settings: Settings,
    *,
    correct: bool = True,
    root: str = "",
    restored: int = -1,
    forget: str = "",
) -> Any:
    """The parameters after these gradients, as `tf.keras.optimizers.Adam` computes them.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 2, with its
    epsilon hat, https://arxiv.org/abs/1412.6980.

    Args:
      correct: whether the bias of the moments is corrected.
      root: "corrected" if epsilon is added to the root of the corrected v, as in PyTorch, or
        "inside" if it is added to v.
      restored: the number of steps before a restart that forgets something.
      forget: "steps", "moments", or "steps moments".
    """
    rate, beta_1, beta_2, epsilon = settings
    found, m, v, step = start.copy(), np.zeros_like(start), np.zeros_like(start), 0
    for turn, gradient in enumerate(gradients):
        if turn == restored:
            step = 0 if "steps" in forget else step
            m, v = (m * 0, v * 0) if "moments" in forget else (m, v)
        step += 1
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        scale = np.sqrt(1 - beta_2**step) if correct else 1
        alpha = rate * scale / (1 - beta_1**step) if correct else rate
        added = epsilon * scale if root == "corrected" else epsilon
        divisor = np.sqrt(v + epsilon) if root == "inside" else np.sqrt(v) + added
        found = found - alpha * m / divisor
    return found


def allowed_difference(wanted: Any, steps: int, settings: Settings) -> Any:
    """The rounding errors of float32: of each sum, and of each step divided by its size."""
    return steps * (np.finfo(KIND).eps * (1 + np.abs(wanted)) + 1e-4 * settings.learning_rate)


def frequent_mistakes(
    start: Any, gradients: Sequence[Sequence[Any]], settings: Settings, place: int, restored: int
) -> Iterator[tuple[str, Any]]:
    """The values that an element has after frequent mistakes, with their names.

    Args:
      gradients: of each step, those of all processes.
      restored: the number of steps before the restart, or -1 without one.
    """
    element = slice(place, place + 1)
    first, own = start[element], [[one[element] for one in step] for step in gradients]
    means = [sum(step) / len(step) for step in own]

    def adam(gradients: Iterable[Any] = means, **arguments: Any) -> Any:
        return unsharded_adam(first, gradients, settings, **arguments)[0]

    if restored >= 0:
        for name in ("steps", "moments", "steps moments"):
            yield name, adam(restored=restored, forget=name)
    yield "unchanged", first[0]
    yield "sum", adam(sum(step) for step in own)
    yield "bias", adam(correct=False)
    for root in ("corrected", "inside"):
        yield root, adam(root=root)
    for rank in range(min(map(len, own))):  # a restart may change the number of processes
        yield "local", adam(step[rank] for step in own)
