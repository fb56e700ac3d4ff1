"""Keras 3 under MultiWorkerMirroredStrategy: `fit`, `evaluate` and `predict` on several workers.

    import keras
    import helpers.keras_3

From TensorFlow 2.16 on, `import tensorflow` brings Keras 3, whose `fit` ends on several workers,
before the first step, with "Attempt to convert a value (PerReplica…)"
(https://github.com/keras-team/keras/issues/20585). This import, above or below that of Keras,
replaces the functions of Keras that fail there, or that compute something else than one worker
would. Under any other strategy, and without one, Keras runs as it was; a function that Keras has
mended itself is left alone. docs/KERAS_3.md tells owners of Keras code more.

Importing it raises PackageError if the installed packages do not fit together.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from helpers.errors import ConfigError, PackageError
from helpers.i18n import _
from helpers.system.keras_version import check_one_tensorflow

MIN_KERAS, MAX_KERAS = (3, 10), (3, 15)  # releases of Keras that were tested

BACKEND = "KERAS_BACKEND"


def _install() -> None:
    """Replaces what fails, and only that."""
    _check_packages()
    trainers: Any = importlib.import_module("keras.src.backend.tensorflow.trainer")
    optimizers: Any = importlib.import_module("keras.src.backend.tensorflow.optimizer")
    scaling: Any = importlib.import_module("keras.src.optimizers.loss_scale_optimizer")
    trainer, optimizer = trainers.TensorFlowTrainer, optimizers.TFOptimizer
    if "strategy.reduce" in inspect.getsource(trainer._maybe_symbolic_build):
        trainer._maybe_symbolic_build = symbolic_build
    if 'reduce("MEAN", v, axis=0)' in inspect.getsource(trainers.reduce_per_replica):
        trainers.reduce_per_replica = _reduce_scalars(trainers.reduce_per_replica)
    trainer._make_function = _host_loop(trainer._make_function)
    optimizer._backend_apply_gradients = _all_reduce_before_apply(
        optimizer._backend_apply_gradients
    )
    scaled = scaling.LossScaleOptimizer
    scaled.check_finite = _finite_on_all_workers(scaled.check_finite)
    normalization: Any = importlib.import_module("keras.src.layers").BatchNormalization
    normalization.add_weight = _mean_aggregation(normalization.add_weight)


def is_collective(strategy: Any) -> bool:
    """Whether `strategy` is a MultiWorkerMirroredStrategy, be it of one worker."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_multi_worker(strategy: Any) -> bool:
    """Whether several workers train under `strategy`."""
    return is_collective(strategy) and strategy.extended._in_multi_worker_mode()


def symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
    """In place of `TensorFlowTrainer._maybe_symbolic_build`: builds a model that is not built yet.

    Keras reduces the first batch to its mean over the workers, to learn shapes and types; but the
    workers' batches may differ in length, and labels be integers. This worker's own tells as much.
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


def _reduce_scalars(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `reduce_per_replica`: losses and metrics of a step are averaged over workers.

    Keras asks for the mean along an axis that scalars do not have.
    """
    tree: Any = importlib.import_module("keras.src.tree")

    @functools.wraps(reduce)
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if not is_multi_worker(strategy) or reduction not in ("auto", "mean"):
            return reduce(values, strategy, reduction)
        return tree.map_structure(lambda v: strategy.reduce("MEAN", v, axis=None), values)

    return reduce_per_replica


