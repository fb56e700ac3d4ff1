"""Small functions on tensors and variables, shared by the other modules."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any


def key(variable: Any) -> int:
    """Identifies a variable of Keras or TensorFlow."""
    return id(getattr(variable, "_value", variable))


def is_variable(value: Any) -> bool:
    """Whether a value is a variable of Keras or TensorFlow."""
    import tensorflow as tf

    own: Any = importlib.import_module("keras.src.backend").Variable
    return isinstance(value, own | tf.Variable)


def is_number(value: Any) -> bool:
    """Whether a value is a single number or empty: rank 0."""
    return value is None or as_tensor(value).shape.rank == 0


def as_tensor(value: Any) -> Any:
    """Converts a value to a tensor, which for a variable is a new tensor."""
    import tensorflow as tf

    tensor = tf.convert_to_tensor(value)
    return tf.identity(tensor) if is_variable(value) else tensor


def read(value: Any) -> Any:
    """The value of a variable, or any other value unchanged."""
    return as_tensor(value) if is_variable(value) else value


def rows(value: Any) -> Any:
    """The number of examples in a batch."""
    import tensorflow as tf

    if isinstance(value, tf.SparseTensor):
        return value.dense_shape[0]
    if isinstance(value, tf.RaggedTensor):
        return value.nrows()
    value = tf.convert_to_tensor(value)
    return tf.shape(value)[0] if value.shape.rank != 0 else tf.constant(1)


def scaled(gradient: Any, factor: Any) -> Any:
    """A gradient, dense or sparse, times a number."""
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


def divided(gradient: Any, divisor: Any) -> Any:
    """A gradient, dense or sparse, divided by a number."""
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(divisor, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(divisor, gradient.dtype)


def unpacked(flat: Any, like: Sequence[Any]) -> list[Any]:
    """Splits a vector into tensors with the shapes of `like`."""
    import tensorflow as tf

    pieces = tf.split(flat, [tf.size(tensor) for tensor in like])
    return [
        tf.ensure_shape(tf.reshape(piece, tf.shape(tensor)), tensor.shape)
        for piece, tensor in zip(pieces, like, strict=True)
    ]


def padded(tensor: Any, before: Any, after: Any) -> Any:
    """Adds zero rows before and after, and casts types that collectives cannot sum."""
    import tensorflow as tf

    if not (tensor.dtype.is_floating or tensor.dtype in (tf.int32, tf.int64)):
        tensor = tf.cast(tensor, tf.int32)
    rest = [[0, 0]] * (tensor.shape.rank - 1)
    return tf.pad(tensor, [[before, after], *rest])


def with_own(whole: Any, own: Any, before: Any, scale: Any) -> Any:
    """The global batch, with this worker's original rows, so that gradients reach them.

    Args:
      whole: the global batch, [global batch, …].
      own: this worker's rows, [part, …].
      before: the number of rows of the workers before this one.
      scale: the factor of a gradient with respect to `own`.
    """
    import tensorflow as tf

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def passed_on(rows: Any) -> Any:
        return tf.identity(rows), lambda upstream: upstream * tf.cast(scale, upstream.dtype)

    whole = tf.cast(whole, own.dtype)
    if not own.dtype.is_floating:
        return whole
    return tf.concat([whole[:before], passed_on(own), whole[before + tf.shape(own)[0] :]], 0)
