"""What a function returns, on its way from a worker to the notebook: plain values, as JSON.

The numbers of a large array travel as their bytes, in base64 (RFC 4648): written out, six million
took a minute. They arrive as lists, as those of a small one do.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _

MAX_RESULT_BYTES = 400_000_000  # in transit; the notebook needs some times as much while it reads
MAX_TEXT_BYTES = 600_000_000  # of them as JSON
JSON_NUMBER_BYTES = 20  # written out
MIN_PACKED_SIZE = 1000  # numbers in an array
NUMPY_KINDS = "biuf"  # of NumPy: Booleans, integers, floating point
BYTES = "helpers.bytes"  # the key of bytes in transit
ARRAY = "helpers.array"  # the key of an array in transit: its type, its shape, its bytes


def to_json(value: Any) -> Any:
    """The value as JSON can carry it: NumPy's and TensorFlow's as Python's, or packed.

    Raises:
      ConfigError: it cannot travel, or is too large.
    """
    if (size := _size(value)) > MAX_RESULT_BYTES:
        raise _too_large(size, MAX_RESULT_BYTES)
    try:
        text = json.dumps(value, default=_pack)
        if len(text) > MAX_TEXT_BYTES:  # letters that are not ASCII take 6 bytes each
            raise _too_large(len(text), MAX_TEXT_BYTES)
        return json.loads(text)
    except ConfigError:
        raise
    except (TypeError, ValueError, AttributeError):
        message = _(
            "The function returned {value:.80}, which cannot be sent to the notebook. Return "
            "numbers, strings, None, or lists and dicts of them; save larger results to a file."
        )
        raise ConfigError(message.format(value=repr(value))) from None


def plain_metric(value: Any) -> Any:
    """A metric of an evaluation as JSON can carry it: a number, an array, text or bytes."""
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    return float(value) if getattr(value, "shape", ()) == () else to_json(value)


def _too_large(size: float, most: float) -> ConfigError:
    message = _(
        "The function returned about {size:,.0f} MB, and at most {most:,.0f} MB can be sent to "
        "the notebook. Return less; save the rest to a file."
    )
    return ConfigError(message.format(size=size / 1e6, most=most / 1e6))


def from_json(value: Any) -> Any:
    """The value with its arrays as lists; what only looks like an array stays as it is."""
    if isinstance(value, list):
        return [from_json(one) if isinstance(one, (list, dict)) else one for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {ARRAY}:
        try:
            return decode_array(value[ARRAY]).tolist()
        except (TypeError, ValueError):  # whatever a worker may have sent
            return value
    if value.keys() == {BYTES} and isinstance(value[BYTES], str):
        return base64.b64decode(value[BYTES])
    return {name: from_json(one) for name, one in value.items()}


def _pack(array: Any) -> Any:
    """What json.dumps writes instead of something that it does not know."""
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if kind in NUMPY_KINDS and kind and array.size >= MIN_PACKED_SIZE:
        return {ARRAY: encode_array(array)}
    return array.tolist()


def encode_array(array: Any) -> list[Any]:
    """An array of NumPy as JSON can carry it: its type, its shape, its bytes."""
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def decode_array(fields: Any, kinds: str = NUMPY_KINDS) -> Any:
    """The array that `encode_array` wrote, of these kinds of NumPy alone.

    Raises:
      TypeError, ValueError: they are no such fields.
    """
    import numpy as np

    kind, shape, data = fields
    if not isinstance(kind, str) or np.dtype(kind).kind not in kinds:
        raise ValueError(kind)
    return np.frombuffer(base64.b64decode(data), kind).reshape(shape)


def _size(value: Any) -> int:
    """How many bytes a value has in transit, roughly; none of it is built for that.

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