def _host_loop(make: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `TensorFlowTrainer._make_function`: several steps an execution, one by one.

    Keras puts them into a loop of TensorFlow's, in which no worker can wait for another. XLA
    compiles no collective for CPUs.
    """

    @functools.wraps(make)
    def make_function(self: Any, step_function: Callable[..., Any]) -> Callable[..., Any]:
        if not is_multi_worker(self.distribute_strategy):
            return make(self, step_function)
        if self.jit_compile:
            raise _no_xla()
        steps = self.steps_per_execution
        if steps == 1:
            return make(self, step_function)
        return _run_steps(make(_SingleStep(self), step_function), steps)

    return make_function


class _SingleStep:
    """A trainer, but for the number of steps that it puts into an execution."""

    steps_per_execution = unrolled_steps_per_execution = 1

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)


def _run_steps(step: Callable[[Any], Any], times: int) -> Callable[[Any], Any]:
    """A function that does up to so many steps, as many as there is data for."""

    def function(iterator: Any) -> Any:
        outputs = step(iterator)
        for _step in range(times - 1):
            try:
                outputs = step(iterator)
            except StopIteration:
                break
        return outputs

    return function


def _all_reduce_before_apply(apply: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `_backend_apply_gradients` of optimizers: the workers' gradients are added up,
    and then the optimizer does what it does with those of one worker.

    Keras adds them up last: it clips each worker's share, and where gradients are accumulated it
    does so in a branch of the graph, in which no worker can wait for another.
    """

    @functools.wraps(apply)
    def backend_apply_gradients(self: Any, grads: Any, trainable_variables: Any) -> Any:
        import tensorflow as tf

        context, strategy = tf.distribute.get_replica_context(), tf.distribute.get_strategy()
        if context is None or not is_collective(strategy):
            return apply(self, grads, trainable_variables)
        if len(strategy.extended.worker_devices) > 1:
            return apply(self, grads, trainable_variables)
        summed = context.all_reduce(tf.distribute.ReduceOp.SUM, grads)

        def update(_strategy: Any, gradients: Any) -> None:
            with _without_merge_call(strategy):
                apply(self, gradients, trainable_variables)

        return context.merge_call(update, args=(summed,))

    return backend_apply_gradients


def _finite_on_all_workers(check: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `LossScaleOptimizer.check_finite`: whether the gradients of all are finite.

    Keras takes them for added up, which they are not yet: where those of one worker were infinite,
    it left out its step, and its peers waited for it.
    """

    @functools.wraps(check)
    def check_finite(self: Any, grads: Any) -> Any:
        import tensorflow as tf

        finite, context = check(self, grads), tf.distribute.get_replica_context()
        if context is None or not is_multi_worker(context.strategy):
            return finite
        bad = tf.cast(tf.logical_not(finite), tf.float32)
        return tf.equal(context.all_reduce(tf.distribute.ReduceOp.SUM, bad), 0.0)

    return check_finite


def _mean_aggregation(add: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `add_weight` of BatchNormalization: its moving statistics are those of all.

    In Keras each worker keeps its own, so that what `evaluate` finds, and what is saved, depends on
    the worker. Keras 2 takes their mean.
    """

    @functools.wraps(add)
    def add_weight(self: Any, *args: Any, **options: Any) -> Any:
        import tensorflow as tf

        learns = options.get("trainable", True)
        if not learns and is_multi_worker(tf.distribute.get_strategy()):
            options["aggregation"] = "mean"
        return add(self, *args, **options)

    return add_weight


@contextmanager
def _without_merge_call(strategy: Any) -> Iterator[None]:
    """Tells optimizers that replicas have met already."""
    extended = strategy.extended
    extended._use_merge_call = lambda: False
    try:
        yield
    finally:
        del extended._use_merge_call


def _check_packages() -> None:
    backend = os.environ.get(BACKEND, "tensorflow")
    if backend != "tensorflow":
        message = _(
            "{variable} is {backend!r}, and helpers.keras_3 is for Keras on TensorFlow. Set it to "
            '"tensorflow", or leave it unset.'
        )
        raise PackageError(message.format(variable=BACKEND, backend=backend))
    check_one_tensorflow()
    try:
        found = metadata.version("keras")
    except metadata.PackageNotFoundError:
        found = None
    release = tuple(int(part) for part in found.split(".")[:2]) if found else None
    if release is None or not MIN_KERAS <= release <= MAX_KERAS:
        message = _(
            "helpers.keras_3 was tested with Keras {oldest} to {newest}; found: {found}. Install "
            'one of them: pip install "keras>={oldest},<{after}"'
        )
        oldest, newest = (".".join(map(str, numbers)) for numbers in (MIN_KERAS, MAX_KERAS))
        after = f"{MAX_KERAS[0]}.{MAX_KERAS[1] + 1}"
        found = found or _("none")
        raise PackageError(message.format(oldest=oldest, newest=newest, after=after, found=found))


def _no_xla() -> ConfigError:
    return ConfigError(
        _(
            "jit_compile=True cannot be had on several workers: XLA compiles no collective for "
            "CPUs. Leave it out, or say jit_compile=False."
        )
    )


_install()
