"""Serializes the metrics of an evaluation, which a worker sends to the notebook as JSON.

The numbers of a large array are sent as bytes in base64 (RFC 4648), because writing six million as
text took a minute. They arrive as lists, like the numbers of a small array.
"""

from __future__ import annotations

import base64
import json
from typing import Any

MIN_PACKED_SIZE = 1000  # numbers in an array
NUMPY_KINDS = "biuf"  # of NumPy: Booleans, integers, floating point
BYTES = "helpers.bytes"  # the key of serialized bytes
ARRAY = "helpers.array"  # the key of a serialized array: its type, its shape, its bytes


def plain_metric(value: Any) -> Any:
    """Converts a metric to JSON: a number, text, bytes, or an array of them.

    Raises:
      TypeError, AttributeError: it is something else.
    """
    if not isinstance(value, bytes) and getattr(value, "shape", ()) == ():
        return float(value)
    return json.loads(json.dumps(value, default=_pack))


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


def _pack(value: Any) -> Any:
    """Replaces an object that json.dumps cannot serialize."""
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in NUMPY_KINDS and kind and value.size >= MIN_PACKED_SIZE:
        return {ARRAY: encode_array(value)}
    return value.tolist()


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
