"""`helpers.model_fn` and `helpers.input_fn`: those of the lessons, imported where they are called.

A process that only sends these functions to workers need not import TensorFlow (3 s and 400 MB).
`helpers.course.model` and `helpers.course.data` have the functions themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """Builds a small network for images, as an Estimator takes it: an EstimatorSpec.

    `helpers.course.model.model_fn` says what features, labels and params are; this calls it.
    """
    import helpers.estimator  # noqa: F401  before the module takes the Keras of this process
    from helpers.course.model import model_fn

    return model_fn(features, labels, mode, params)


def input_fn(
    mode: str,
    params: Mapping[str, Any] | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One epoch of batches for one worker: a dataset of (images, labels).

    `helpers.course.data.input_fn` says what mode and params are, and what it raises; this calls it.
    """
    from helpers.course.data import input_fn

    return input_fn(mode, params, input_context)
