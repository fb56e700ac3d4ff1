"""The data of `fit`, `evaluate` and `predict` on several workers.

All workers run the same number of steps and see each example once. Building the model uses up no
examples, and the arrays that a program yields remain unchanged.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from helpers.i18n import _
from helpers.keras_3 import shuffles
from helpers.keras_3.agreement import STEPS, DivergedError, group_of
from helpers.keras_3.data_lengths import agree_on_steps
from helpers.keras_3.divergence import CHECK_STEPS, check_weights
from helpers.keras_3.step import is_collective, is_multi_worker

ALIGNMENT = 64  # bytes: TensorFlow shares memory with arrays at its multiples


def install() -> None:
    """Replaces functions of Keras and TensorFlow that handle data."""
    trainers: Any = importlib.import_module("keras.src.backend.tensorflow.trainer")
    functions: Any = importlib.import_module("tensorflow.python.ops.script_ops")
    iterator, trainer = trainers.TFEpochIterator, trainers.TensorFlowTrainer
    iterator.__init__ = _agreeing(iterator.__init__)
    iterator.reset = _keeping_agreed_steps(iterator.reset)
    iterator._enumerate_iterator = _counting(iterator._enumerate_iterator)
    iterator._get_iterator = _counting_iterators(iterator._get_iterator)
    iterator._interrupted_warning = _unless_expected(iterator._interrupted_warning)
    iterator.catch_stop_iteration = _meeting_at_the_end(iterator.catch_stop_iteration)
    trainer._maybe_symbolic_build = _built_from_the_spec(trainer._maybe_symbolic_build)
    trainer._make_function = _after_data(trainer._make_function)
    registry = functions.FuncRegistry
    registry._convert = staticmethod(_copied(registry._convert))
    shuffles.install()


def _agreeing(init: Callable[..., None]) -> Callable[..., None]:
    """Wraps `TFEpochIterator.__init__`: the group agrees on the number of steps.

    Keras uses the number of batches of this worker's dataset.
    """
    module: Any = importlib.import_module("keras.src.trainers.epoch_iterator")

    @functools.wraps(init)
    def agreeing(self: Any, distribute_strategy: Any = None, *args: Any, **options: Any) -> None:
        if not is_multi_worker(distribute_strategy):
            init(self, distribute_strategy, *args, **options)
            return
        group = group_of(distribute_strategy)
        create, found = module.data_adapters.get_data_adapter, {}

        def get_data_adapter(*args: Any, **options: Any) -> Any:
            adapter = create(*args, **options)
            found["shuffles"] = shuffles.give_order(adapter, group)
            return adapter

        with _replaced(module.data_adapters, "get_data_adapter", get_data_adapter):
            init(self, distribute_strategy, *args, **options)
        self._group = group
        agree_on_steps(self, group, found.get("shuffles", False))

    return agreeing


def _keeping_agreed_steps(reset: Callable[..., None]) -> Callable[..., None]:
    """Wraps `reset`, which would use the number of this worker's batches again."""

    @functools.wraps(reset)
    def keeping(self: Any) -> None:
        reset(self)
        if hasattr(self, "_group"):
            self._num_batches = self._batches

    return keeping


