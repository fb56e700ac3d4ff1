"""State that a reader's layer keeps, and assigns in `call`."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

from helpers.i18n import _
from helpers.keras_3.step import is_multi_worker


def install() -> None:
    """Replaces `add_weight` of Keras's layers."""
    layers: Any = importlib.import_module("keras.src.layers.layer")
    layers.Layer.add_weight = _mean_aggregation(layers.Layer.add_weight)


def _mean_aggregation(add: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `Layer.add_weight`: state without an aggregation is averaged over the workers.

    In Keras each worker keeps its own, so that they drift apart. The mean is what one worker
    computes where the state is a mean over the batch, or a count of steps; of a sum or a maximum
    it is not, so that the first assignment inside a step warns.
    """

    @functools.wraps(add)
    def add_weight(self: Any, *args: Any, **options: Any) -> Any:
        import tensorflow as tf

        if options.get("trainable", True) or options.get("aggregation") not in (None, "none"):
            return add(self, *args, **options)
        if not is_multi_worker(tf.distribute.get_strategy()) or _is_kerass(self):
            return add(self, *args, **options)
        if not str(options.get("dtype") or "float").startswith(("float", "bfloat")):
            return add(self, *args, **options)  # TensorFlow takes no mean of these
        variable = add(self, *args, **{**options, "aggregation": "mean"})
        variable._direct_assign = _warning_once(variable)
        return variable

    return add_weight


def _is_kerass(layer: Any) -> bool:
    return bool(type(layer).__module__.startswith("keras."))


def _warning_once(variable: Any) -> Callable[[Any], None]:
    assign, warned = variable._direct_assign, False

    def direct_assign(value: Any) -> None:
        nonlocal warned
        import tensorflow as tf

        if not warned and tf.distribute.in_cross_replica_context() is False:
            warned = True
            message = _(
                "{variable} is assigned inside a step, so it is averaged over the workers. That is "
                "what one worker computes if it is a mean over the batch or a count of steps, and "
                'not if it is a sum or a maximum. Pass aggregation="mean" to add_weight to confirm '
                'it, or "sum" to add up what the workers assign.'
            )
            warnings.warn(message.format(variable=variable.path), stacklevel=2)
        assign(value)

    return direct_assign
