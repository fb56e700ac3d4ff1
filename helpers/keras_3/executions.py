"""Steps of a trainer: their number per execution, and their outputs on several workers."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _
from helpers.keras_3.step import exactly, has_one_device, is_finished, is_multi_worker


def install() -> None:
    """Replaces functions of Keras's TensorFlow trainer that fail on several workers."""
    trainers: Any = importlib.import_module("keras.src.backend.tensorflow.trainer")
    trainer = trainers.TensorFlowTrainer
    if "strategy.reduce" in inspect.getsource(trainer._maybe_symbolic_build):
        trainer._maybe_symbolic_build = symbolic_build
    if 'reduce("MEAN", v, axis=0)' in inspect.getsource(trainers.reduce_per_replica):
        trainers.reduce_per_replica = _of_scalars(trainers.reduce_per_replica)
    trainer._make_function = _host_loop(trainer._make_function)


def symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
    """Replacement for `TensorFlowTrainer._maybe_symbolic_build`: builds an unbuilt model.

    To infer shapes and types, Keras reduces the first batch to its mean over the workers. But the
    workers' batches may differ in length, and labels may be integers. This worker's own batch has
    the same shapes and types.
    """
    if self._distribute_strategy is None:
        return
    tree: Any = importlib.import_module("keras.src.tree")
    strategy = self.distribute_strategy
    if iterator is not None:
        for *_steps, batches in iterator:
            data_batch = tree.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], next(batches)
            )
            break
    with strategy.scope():
        self._symbolic_build(data_batch=data_batch)


def _of_scalars(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `reduce_per_replica`: the outputs of a step are already equal on all workers.

    Keras requests a mean along an axis that scalars do not have.
    """
    tree: Any = importlib.import_module("keras.src.tree")

    @functools.wraps(reduce)
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if not is_multi_worker(strategy) or reduction not in ("auto", "mean"):
            return reduce(values, strategy, reduction)
        return tree.map_structure(
            lambda v: v if is_finished(v) else strategy.reduce("MEAN", v, axis=None), values
        )

    return reduce_per_replica


def _host_loop(make: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `TensorFlowTrainer._make_function`: runs the steps of an execution one by one.

    Keras runs them in a TensorFlow loop, in which no worker can wait for another. XLA compiles no
    collective for CPUs.
    """

    @functools.wraps(make)
    def make_function(self: Any, step_function: Callable[..., Any]) -> Callable[..., Any]:
        if not is_multi_worker(self.distribute_strategy):
            return make(self, step_function)
        if self.jit_compile:
            raise _no_xla()
        if has_one_device(self.distribute_strategy):
            step_function = exactly(self, step_function)
        steps = self.steps_per_execution
        if steps == 1:
            return make(self, step_function)
        return _run_steps(make(_SingleStep(self), step_function), steps)

    return make_function


class _SingleStep:
    """A trainer, except for the number of steps in an execution."""

    steps_per_execution = unrolled_steps_per_execution = 1

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)


def _run_steps(step: Callable[[Any], Any], times: int) -> Callable[[Any], Any]:
    """A function that runs up to `times` steps, as many as the data allows.

    It returns the outputs of the last step. It raises an error only if there is no data at all.
    """
    import tensorflow as tf

    is_iterator = (tf.data.Iterator, tf.distribute.DistributedIterator)

    def next_step(iterator: Any) -> Any:
        return step(iterator if isinstance(iterator, is_iterator) else iter([next(iterator)]))

    def function(iterator: Any) -> Any:
        outputs = next_step(iterator)
        for _step in range(times - 1):
            try:
                outputs = next_step(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                break
        return outputs

    return function


def _no_xla() -> ConfigError:
    return ConfigError(
        _(
            "jit_compile=True does not work on several workers, because XLA cannot compile "
            "collectives for CPUs. Omit it, or pass jit_compile=False."
        )
    )
