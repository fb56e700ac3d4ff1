"""Pickles values, with the bytes of large arrays outside the pickle.

Protocol 5 (PEP 574) separates the data of NumPy arrays from the pickle, so that it is not copied.
"""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import cloudpickle

from helpers.protocol import absl_flags, readers_modules

PROTOCOL = 5
Buffer = bytes | bytearray | memoryview


def pickled(
    value: Any, buffer_callback: Callable[[pickle.PickleBuffer], object] | None = None
) -> bytes:
    """Pickles a value, with the functions and classes of a notebook by value."""

    class Pickler(cloudpickle.Pickler):
        dispatch_table: ClassVar[Any] = ChainMap(
            absl_flags.reducers(), cloudpickle.Pickler.dispatch_table
        )

    file = io.BytesIO()
    with readers_modules.sent_by_value():
        Pickler(file, protocol=PROTOCOL, buffer_callback=buffer_callback).dump(value)
    return file.getvalue()


def dump(value: Any) -> list[Buffer]:
    """Pickles a value into several buffers, first the pickle, then the data of its arrays."""
    arrays: list[pickle.PickleBuffer] = []
    pickle_bytes = pickled(value, arrays.append)
    return [pickle_bytes, *(array.raw() for array in arrays)]


def load(buffers: Sequence[Buffer]) -> Any:
    """Returns the value of `dump`, whose arrays use the memory of the buffers."""
    return pickle.loads(buffers[0], buffers=buffers[1:])
