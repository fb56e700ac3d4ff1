"""Snapshots of a Keras model in plain numbers: weights, layers, examples."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

MAX_NUMBERS = 2_000_000  # of a snapshot of all weights, and of all gradients together

Record = dict[str, Any]


def replicas(model: Any) -> int:
    """The number of replicas that train a model."""
    strategy = model.distribute_strategy
    return int(strategy.num_replicas_in_sync) if strategy is not None else 1


def own_layers(model: Any) -> list[str]:
    """The classes of layers that compute with a worker's own examples, or draw random numbers."""
    found = set()
    for layer in model._flatten_layers():
        name = type(layer).__name__
        if name == "BatchNormalization" and not layer.synchronized:
            found.add(name)
        if getattr(layer, "seed_generator", None) is not None and not name.startswith("Random"):
            found.add(name)
    return sorted(found)


def snapshot(model: Any) -> Record:
    """The weights of a model: their names, and all numbers if there are not too many."""
    trained, state = split(model)
    names = [[w.path for w in part] for part in (model.trainable_weights, _state(model))]
    kept: Record = {"names": names, "norms": [norms(trained), norms(state)]}
    if size(trained) + size(state) <= MAX_NUMBERS:
        kept["numbers"] = [_flat(trained), _flat(state)]
    return kept


def _state(model: Any) -> list[Any]:
    """Non-trainable weights, without the states of random generators."""
    return [w for w in model.non_trainable_weights if "seed_generator" not in w.path]


def split(model: Any) -> tuple[list[Any], list[Any]]:
    """The values of trained weights, and of other variables."""
    import numpy as np

    trained, state = model.trainable_weights, _state(model)
    return [np.asarray(w.numpy()) for w in trained], [np.asarray(w.numpy()) for w in state]


def _flat(arrays: list[Any]) -> list[float]:
    import numpy as np

    numeric = [array.astype("float64").ravel() for array in arrays if array.dtype.kind in "biuf"]
    return np.concatenate(numeric).tolist() if numeric else []


def norms(arrays: list[Any]) -> list[float]:
    """The sum of magnitudes of each array of numbers."""
    import numpy as np

    numeric = [array for array in arrays if array.dtype.kind in "biuf"]
    return [float(np.abs(array.astype("float64")).sum()) for array in numeric]


def hash_of(arrays: list[Any]) -> int:
    """One number that differs if any bit of the arrays does."""
    found = 0
    for array in arrays:
        found = zlib.crc32(array.tobytes(), found)
    return found


def size(arrays: Any) -> int:
    """The total number of elements."""
    return sum(int(array.size) for array in arrays)


def first_tensor(value: Any) -> Any:
    """The first dense tensor in a structure, or None if there is none."""
    from helpers.estimator import tf

    flat = [one for one in tf.nest.flatten(value) if isinstance(one, tf.Tensor)]
    return flat[0] if flat else None


def row_hashes(array: Any) -> list[int]:
    """One hash for each example."""
    if array is None or not array.ndim:
        return []
    return [zlib.crc32(repr(row.tolist()).encode()) for row in array]


def numbers(value: Any) -> Any:
    """The numbers in a program's result or Keras's logs, with other objects as text."""
    if isinstance(value, Mapping):
        return {str(key): numbers(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [numbers(one) for one in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        import numpy as np

        array = np.asarray(value)
        return array.tolist() if array.dtype.kind in "biuf" else str(type(value).__name__)
    except Exception:  # the reader's object may raise any exception
        return str(type(value).__name__)