def _counting(enumerate_iterator: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `_enumerate_iterator`: records each step, and compares weights at intervals."""

    @functools.wraps(enumerate_iterator)
    def counting(self: Any) -> Iterator[Any]:
        group = getattr(self, "_group", None)
        if group is None:
            yield from enumerate_iterator(self)
            return
        self._begun, checked = 0, 0
        training = bool(group.calls) and group.calls[-1].name == "fit"
        for item in enumerate_iterator(self):
            if training and item[0] - checked >= CHECK_STEPS:
                checked = item[0]
                group.step(self._begun)
                check_weights(group)
            self._begun = item[0] + 1
            group.step(self._begun)
            yield item

    return counting


def _counting_iterators(get_iterator: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `_get_iterator`: each iterator has its place in the order of shuffles."""

    @functools.wraps(get_iterator)
    def counting(self: Any) -> Any:
        shuffles.next_iteration(self.data_adapter)
        return get_iterator(self)

    return counting


def _unless_expected(warn: Callable[..., None]) -> Callable[..., None]:
    """Wraps `_interrupted_warning`: no warning if only the group knows when the data ends."""

    @functools.wraps(warn)
    def interrupted_warning(self: Any) -> None:
        agreed = hasattr(self, "_group") and self._batches is None
        if not agreed or self.steps_per_epoch or self.data_adapter.num_batches is None:
            warn(self)

    return interrupted_warning


def _meeting_at_the_end(catch: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `catch_stop_iteration`, which contains the loop over steps: workers meet after it."""

    @functools.wraps(catch)
    @contextlib.contextmanager
    def catch_stop_iteration(self: Any) -> Iterator[None]:
        with catch(self):
            yield
        group = getattr(self, "_group", None)
        if group is None or not group.calls:
            return
        call, steps = group.calls[-1], getattr(self, "_begun", 0)
        group.leave_loop()
        text = _("after step {step} of {call}").format(step=steps, call=call.text)
        positions = group.agree(STEPS, text, steps=steps)
        if len({position["steps"] for position in positions}) > 1:
            raise DivergedError(group.parted(positions))

    return catch_stop_iteration


def _built_from_the_spec(build: Callable[..., None]) -> Callable[..., None]:
    """Wraps `_maybe_symbolic_build`, which reads a batch to infer shapes.

    If data can be read only once, that batch, and the prefetched ones, would be lost.
    """

    @functools.wraps(build)
    def maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is not None and is_collective(self.distribute_strategy):
            data_batch = _shapes(iterator)
            iterator = iterator if data_batch is None else None
        build(self, iterator=iterator, data_batch=data_batch)

    return maybe_symbolic_build


def _after_data(make: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `_make_function`: no part of a step runs before its data is available.

    In Keras, the optimizer still counts a step when an iterator turns out to be exhausted.
    """

    @functools.wraps(make)
    def make_function(self: Any, step_function: Callable[..., Any]) -> Any:
        if not is_collective(self.distribute_strategy):
            return make(self, step_function)

        @functools.wraps(step_function)
        def after_data(data: Any) -> Any:
            import tensorflow as tf

            if tf.executing_eagerly():
                return step_function(data)
            flat = tf.nest.flatten(data, expand_composites=True)
            with tf.control_dependencies([part for part in flat if tf.is_tensor(part)]):
                return step_function(data)

        return make(self, after_data)

    return make_function


class _Shape:
    """The shape and type of an array."""

    def __init__(self, shape: Sequence[int | None], dtype: str) -> None:
        self.shape, self.dtype = tuple(shape), dtype


def _shapes(iterator: Any) -> Any:
    """The shapes and types of a batch's parts, or None if the dataset does not know them."""
    import tensorflow as tf

    first = getattr(iterator.data_adapter, "_first_batches", None)
    if first:  # of a generator, from which Keras has read
        return first[0]
    unknown = []

    def shape(spec: Any) -> Any:
        spec = getattr(spec, "_value_specs", (spec,))[0]
        if not isinstance(spec, tf.TensorSpec) or None in (spec.shape[1:].as_list() or ()):
            unknown.append(spec)
            return None
        return _Shape(spec.shape.as_list(), spec.dtype.name)

    def is_known(spec: Any) -> bool:
        return spec.shape.rank is not None

    specs = iterator._distributed_dataset.element_spec
    flat = tf.nest.flatten(specs)
    values = [getattr(spec, "_value_specs", (spec,))[0] for spec in flat]
    if not all(isinstance(value, tf.TensorSpec) and is_known(value) for value in values):
        return None
    shapes = [shape(spec) for spec in flat]
    return None if unknown else tf.nest.pack_sequence_as(specs, shapes)


def _copied(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `FuncRegistry._convert`: copies the arrays with which TensorFlow would share memory.

    It converts arrays of the user's functions and generators to tensors. TensorFlow assumes that it
    owns such a tensor, and the operation that splits batches for several replicas writes into it.
    """

    @functools.wraps(convert)
    def converted(value: Any, dtype: Any = None) -> Any:
        result = convert(value, dtype)
        if dtype is None and result is value and result.ctypes.data % ALIGNMENT == 0:
            return result.copy()
        return result

    return converted


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
