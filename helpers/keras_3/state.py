"""State that a custom layer keeps, and assigns in `call`."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

from helpers.i18n import _
from helpers.keras_3.step import current, has_one_device, is_multi_worker


def install() -> None:
    """Replaces `add_weight` of Keras's layers."""
    layers: Any = importlib.import_module("keras.src.layers.layer")
    layers.Layer.add_weight = _mean_aggregation(layers.Layer.add_weight)


def _mean_aggregation(add: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Layer.add_weight`: state without an aggregation is averaged over the workers.

    In Keras, each worker keeps its own state, so the states drift apart. The mean, weighted by the
    sizes of the workers' parts, equals the result of one worker if the state is a mean over the
    batch or a count of steps. If the state is a sum or a maximum, the mean is wrong. So the first
    assignment inside a step warns, unless the program has passed an aggregation.
    """

    @functools.wraps(add)
    def add_weight(self: Any, *args: Any, **options: Any) -> Any:
        import tensorflow as tf

        given = options.get("aggregation")
        if options.get("trainable", True) or given not in (None, "none", "mean"):
            return add(self, *args, **options)
        if not is_multi_worker(tf.distribute.get_strategy()) or _is_kerass(self):
            return add(self, *args, **options)
        if not str(options.get("dtype") or "float").startswith(("float", "bfloat")):
            return add(self, *args, **options)  # TensorFlow cannot average these types
        variable = add(self, *args, **{**options, "aggregation": "mean"})
        variable._direct_assign = _weighted(variable, warns=given != "mean")
        return variable

    return add_weight


def _is_kerass(layer: Any) -> bool:
    return bool(type(layer).__module__.startswith("keras."))


def _weighted(variable: Any, warns: bool) -> Callable[[Any], None]:
    """Wraps a variable's `_direct_assign`: weights the mean over workers by their parts' sizes."""
    assign, warned = variable._direct_assign, not warns

    def direct_assign(value: Any) -> None:
        nonlocal warned
        import tensorflow as tf

        if not warned and tf.distribute.in_cross_replica_context() is False:
            warned = True
            message = _(
                "{variable} is assigned inside a step, so its value is averaged over the workers. "
                "For a mean over the batch or a count of steps, the average equals the result of "
                "one worker. For a sum or a maximum, it does not. Pass "
                'aggregation="mean" to add_weight to confirm it, or "sum" to add up the values of '
                "the workers."
            )
            warnings.warn(message.format(variable=variable.path), stacklevel=2)
        step = current()
        if step is not None and has_one_device(tf.distribute.get_strategy()):
            value = tf.cast(tf.convert_to_tensor(value), variable.dtype)
            factor = tf.cast(step.share() * step.workers, variable.dtype)
            value = step.unless_empty(value) * factor
        assign(value)

    return direct_assign
