"""Losses of the global batch, with masks and weights, and statistics of BatchNormalization.

Keras divides each worker's loss by the size of this worker's part and by the number of workers. The
result is the loss of the global batch only if all parts have the same size. Inside a step
(step.py), a loss is therefore a mean over the worker's part. These means, weighted by the sizes of
the parts, yield the global mean.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from helpers.i18n import ngettext
from helpers.keras_3.step import Step, current, is_multi_worker, running

MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


_warned: weakref.WeakSet[Any] = weakref.WeakSet()  # models with separate statistics on each worker


class RankZeroError(Exception):
    """A loss function or a metric has returned a single number for the whole part."""


def install() -> None:
    """Replaces functions of Keras's losses, trainers and BatchNormalization."""
    losses: Any = importlib.import_module("keras.src.losses.loss")
    layers: Any = importlib.import_module("keras.src.layers")
    losses.Loss.__call__ = _of_all_workers(losses.Loss.__call__)
    losses.reduce_weighted_values = _by_global_size(losses.reduce_weighted_values, losses)
    for name in ("scale_loss_for_distribution", "unscale_loss_for_distribution"):
        setattr(losses, name, _outside_steps(getattr(losses, name)))
    normalization = layers.BatchNormalization
    normalization.add_weight = averaged(normalization.add_weight)
    normalization._moments = _of_examples(normalization._moments)
    if "activity_regularizer(output)" in inspect.getsource(layers.Layer.__call__) and (
        "batch_size" not in inspect.getsource(layers.Layer.__call__)
    ):
        layers.Layer.__call__ = _with_sums_of_activities(layers.Layer.__call__)


