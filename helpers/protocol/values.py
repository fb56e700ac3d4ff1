"""Pickles values, with the bytes of large arrays outside the pickle.

Protocol 5 (PEP 574) separates the data of NumPy arrays from the pickle, so that it is not copied.
"""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import IO, Any, ClassVar

import cloudpickle
from cloudpickle import cloudpickle as by_value

from helpers.protocol import absl_flags, readers_modules

PROTOCOL = 5
Buffer = bytes | bytearray | memoryview


def _as_pickle_does(_value: Any) -> Any:
    return NotImplemented


def write(
    value: Any,
    file: IO[bytes],
    *,
    reduce: Callable[[Any], Any] = _as_pickle_does,
    buffer_callback: Callable[[pickle.PickleBuffer], object] | None = None,
) -> None:
    """Pickles a value into a file, with the functions and classes of a notebook by value.

    Args:
      reduce: like `pickle.Pickler.reducer_override`, for any object.
      buffer_callback: like that of `pickle.Pickler`. Without it, the file contains the arrays.
    """

    class Pickler(cloudpickle.Pickler):
        dispatch_table: ClassVar[Any] = ChainMap(
            absl_flags.reducers(), cloudpickle.Pickler.dispatch_table
        )

        def reducer_override(self, obj: Any) -> Any:
            reduced = reduce(obj)
            return super().reducer_override(obj) if reduced is NotImplemented else reduced

    with readers_modules.sent_by_value():
        Pickler(file, protocol=PROTOCOL, buffer_callback=buffer_callback).dump(value)


def read(file: IO[bytes], buffers: Sequence[Buffer] = ()) -> Any:
    """Unpickles a value that `write` pickled.

    A class of the notebook that a worker sends back is the notebook's class, which stays as it is.
    cloudpickle alone would replace its methods with the worker's copies of them.
    """
    known = set(by_value._DYNAMIC_CLASS_TRACKER_BY_CLASS)

    def fill(new: type, state: Any) -> type:
        return new if new in known else by_value._class_setstate(new, state)

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found = super().find_class(module, name)
            return fill if found is by_value._class_setstate else found

    return Unpickler(file, buffers=buffers).load()


def pickled(
    value: Any, buffer_callback: Callable[[pickle.PickleBuffer], object] | None = None
) -> bytes:
    """Pickles a value like `write`, and returns the bytes."""
    file = io.BytesIO()
    write(value, file, buffer_callback=buffer_callback)
    return file.getvalue()


def dump(value: Any) -> list[Buffer]:
    """Pickles a value into several buffers, first the pickle, then the data of its arrays."""
    arrays: list[pickle.PickleBuffer] = []
    pickle_bytes = pickled(value, arrays.append)
    return [pickle_bytes, *(array.raw() for array in arrays)]


def load(buffers: Sequence[Buffer]) -> Any:
    """Returns the value of `dump`, whose arrays use the memory of the buffers."""
    return read(io.BytesIO(buffers[0]), buffers[1:])
