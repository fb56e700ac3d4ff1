"""Project 2, the expected weights: those of one process that trains with all examples of each step.

If the weights of a student's module differ, they are also compared with those of usual mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from helpers.course.projects.data_parallel_network import Network
from helpers.course.projects.observations import describe_mismatch

RATE = 0.5  # the learning rate
TOLERANCE = 1e-6
Arguments = Sequence[Sequence[Any]]  # of each process, as in `data_parallel_network.Training.train`


def train_alone(arguments: Arguments) -> list[Any]:
    """The weights of one process that trains with all examples of each step."""
    network = Network(_start(arguments[0]))
    for step in zip(*map(_batches, arguments), strict=True):
        examples, labels = (np.concatenate(parts) for parts in zip(*step, strict=True))
        for layer, gradient in network.gradients(examples, labels):
            network.weights[layer] = network.weights[layer] - RATE * gradient
    return network.weights


def compare(arguments: Arguments, results: Sequence[Any]) -> dict[str, Any] | None:
    """The first difference between the results and the weights of one process, or None.

    All processes must also have the same bits, because otherwise their weights would drift apart.
    """
    wanted = train_alone(arguments)
    size = sum(array.size for array in wanted)
    for rank, result in enumerate(results):
        if mismatch := describe_mismatch(result, (size,)):
            return {"problem": "array", "rank": rank, "found": mismatch}
        distances = np.abs(result - _join(wanted))
        if not (distances <= TOLERANCE).all():
            place = {"rank": rank, "layer": _layer(wanted, int(np.argmax(distances)))}
            largest = float(distances.max())
            found = largest if np.isfinite(largest) else None
            cause = find_mistake(arguments, rank, result)
            return {"problem": "value", **place, "found": found, "cause": cause}
    for rank, result in enumerate(results):
        if (result != results[0]).any():
            found = float(np.abs(result - results[0]).max())
            return {"problem": "bits", "rank": rank, "found": found}
    return None


def find_mistake(arguments: Arguments, rank: int, result: Any) -> str:
    """The name of the mistake that explains the weights of a process, or an empty text."""
    own, mean = list(map(_start, arguments)), _mean_weights(map(_start, arguments))
    first, last = [own[0]] * len(own), _last_bucket(arguments[0])

    def mistakes() -> Iterator[tuple[str, list[Any]]]:
        yield "start", _train_wrongly(arguments, own, _weighted_mean)[rank]
        yield "mean start", _train_wrongly(arguments, [mean] * len(own), _weighted_mean)[rank]
        for name, combine in MISTAKES.items():
            yield name, _train_wrongly(arguments, first, combine)[rank]
        yield "mean at the end", _mean_weights(_train_wrongly(arguments, first, _own))
        for combine in (_none, _own):
            others = dict.fromkeys(last, combine)
            yield "last bucket", _train_wrongly(arguments, first, _weighted_mean, others)[rank]

    for name, weights in mistakes():
        if np.allclose(_join(weights), result, rtol=0, atol=TOLERANCE):
            return name
    return ""


def _train_wrongly(
    arguments: Arguments,
    starts: Sequence[list[Any]],
    combine: Combine,
    others: Mapping[int, Combine] = MappingProxyType({}),
) -> list[list[Any]]:
    """The weights of all processes, if they combine the gradients in another way.

    Args:
      starts: the weights of each process at the start.
      others: how they combine the gradients of certain layers.
    """
    networks = [Network(start) for start in starts]
    for step in zip(*map(_batches, arguments), strict=True):
        sizes = [len(labels) for _examples, labels in step]
        found = [
            dict(network.gradients(*batch)) for network, batch in zip(networks, step, strict=True)
        ]
        for place, network in enumerate(networks):
            for layer, weights in enumerate(network.weights):
                gradients = [one[layer] for one in found]
                change = others.get(layer, combine)(gradients, sizes, place)
                network.weights[layer] = weights - RATE * change
    return [network.weights for network in networks]


def _mean_weights(weights: Iterable[list[Any]]) -> list[Any]:
    return [sum(arrays) / len(arrays) for arrays in zip(*weights, strict=True)]


def _last_bucket(arguments: Sequence[Any]) -> list[int]:
    """The layers of the last bucket, if it is not full."""
    layers: list[int] = []
    weights = _start(arguments)
    for layer in reversed(range(len(weights))):
        layers.append(layer)
        if sum(weights[one].nbytes for one in layers) >= arguments[0][1]:
            layers = []
    return layers


Combine = Callable[[list[Any], list[int], int], Any]
"""Combines the gradients of all processes. Also gets their sizes, and the rank of the process."""


def _weighted_sum(gradients: list[Any], sizes: list[int], rank: int) -> Any:
    return sum(one * size for one, size in zip(gradients, sizes, strict=True))


def _weighted_mean(gradients: list[Any], sizes: list[int], rank: int) -> Any:
    return _weighted_sum(gradients, sizes, rank) / sum(sizes)


def _mean(gradients: list[Any], sizes: list[int], rank: int) -> Any:
    return sum(gradients) / len(gradients)


def _sum(gradients: list[Any], sizes: list[int], rank: int) -> Any:
    return sum(gradients)


def _own(gradients: list[Any], sizes: list[int], rank: int) -> Any:
    return gradients[rank]


def _none(gradients: list[Any], sizes: list[int], rank: int) -> Any:
    return 0 * gradients[rank]


MISTAKES: dict[str, Combine] = {
    "mean": _mean,
    "sum": _sum,
    "weighted sum": _weighted_sum,
    "own": _own,
}


def _start(arguments: Sequence[Any]) -> list[Any]:
    return list(arguments[4:])


def _batches(arguments: Sequence[Any]) -> list[tuple[Any, Any]]:
    _settings, sizes, examples, labels = arguments[:4]
    ends = np.cumsum(sizes)[:-1]
    return list(zip(np.split(examples, ends), np.split(labels, ends), strict=True))


def _layer(weights: Sequence[Any], element: int) -> int:
    """The layer to which an element of all weights belongs."""
    ends = np.cumsum([array.size for array in weights])
    return int(np.searchsorted(ends, element, side="right"))


def _join(weights: Sequence[Any]) -> Any:
    return np.concatenate([array.ravel() for array in weights])
