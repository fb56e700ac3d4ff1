"""Seeds for the shuffles of a `tf.data.Dataset` for which the program has set none.

When a dataset is distributed, it is rebuilt from its transformations with a seed that all workers
share. If the transformations are not known, its graph is rewritten.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from helpers.i18n import _
from helpers.keras_3.agreement import Group, group_of

MAX_BYTES = 1 << 30  # of tensors in a rewritten dataset, because a graph holds up to 2 GB

SEEDS = (2, 3)  # the indices of the seeds among the inputs of a shuffle
SHUFFLES = {  # the index of the random generator's resource, if there is one
    "ShuffleDataset": None,
    "ShuffleDatasetV3": 4,
    "ShuffleAndRepeatDataset": None,
    "ShuffleAndRepeatDatasetV2": 5,
}
RECORDED = (  # transformations of a dataset that can be repeated
    *("batch", "cache", "enumerate", "filter", "flat_map", "interleave", "map", "padded_batch"),
    *("prefetch", "repeat", "scan", "shard", "shuffle", "skip", "take", "take_while", "unbatch"),
    *("unique", "window", "with_options"),
)


def install() -> None:
    """Replaces methods of datasets, and of the strategy that distributes them."""
    datasets: Any = importlib.import_module("tensorflow.python.data.ops.dataset_ops")
    strategies: Any = importlib.import_module(
        "tensorflow.python.distribute.collective_all_reduce_strategy"
    )
    for name in RECORDED:
        setattr(datasets.DatasetV2, name, _recorded(getattr(datasets.DatasetV2, name), name))
    extended = strategies.CollectiveAllReduceExtended
    extended._experimental_distribute_dataset = _seeded(extended._experimental_distribute_dataset)


def _seeded(distribute: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `experimental_distribute_dataset`: unseeded shuffles get the group's seed.

    Nothing changes if auto-sharding is off, because each worker may then need its own order.
    """

    @functools.wraps(distribute)
    def distribute_dataset(self: Any, dataset: Any, options: Any) -> Any:
        if self._in_multi_worker_mode() and not is_unsharded(dataset):
            dataset = with_seeds(dataset, group_of(self._container_strategy()))
        return distribute(self, dataset, options)

    return distribute_dataset


def is_unsharded(dataset: Any) -> bool:
    """Whether the dataset's options turn auto-sharding off."""
    import tensorflow as tf

    policy = dataset.options().experimental_distribute.auto_shard_policy
    return bool(policy == tf.data.experimental.AutoShardPolicy.OFF)


def with_seeds(dataset: Any, group: Group) -> Any:
    """The dataset, in which unseeded shuffles have a seed that all workers share."""
    if not any(_shuffles_unseeded(part) for part in walk(dataset)):
        return dataset
    with contextlib.suppress(_UnrecordedError):
        return _rebuilt(dataset, group.seed())
    if sum(_bytes(part) for part in walk(dataset)) > MAX_BYTES:
        message = _(
            "A dataset of more than {limit} MB is shuffled without a seed. Each worker has a "
            "different order, so an epoch misses some examples and sees others twice. Pass the "
            "same seed to shuffle on all workers."
        )
        warnings.warn(message.format(limit=MAX_BYTES >> 20), stacklevel=2)
        return dataset
    options: Any = importlib.import_module("tensorflow.python.data.ops.options")
    graphs: Any = importlib.import_module("tensorflow.core.framework.graph_pb2")
    datasets: Any = importlib.import_module("tensorflow.python.data.ops.dataset_ops")
    raw: Any = importlib.import_module("tensorflow.python.ops.gen_experimental_dataset_ops")
    text = dataset._as_serialized_graph(external_state_policy=options.ExternalStatePolicy.IGNORE)
    graph = graphs.GraphDef.FromString(text.numpy())
    if not _set_seeds(graph, group.seed()):
        return dataset
    variant = raw.dataset_from_graph(graph.SerializeToString())
    seeded = datasets._VariantDataset(variant, dataset.element_spec)
    seeded._unseeded = dataset  # keeps the functions that its graph names
    return seeded.with_options(dataset.options())


class _UnrecordedError(Exception):
    """A dataset was not created by a recorded transformation."""


def _recorded(transform: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wraps a dataset's method: its result can be rebuilt from another dataset."""

    @functools.wraps(transform)
    def recorded(self: Any, *args: Any, **options: Any) -> Any:
        dataset = transform(self, *args, **options)
        with contextlib.suppress(AttributeError):
            dataset._made_by = self, name, args, options
        return dataset

    return recorded


def _rebuilt(dataset: Any, seed: int) -> Any:
    """The dataset with seeds for its shuffles, which shares the part before the first shuffle."""
    if not any(_shuffles_unseeded(part) for part in walk(dataset)):
        return dataset
    if not hasattr(dataset, "_made_by") or any(map(_holds_a_shuffle, dataset._functions())):
        raise _UnrecordedError
    parent, name, args, options = dataset._made_by
    parent = _rebuilt(parent, seed + 1)
    if name == "shuffle" and _shuffles_unseeded(dataset):
        named = ("buffer_size", "seed", "reshuffle_each_iteration", "name")
        options = {**dict(zip(named, args, strict=False)), **options, "seed": seed}
        args = ()
    return getattr(parent, name)(*args, **options)


def walk(dataset: Any) -> Iterator[Any]:
    """The dataset and all datasets that it was created from."""
    yield dataset
    for part in dataset._inputs():
        yield from walk(part)


def _shuffles_unseeded(part: Any) -> bool:
    if "Shuffle" in type(part).__name__ and hasattr(part, "_seed2"):
        return int(part._seed) == 0 and int(part._seed2) == 0
    return any(map(_holds_a_shuffle, part._functions()))


def _holds_a_shuffle(function: Any) -> bool:
    nodes = function.function.graph.as_graph_def(add_shapes=False).node
    return any(node.op in SHUFFLES for node in nodes)


def _bytes(part: Any) -> int:
    tensors = getattr(part, "_tensors", None) or ()
    return sum(t.dtype.size * (t.shape.num_elements() or 0) for t in tensors if hasattr(t, "dtype"))


def _set_seeds(graph: Any, seed: int) -> int:
    """Replaces seeds of (0, 0), which mean none, in the graph and its functions.

    Returns: how many shuffles it seeded.
    """
    count = 0
    for nodes in [graph.node, *(function.node_def for function in graph.library.function)]:
        by_name = {node.name: node for node in nodes}
        for node in list(nodes):
            if node.op not in SHUFFLES:
                continue
            old = [by_name.get(node.input[place].partition(":")[0]) for place in SEEDS]
            if any(found is None or found.op != "Const" or _value(found) for found in old):
                continue
            count += 1
            for place, constant, number in zip(SEEDS, old, (seed, count), strict=True):
                new = nodes.add()
                new.CopyFrom(constant)
                new.name = f"group_seed_{count}_{place}"
                tensor = new.attr["value"].tensor
                tensor.ClearField("tensor_content")
                tensor.int64_val[:] = [number]
                node.input[place] = new.name + (":output:0" if ":" in node.input[place] else "")
            generator = SHUFFLES[node.op]
            if generator is not None:  # the present one has drawn its own seeds
                new = nodes.add(name=f"group_seed_{count}", op="DummySeedGenerator")
                after = ":handle:0" if ":" in node.input[generator] else ""
                node.input[generator] = new.name + after
    return count


def _value(constant: Any) -> int:
    tensors: Any = importlib.import_module("tensorflow.python.framework.tensor_util")
    return int(tensors.MakeNdarray(constant.attr["value"].tensor))
