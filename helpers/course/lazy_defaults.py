"""`helpers.model_fn` and `helpers.input_fn` of the lessons, imported when they are called.

A process that only sends these functions to workers need not import TensorFlow (3 s and 400 MB).
The implementations are in `helpers.course.model` and `helpers.course.data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """Builds a small network for images as an EstimatorSpec.

    It calls `helpers.course.model.model_fn`, which documents the arguments.
    """
    import helpers.estimator  # noqa: F401  before the module takes the Keras of this process
    from helpers.course.model import model_fn

    return model_fn(features, labels, mode, params)


def input_fn(
    mode: str,
    params: Mapping[str, Any] | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One epoch of batches for one worker, as a dataset of (images, labels).

    It calls `helpers.course.data.input_fn`, which documents the arguments and errors.
    """
    from helpers.course.data import input_fn

    return input_fn(mode, params, input_context)
