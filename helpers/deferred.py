"""`model_fn` and `input_fn` of the lessons, imported in the process that calls them.

Whoever only sends these functions to workers, as the panel does, keeps TensorFlow (3 s and
400 MB) out of its own process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """As `helpers.model.model_fn`."""
    from helpers.model import model_fn

    return model_fn(features, labels, mode, params)


def input_fn(
    mode: str,
    params: Mapping[str, Any] | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """As `helpers.data.input_fn`."""
    from helpers.data import input_fn

    return input_fn(mode, params, input_context)