def _outside_steps(scale: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wraps `scale_loss_for_distribution` and its inverse: a step weights workers itself."""

    @functools.wraps(scale)
    def scale_for_distribution(value: Any) -> Any:
        return scale(value) if running() is None else value

    return scale_for_distribution


def _of_all_workers(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Loss.__call__`: a loss that is a single number is computed on the global batch.

    It is not known how such a number depends on the examples. It may be a mean, a sum, or a ratio
    of sums, such as the Dice loss. So the workers gather targets and predictions.
    """

    @functools.wraps(call)
    def loss(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        step = current()
        if step is None:
            return call(self, y_true, y_pred, sample_weight)
        outer, step.keeps_rows = step.keeps_rows, keeps_rows(self, y_true, step)
        try:
            return call(self, y_true, y_pred, sample_weight)
        except RankZeroError:
            pass
        finally:
            step.keeps_rows = outer
        gathered = gather(step, (y_true, y_pred, sample_weight))
        return step.globally(call, self, *gathered)

    return loss


def keeps_rows(loss: Any, y_true: Any, step: Step) -> bool:
    """Whether `loss` has an entry for each example, like Keras's own losses.

    If so, the number of its entries is proportional to the size of the part on all workers, so no
    collective is needed.
    """
    tree: Any = importlib.import_module("keras.src.tree")
    function = getattr(loss, "fn", None) or type(loss).call
    own = getattr(function, "__module__", "") or ""
    return own.startswith("keras.") and all(step.has(leaf) for leaf in tree.flatten(y_true))


def gather(step: Step, values: Any) -> Any:
    """Nested tensors of all workers, with Keras's masks, and other values unchanged."""
    tree: Any = importlib.import_module("keras.src.tree")
    backend: Any = importlib.import_module("keras.src.backend")
    leaves = tree.flatten(values)
    tensors = {place: leaf for place, leaf in enumerate(leaves) if _has_rows(leaf)}
    masks = {place: backend.get_keras_mask(leaf) for place, leaf in tensors.items()}
    masks = {place: mask for place, mask in masks.items() if mask is not None}
    found = step.gather([*tensors.values(), *masks.values()])
    for place, whole in zip(tensors, found, strict=False):
        leaves[place] = whole
    for place, mask in zip(masks, found[len(tensors) :], strict=True):
        backend.set_keras_mask(leaves[place], as_mask(mask))
    return tree.pack_sequence_as(values, leaves)


def as_mask(mask: Any) -> Any:
    """A Boolean mask from numbers that were summed over the workers."""
    import tensorflow as tf

    return tf.cast(mask, tf.bool)


def _has_rows(value: Any) -> bool:
    import numpy as np
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        return bool(value.ndim)
    return bool(isinstance(value, tf.Tensor) and value.shape.rank)


def _by_global_size(reduce: Callable[..., Any], losses: Any) -> Callable[..., Any]:
    """Wraps `reduce_weighted_values`: the divisor is computed from the global batch."""

    @functools.wraps(reduce)
    def reduce_weighted_values(
        values: Any,
        sample_weight: Any = None,
        mask: Any = None,
        reduction: Any = "sum_over_batch_size",
        dtype: Any = None,
    ) -> Any:
        import tensorflow as tf

        step = current()
        if step is None:
            return reduce(values, sample_weight, mask, reduction, dtype)
        values = tf.convert_to_tensor(values) if dtype is None else tf.cast(values, dtype)
        if values.shape.rank == 0:
            raise RankZeroError
        each = reduce(values, sample_weight, mask, None, dtype)
        if reduction in (None, "none"):
            return each
        if reduction == "mean_with_sample_weight" and sample_weight is None and mask is None:
            reduction = "mean"
        total = tf.reduce_sum(each)
        if reduction in ("mean", "sum_over_batch_size") and mask is None and _even(step, values):
            return tf.math.divide_no_nan(total, tf.cast(tf.size(each), each.dtype))
        parts = _divisor(losses, each, sample_weight, mask, reduction)
        return _scaled(step, total, [tf.cast(part, tf.float32) for part in parts])

    return reduce_weighted_values


def _even(step: Step, values: Any) -> bool:
    """Whether each example has the same number of entries in `values`, on all workers."""
    return step.keeps_rows and bool(values.shape[1:].is_fully_defined())


def _divisor(
    losses: Any, each: Any, sample_weight: Any, mask: Any, reduction: Any
) -> Sequence[Any]:
    """Keras's divisor, as numbers to be summed over the workers: a, or a * b / c."""
    import tensorflow as tf

    if reduction == "sum":
        return []
    if reduction == "mean_with_sample_weight":
        weights = losses.apply_mask(
            None if sample_weight is None else tf.cast(sample_weight, each.dtype),
            None if mask is None else tf.cast(mask, each.dtype),
            dtype=each.dtype,
            reduction=reduction,
        )
        return [tf.reduce_sum(weights)]
    if mask is None:
        return [tf.size(each)]
    return [tf.size(each), tf.reduce_sum(tf.cast(mask, tf.float32)), tf.size(mask)]


def _scaled(step: Step, total: Any, parts: Sequence[Any]) -> Any:
    """This part's sum, scaled so that workers can be weighted by the sizes of their parts."""
    import tensorflow as tf

    *parts, size = step.sum([*parts, step.size])
    step.remember(size)
    factor = tf.math.divide_no_nan(size, step.size)
    if parts:
        factor = tf.math.divide_no_nan(factor, parts[0])
    if len(parts) > 1:
        factor = factor * tf.math.divide_no_nan(parts[2], parts[1])
    return total * tf.cast(factor, total.dtype)


def _with_sums_of_activities(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Layer.__call__` if an activity regularizer is a sum, not yet a mean.

    Earlier releases of Keras do not divide it by the number of examples.
    """
    regularizers: Any = importlib.import_module("keras.src.regularizers.regularizers")

    @functools.wraps(call)
    def layer_call(self: Any, *args: Any, **options: Any) -> Any:
        step, own = current(), getattr(self, "activity_regularizer", None)
        if step is None or not isinstance(own, regularizers.Regularizer):
            return call(self, *args, **options)
        self.__dict__["activity_regularizer"] = lambda output: _scaled(step, own(output), [])
        try:
            return call(self, *args, **options)
        finally:
            self.__dict__["activity_regularizer"] = own

    return layer_call


def averaged(add: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `add_weight` of BatchNormalization: averages its moving statistics over the workers.

    In Keras, each worker keeps its own statistics. So the result of `evaluate` and the saved model
    depend on the worker. Keras 2 averages the statistics.
    """

    @functools.wraps(add)
    def add_weight(self: Any, *args: Any, **options: Any) -> Any:
        import tensorflow as tf

        learns = options.get("trainable", True)
        if not learns and is_multi_worker(tf.distribute.get_strategy()):
            options["aggregation"] = "mean"
        return add(self, *args, **options)

    return add_weight


def _of_examples(moments: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `BatchNormalization._moments`: an empty part leaves the statistics unchanged.

    The mean of no examples is NaN, and the statistics of all workers would remain NaN.
    """

    @functools.wraps(moments)
    def moments_of_examples(self: Any, inputs: Any, mask: Any) -> Any:
        import tensorflow as tf

        found, step = moments(self, inputs, mask), current()
        if step is None or self.synchronized:
            return found
        _warn_of_own_statistics(self, step)
        kept = (self.moving_mean, self.moving_variance)
        return tuple(
            tf.where(tf.size(inputs) > 0, new, tf.cast(tf.convert_to_tensor(old), new.dtype))
            for new, old in zip(found, kept, strict=True)
        )

    return moments_of_examples


def _warn_of_own_statistics(layer: Any, step: Step) -> None:
    """Warns once per model that BatchNormalization normalizes with each worker's own statistics."""
    if step.workers == 1 or step.model in _warned:
        return
    _warned.add(step.model)
    message = ngettext(
        "{layer} of {model!r} normalizes with the mean and variance of each worker's part of a "
        "batch, so the results of {count} worker differ from the results of one worker. For "
        "equal results, "
        "create it with BatchNormalization(synchronized=True).",
        "{layer} of {model!r} normalizes with the mean and variance of each worker's part of a "
        "batch, so the results of {count} workers differ from the results of one worker. For "
        "equal results, "
        "create it with BatchNormalization(synchronized=True).",
        step.workers,
    )
    text = message.format(layer=layer.name, model=step.model.name, count=step.workers)
    warnings.warn(text, stacklevel=2)
