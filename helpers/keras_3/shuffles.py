"""One order of the examples for all workers, if the program has set no seed.

If TensorFlow shards a dataset, each worker runs the whole dataset and keeps its share of each
batch. If each worker had a different order, an epoch would miss some examples and see others twice.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from helpers.keras_3 import dataset_seeds
from helpers.keras_3.agreement import Group


class Order:
    """The order of one dataset of `fit`, which differs in each iteration.

    Attributes:
      iteration: the number of iterators created from the dataset, which is equal on all workers.
    """

    def __init__(self, seed: int) -> None:
        self.iteration = 0
        self._seed = seed

    def shuffled(self, values: Any) -> Any:
        """A permutation of an array, determined by the seed, the iteration and the first value."""
        import numpy as np

        first = int(values[0]) if len(values) else 0
        return np.random.default_rng([self._seed, self.iteration, first]).permutation(values)


_thread = threading.local()


def install() -> None:
    """Replaces the shuffles of Keras's adapters, and of datasets that a strategy distributes."""
    adapters = "keras.src.trainers.data_adapters"
    arrays: Any = importlib.import_module(f"{adapters}.array_data_adapter")
    batches: Any = importlib.import_module(f"{adapters}.py_dataset_adapter")
    array, py_dataset = arrays.ArrayDataAdapter, batches.PyDatasetAdapter
    array.get_tf_dataset = _with_group_order(array.get_tf_dataset)
    py_dataset._finite_generator = _generating_in_order(py_dataset._finite_generator)
    batches.OrderedEnqueuer._run = _running_in_order(batches.OrderedEnqueuer._run)
    batches.random = _Random(batches.random)
    dataset_seeds.install()


def give_order(adapter: Any, group: Group) -> bool:
    """Assigns the group's order to a Keras data adapter if it shuffles without a seed.

    Returns: whether the adapter shuffles.
    """
    shuffles = bool(getattr(adapter, "_shuffle", False) or getattr(adapter, "shuffle", False))
    if shuffles and global_seed() is None:
        adapter._group_order = Order(group.seed() + group.meetings)
        enqueuer = getattr(adapter, "enqueuer", None)
        if enqueuer is not None:
            enqueuer._group_order = adapter._group_order
    return shuffles


def next_iteration(adapter: Any) -> None:
    """Records that an iterator is about to be created."""
    order = getattr(adapter, "_group_order", None)
    if order is not None and getattr(adapter, "enqueuer", None) is None:
        order.iteration += 1


def global_seed() -> int | None:
    """The seed set by `tf.random.set_seed` or `keras.utils.set_random_seed`, or None."""
    context: Any = importlib.import_module("tensorflow.python.eager.context")
    seed: int | None = context.global_seed()
    return seed


class _Random:
    """The module `random`, except that `shuffle` uses the order of this thread."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def shuffle(self, values: Any) -> None:
        """Shuffles a list in place."""
        order = getattr(_thread, "order", None)
        if order is None:
            self._module.shuffle(values)
        else:
            values[:] = [int(value) for value in order.shuffled(values)]


@contextlib.contextmanager
def _ordered(order: Order | None) -> Iterator[None]:
    _thread.order = order
    try:
        yield
    finally:
        _thread.order = None


def _with_group_order(get: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `ArrayDataAdapter.get_tf_dataset`, which calls `tf.random.shuffle`."""

    @functools.wraps(get)
    def get_tf_dataset(self: Any) -> Any:
        import tensorflow as tf

        order = getattr(self, "_group_order", None)
        if order is None:
            return get(self)
        original = tf.random.shuffle

        def shuffle(value: Any, *_args: Any, **_options: Any) -> Any:
            shuffled = tf.numpy_function(order.shuffled, [value], value.dtype)
            return tf.ensure_shape(shuffled, value.shape)

        tf.random.shuffle = shuffle
        try:
            return get(self)
        finally:
            tf.random.shuffle = original

    return get_tf_dataset


def _generating_in_order(generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def finite_generator(self: Any) -> Iterator[Any]:
        batches, end = generate(self), object()
        with _ordered(getattr(self, "_group_order", None)):
            first = next(batches, end)  # the order is drawn before the first batch
        if first is not end:
            yield first
            yield from batches

    return finite_generator


def _running_in_order(run: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(run)
    def run_in_order(self: Any) -> None:
        order = getattr(self, "_group_order", None)
        if order is not None:
            order.iteration += 1  # this thread is started once per epoch
        with _ordered(order):
            run(self)

    return run_in_order
