"""Serializes the result of a function, which a worker sends to the notebook as JSON.

The numbers of a large array are sent as bytes in base64 (RFC 4648), because writing six million as
text took a minute. They arrive as lists, like the numbers of a small array.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import LocalNumber, _

MAX_RESULT_BYTES = 400_000_000  # serialized. The notebook needs a multiple of it while it reads
MAX_TEXT_BYTES = 600_000_000  # of the same as JSON
JSON_NUMBER_BYTES = 20  # as text
MIN_PACKED_SIZE = 1000  # numbers in an array
NUMPY_KINDS = "biuf"  # of NumPy: Booleans, integers, floating point
BYTES = "helpers.bytes"  # the key of serialized bytes
ARRAY = "helpers.array"  # the key of a serialized array: its type, its shape, its bytes


def to_json(value: Any) -> Any:
    """Converts a value to JSON, with NumPy's and TensorFlow's values as Python's, or packed.

    Raises:
      ConfigError: it cannot be sent, or is too large.
    """
    if (size := _size(value)) > MAX_RESULT_BYTES:
        raise _too_large(size, MAX_RESULT_BYTES)
    try:
        text = json.dumps(value, default=_pack)
        if len(text) > MAX_TEXT_BYTES:  # letters that are not ASCII need 6 bytes each
            raise _too_large(len(text), MAX_TEXT_BYTES)
        return json.loads(text)
    except ConfigError:
        raise
    except (TypeError, ValueError, AttributeError):
        message = _(
            "The function returned {value:.80}, which cannot be sent to the notebook. Return "
            "numbers, strings, None, or lists and dicts of them, and save larger results to a file."
        )
        raise ConfigError(message.format(value=repr(value))) from None


def plain_metric(value: Any) -> Any:
    """Converts a metric of an evaluation to JSON: a number, an array, text or bytes."""
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    return float(value) if getattr(value, "shape", ()) == () else to_json(value)


def _too_large(size: float, most: float) -> ConfigError:
    message = _(
        "The function returned about {size:,.0f} MB, and at most {most:,.0f} MB can be sent to "
        "the notebook. Return less, and save the rest to a file."
    )
    return ConfigError(message.format(size=LocalNumber(size / 1e6), most=LocalNumber(most / 1e6)))


def from_json(value: Any) -> Any:
    """Returns the value with its arrays as lists. A dict that only resembles one is unchanged."""
    if isinstance(value, list):
        return [from_json(one) if isinstance(one, (list, dict)) else one for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {ARRAY}:
        try:
            return decode_array(value[ARRAY]).tolist()
        except (TypeError, ValueError):  # a worker may send anything
            return value
    if value.keys() == {BYTES} and isinstance(value[BYTES], str):
        return base64.b64decode(value[BYTES])
    return {name: from_json(one) for name, one in value.items()}


def _pack(array: Any) -> Any:
    """Replaces an object that json.dumps cannot serialize."""
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if kind in NUMPY_KINDS and kind and array.size >= MIN_PACKED_SIZE:
        return {ARRAY: encode_array(array)}
    return array.tolist()


def encode_array(array: Any) -> list[Any]:
    """Converts a NumPy array to JSON: its type, its shape, its bytes."""
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def decode_array(fields: Any, kinds: str = NUMPY_KINDS) -> Any:
    """Decodes an array of `encode_array`, if NumPy's kind of it is one of these.

    Raises:
      TypeError, ValueError: the fields are invalid.
    """
    import numpy as np

    kind, shape, data = fields
    if not isinstance(kind, str) or np.dtype(kind).kind not in kinds:
        raise ValueError(kind)
    return np.frombuffer(base64.b64decode(data), kind).reshape(shape)


def _size(value: Any) -> int:
    """Estimates the bytes of a serialized value without building it.

    Raises:
      RecursionError: it contains itself.
    """
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return sum(JSON_NUMBER_BYTES + _size(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_size(one) for one in value)
    shape = getattr(value, "shape", ())  # of an array, or a tensor
    if not isinstance(shape, Iterable):
        return JSON_NUMBER_BYTES
    each = getattr(getattr(value, "dtype", None), "itemsize", JSON_NUMBER_BYTES)
    return max(JSON_NUMBER_BYTES, each * math.prod(int(length or 1) for length in shape))
