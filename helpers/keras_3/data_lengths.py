"""Agreement of the workers on the number of steps of an epoch, and checks of their data."""

from __future__ import annotations

import importlib
import warnings
import zlib
from collections.abc import Sequence
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.i18n import _, join_items, labeled, ngettext
from helpers.keras_3 import dataset_seeds, shuffles
from helpers.keras_3.agreement import Group, Position
from helpers.keras_3.scopes import user_location

SAMPLES = 1024  # elements of an array that the workers compare


def agree_on_steps(iterator: Any, group: Group, shuffled: bool) -> None:
    """Agrees on the number of batches and steps of an iterator, and compares the workers' data.

    Raises:
      ConfigError: the workers' data or options are incompatible.
    """
    call = group.calls[-1] if group.calls else None
    adapter, dataset = iterator.data_adapter, iterator._distributed_dataset
    batches, infinite = _length(adapter, dataset)
    number = call.datasets if call else 0
    if call:
        call.datasets += 1
    name = call.name if call else _("data")
    positions = group.agree(
        f"{name} {number}",
        call.text if call else user_location(),
        options=call.facts if call else {},
        batches=batches,
        infinite=infinite,
        steps_per_epoch=iterator.steps_per_epoch,
        batch_size=getattr(adapter, "_batch_size", None),
        arrays=_sample(adapter),
        seed=shuffles.global_seed() if shuffled else None,
    )
    _check_alike(group, positions)
    lengths = [position["batches"] for position in positions]
    iterator._batches = None if None in lengths else max(lengths)
    iterator._num_batches = iterator._batches
    iterator._open_ended = infinite
    if iterator.steps_per_epoch is not None:
        iterator.steps_per_epoch = _smallest(group, positions)
    elif len(set(lengths)) > 1 and None not in lengths:
        _report_lengths(group, lengths)
    if _is_whole_on_each_worker(dataset):
        message = ngettext(
            "auto_shard_policy is OFF and the dataset is not sharded, so each worker trains on all "
            "of it. In an epoch, each example is used {workers} time, unless the workers' "
            "datasets differ. Call dataset.shard(num_workers, index), or use the default policy.",
            "auto_shard_policy is OFF and the dataset is not sharded, so each worker trains on all "
            "of it. In an epoch, each example is used {workers} times, unless the workers' "
            "datasets differ. Call dataset.shard(num_workers, index), or use the default policy.",
            group.size,
        )
        warnings.warn(message.format(workers=group.size), stacklevel=2)


def _length(adapter: Any, dataset: Any) -> tuple[int | None, bool]:
    """The number of batches of this worker, None if unknown, and whether they never end."""
    original = getattr(dataset, "_original_dataset", None)
    if original is not None and type(adapter).__name__ == "TFDatasetAdapter":
        count = int(original.cardinality())
        if count >= 0 and dataset_seeds.is_unsharded(original):
            return None, False  # it is split into smaller batches, and each worker uses all
        return (count if count >= 0 else None), count == -1
    if original is None:
        count = int(dataset.cardinality)
        return (count if count >= 0 else None), count == -1
    return adapter.num_batches, False


def _check_alike(group: Group, positions: Sequence[Position]) -> None:
    """Raises ConfigError if the workers' calls are incompatible."""
    for option in positions[0]["options"]:
        values = [position["options"].get(option) for position in positions]
        if any(value != values[0] for value in values):
            message = _(
                "{option} differs between workers, at {where}: {values}. Pass the same value on "
                "all workers."
            )
            raise ConfigError(_filled(message, group, positions, values, option=option))
    sizes = [position["batch_size"] for position in positions]
    if len(set(sizes)) > 1:
        message = _(
            "batch_size differs between workers, at {where}: {values}. It is the size of the "
            "global batch, of which each worker uses its share. Pass the same value on all "
            "workers."
        )
        raise ConfigError(_filled(message, group, positions, sizes))
    endless = [position["infinite"] for position in positions]
    if len(set(endless)) > 1:
        raise ConfigError(_some_endless(group, positions, endless))
    seeds = [position["seed"] for position in positions]
    if len(set(seeds)) > 1:
        message = _(
            "The workers shuffle the data with different seeds, at {where}: {values}. Each uses "
            "its share of each batch, so all need the same order. Set the same seed on all "
            "workers, or none."
        )
        raise ConfigError(_filled(message, group, positions, seeds))
    arrays = [position["arrays"] for position in positions]
    if any(array != arrays[0] for array in arrays):
        message = _(
            "The workers received different arrays, at {where} ({values}). Each worker uses its "
            "share of each batch and drops the rest, so pass all arrays on all workers. If the "
            "data is already sharded, or random, pass a dataset with auto_shard_policy OFF."
        )
        examples = [array and labels.examples(array[0]) for array in arrays]
        warnings.warn(_filled(message, group, positions, examples), stacklevel=2)


