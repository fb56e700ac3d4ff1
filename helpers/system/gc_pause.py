"""Python's search for garbage, which the import of TensorFlow sets off again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Has Python search for no garbage: a sixth of TensorFlow's import is searches in vain.

    What becomes garbage meanwhile is found afterwards.
    """
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()
