"""Project 4, the expected results: those of one process, and those of frequent mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from helpers.course.projects.model_parallel_network import COUNTS, Layer
from helpers.course.projects.observations import describe_mismatch

RATE = 0.5  # the learning rate
TOLERANCE = 1e-9  # of float64
KIND = np.dtype("float64")
Weights = list[Any]  # of each layer


class Job(NamedTuple):
    """What a pipeline trains in one call.

    Attributes:
      widths: the inputs of the network, and the outputs of each layer.
      sizes: the number of examples of each batch.
      micro_batches: the number of parts into which each batch is divided.
    """

    widths: Sequence[int]
    sizes: Sequence[int]
    micro_batches: int

    @property
    def workers(self) -> int:
        """The number of processes, one for each layer."""
        return len(self.widths) - 1

    @property
    def sent(self) -> list[int]:
        """The bytes that each process sends: outputs to the next one, gradients to the previous."""
        numbers = [0, *self.widths[1:-1], 0]
        return [KIND.itemsize * sum(self.sizes) * sum(pair) for pair in pairwise(numbers)]


class Training(NamedTuple):
    """The data of a job."""

    weights: Weights
    batches: list[tuple[Any, Any]]
    micro_batches: int


def make_training(job: Job, seed: int) -> Training:
    """The weights, examples and labels of a job."""
    generator = np.random.default_rng([seed, *job.widths])
    weights = [
        generator.standard_normal((inputs + 1, outputs)) / np.sqrt(inputs)
        for inputs, outputs in pairwise(job.widths)
    ]
    batches = [
        (
            generator.standard_normal((size, job.widths[0])),
            generator.integers(job.widths[-1], size=size),
        )
        for size in job.sizes
    ]
    return Training(weights, batches, job.micro_batches)


class Gradients(NamedTuple):
    """The mean loss of some examples, and its gradient for the weights of each layer."""

    loss: float
    weights: Weights


def gradients(weights: Weights, examples: Any, labels: Any, reverse: int = 0) -> Gradients:
    """Runs all layers in one process.

    Args:
      reverse: if not 0, the examples consist of so many equal parts, and the first layer uses the
        activations of the parts in reverse order.
    """
    layers = [Layer(one, place == len(weights) - 1, 1) for place, one in enumerate(weights)]
    inputs = [examples]
    for layer in layers:
        inputs.append(layer.forward(inputs[-1]))
    loss, error = layers[-1].loss(inputs[-1], labels)
    found = []
    for place in reversed(range(len(layers))):
        pair = inputs[place], inputs[place + 1]
        if reverse and place == 0:
            pair = _reverse(pair[0], reverse), _reverse(pair[1], reverse)
        error, gradient = layers[place].backward(*pair, error)
        found.append(gradient)
    return Gradients(loss, found[::-1])


def _reverse(rows: Any, parts: int) -> Any:
    return np.concatenate(np.split(rows, parts)[::-1])


def train_alone(training: Training, rule: str = "") -> tuple[Weights, list[float]]:
    """The weights and losses of one process, or of a mistake that has a name in `RULES`."""
    weights, losses = list(training.weights), []
    for examples, labels in training.batches:
        found = _combine(weights, examples, labels, training.micro_batches, rule)
        losses.append(found.loss)
        weights = [
            one - RATE * gradient for one, gradient in zip(weights, found.weights, strict=True)
        ]
    return weights, losses


RULES = ("mean", "sum", "divided", "examples", "last", "unchanged", "reversed")


def _combine(weights: Weights, examples: Any, labels: Any, count: int, rule: str) -> Gradients:
    if rule == "reversed":
        return gradients(weights, examples, labels, count if len(labels) % count == 0 else 0)
    if rule in ("mean", "sum", "last"):
        pairs = zip(np.array_split(examples, count), np.array_split(labels, count), strict=True)
        parts = [gradients(weights, *pair) for pair in pairs]
        parts, divisor = (parts[-1:], 1) if rule == "last" else (parts, count)
        return _scaled(parts, 1 / divisor if rule == "mean" else 1)
    factors = {"divided": 1 / count, "examples": len(labels), "unchanged": 0}
    return _scaled([gradients(weights, examples, labels)], factors.get(rule, 1))


def _scaled(parts: Sequence[Gradients], factor: float) -> Gradients:
    sums = [sum(arrays) * factor for arrays in zip(*(one.weights for one in parts), strict=True)]
    return Gradients(sum(one.loss for one in parts) * factor, sums)


def find_difference(training: Training, results: Sequence[Any]) -> dict[str, Any] | None:
    """The first difference between the results of `train_stage` and those of one process, or None.

    Args:
      results: of each process, see `model_parallel_network.Process.train_stage`.
    """
    wanted, losses = train_alone(training)
    start = len(COUNTS) + len(losses)
    for rank, (result, right) in enumerate(zip(results, wanted, strict=True)):
        if mismatch := describe_mismatch(result, (start + right.size,)):
            return {"problem": "array", "rank": rank, "found": mismatch}
        weights = result[start:]
        if not _are_close(weights, right.ravel()):
            cause = next(
                (
                    rule
                    for rule in RULES
                    if _are_close(weights, train_alone(training, rule)[0][rank].ravel())
                ),
                "",
            )
            largest = float(np.abs(weights - right.ravel()).max())
            found = largest if np.isfinite(largest) else None
            return {"problem": "weights", "rank": rank, "found": found, "cause": cause}
    returned = results[-1][len(COUNTS) : start]
    if not _are_close(returned, np.array(losses)):
        batch = int(np.argmax(np.abs(returned - losses)))
        pair = {"found": float(returned[batch]), "wanted": losses[batch], "batch": batch}
        cause = next(
            (r for r in RULES if _are_close(returned, np.array(train_alone(training, r)[1]))), ""
        )
        return {"problem": "loss", "rank": len(results) - 1, "cause": cause, **pair}
    return None


def _are_close(found: Any, wanted: Any) -> bool:
    return bool((np.abs(found - wanted) <= TOLERANCE * (1 + np.abs(wanted))).all())


class Block:
    """The block of two layers in one process: tanh(x @ w1 + b1) @ w2 + b2."""

    def __init__(self, weights: Weights) -> None:
        self.weights = list(weights)
        self._inputs: Any = None
        self._hidden: Any = None
        self._gradients: list[Any] = []

    def forward(self, inputs: Any) -> Any:
        """The outputs."""
        first, biases, second, last_biases = self.weights
        self._inputs, self._hidden = inputs, np.tanh(inputs @ first + biases)
        return self._hidden @ second + last_biases

    def backward(self, gradient: Any) -> Any:
        """The gradient of the inputs."""
        first, _biases, second, _last_biases = self.weights
        error = (gradient @ second.T) * (1 - self._hidden**2)
        self._gradients = [
            self._inputs.T @ error, error.sum(axis=0), self._hidden.T @ gradient, gradient.sum(0)
        ]  # fmt: skip
        return error @ first.T

    def update(self, rate: float, factors: Sequence[float] = (1, 1, 1, 1)) -> None:
        """Changes the weights. The factors of the gradients are those of a mistake."""
        self.weights = [
            one - rate * factor * gradient
            for one, gradient, factor in zip(self.weights, self._gradients, factors, strict=True)
        ]


def make_block(widths: Sequence[int], seed: int) -> Weights:
    """The weights of a block with these inputs, hidden outputs, and outputs."""
    generator = np.random.default_rng([seed, 1, *widths])
    inputs, hidden, outputs = widths
    return [
        generator.standard_normal((inputs, hidden)) / np.sqrt(inputs),
        generator.standard_normal(hidden),
        generator.standard_normal((hidden, outputs)) / np.sqrt(hidden),
        generator.standard_normal(outputs),
    ]


def make_pass(widths: Sequence[int], size: int, seed: int, turn: int) -> tuple[Any, Any]:
    """The inputs of a forward pass, and the gradient of its outputs."""
    generator = np.random.default_rng([seed, 2, turn])
    return (
        generator.standard_normal((size, widths[0])),
        generator.standard_normal((size, widths[-1])) / size,
    )


UPDATES = {  # the factors of the gradients of w1, b1, w2 and b2 in an update
    "not updated": (0, 0, 0, 0),
    "all gradients": (2, 2, 2, 2),
    "last biases": (1, 1, 1, 2),
    "no last biases": (1, 1, 1, 0),
}


def find_block_difference(
    method: str, wanted: Any, results: Sequence[Any], mistakes: dict[str, Any]
) -> dict[str, Any] | None:
    """The first difference between what two processes returned and the wanted array, or None.

    Args:
      mistakes: what each mistake would return.
    """
    for rank, result in enumerate(results):
        if mismatch := describe_mismatch(result, wanted.shape):
            return {"problem": "array", "rank": rank, "found": mismatch, "method": method}
    for rank, result in enumerate(results):
        if not _are_close(result, wanted):
            largest = float(np.abs(result - wanted).max())
            found = largest if np.isfinite(largest) else None
            causes = _block_causes(wanted, rank, results, mistakes)
            cause = {"cause": next(causes, "")}
            return {"problem": "value", "rank": rank, "found": found, "method": method, **cause}
    return None


def _block_causes(
    wanted: Any, rank: int, results: Sequence[Any], mistakes: dict[str, Any]
) -> Iterator[str]:
    for name, values in mistakes.items():
        if _are_close(results[rank], values):
            yield name
    total = sum(results)
    for extra in (0, mistakes["bias"] - wanted if "bias" in mistakes else 0):
        if _are_close(total, wanted + extra):  # each process has only its own part
            yield "partial"