def _some_endless(group: Group, positions: Sequence[Position], endless: Sequence[bool]) -> str:
    message = _(
        "The data of {endless} never ends, but the data of {others} does, at {where}. Call "
        "repeat() on the datasets of all workers, or of none."
    )
    names: dict[bool, list[str]] = {True: [], False: []}
    for name, found in zip(group.names, endless, strict=True):
        names[found].append(name)
    options = {"endless": join_items(names[True]), "others": join_items(names[False])}
    return _filled(message, group, positions, endless, **options)


def _filled(
    message: str,
    group: Group,
    positions: Sequence[Position],
    values: Sequence[Any],
    **more: Any,
) -> str:
    pairs = join_items(map(labeled, group.names, values))
    return message.format(where=positions[group.index]["text"], values=pairs, **more)


def _smallest(group: Group, positions: Sequence[Position]) -> int | None:
    """The smallest `steps_per_epoch` (or `steps`) of the workers, for which all have data."""
    steps = [position["steps_per_epoch"] for position in positions]
    if len(set(steps)) == 1:
        first: int | None = steps[0]
        return first
    if None in steps:
        message = _(
            "steps_per_epoch differs between workers, at {where}: {values}. Pass the same value "
            "on all workers."
        )
        raise ConfigError(_filled(message, group, positions, steps))
    message = _(
        "steps_per_epoch differs between workers, at {where}: {values}. All workers run {steps}, "
        "and each epoch leaves out {batches}."
    )
    least = min(steps)
    left = sum(steps) - least * len(steps)
    counts = {"steps": labels.steps(least), "batches": labels.batches(left)}
    warnings.warn(_filled(message, group, positions, steps, **counts), stacklevel=2)
    return int(least)


def _report_lengths(group: Group, lengths: Sequence[int]) -> None:
    message = ngettext(
        "The workers have different numbers of batches: {values}. The epoch has {steps} "
        "step, and no example is left out. A worker whose data has ended runs the remaining steps "
        "without examples.",
        "The workers have different numbers of batches: {values}. The epoch has {steps} "
        "steps, and no example is left out. A worker whose data has ended runs the remaining steps "
        "without examples.",
        max(lengths),
    )
    values = join_items(map(labeled, group.names, lengths))
    warnings.warn(message.format(values=values, steps=max(lengths)), stacklevel=2)


def _is_whole_on_each_worker(dataset: Any) -> bool:
    original = getattr(dataset, "_original_dataset", None)
    if original is None or not dataset_seeds.is_unsharded(original):
        return False
    return all(type(part).__name__ != "_ShardDataset" for part in dataset_seeds.walk(original))


def _sample(adapter: Any) -> list[int] | None:
    """The number of examples and a checksum of a sample, if `fit` was passed arrays."""
    import numpy as np

    tree: Any = importlib.import_module("keras.src.tree")
    if type(adapter).__name__ != "ArrayDataAdapter":
        return None
    checksum = 0
    for array in tree.flatten(adapter._inputs):
        if isinstance(array, np.ndarray) and array.dtype != object and array.size:
            flat = array.reshape(-1) if array.flags.c_contiguous else array[:SAMPLES].reshape(-1)
            some = np.ascontiguousarray(flat[:: max(1, flat.size // SAMPLES)])
            checksum = zlib.crc32(some.tobytes(), checksum)
    return [adapter._num_samples, checksum]
