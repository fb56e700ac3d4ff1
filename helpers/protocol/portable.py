"""Checks whether the reader's functions can be sent to workers, and which arrays they capture."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.i18n import _, join_phrases, labeled
from helpers.protocol.captured import captured

LARGE_BYTES = 32e6


def check_functions(functions: Iterable[Callable[..., Any]], *, tensors: bool) -> None:
    """Raises ConfigError if an Estimator's function uses an outside dataset or tensor.

    Each worker builds its own graph, in which neither exists.

    Args:
      tensors: whether tensors are rejected too, because they start TensorFlow before a strategy
        can.
    """
    refused = {"DatasetV2", "EagerTensor"} if tensors else {"DatasetV2"}
    for function in functions:
        for name, value, user in captured(function):
            kind = type(value)
            if not kind.__module__.startswith("tensorflow.") or not _by_value(user):
                continue
            names = {base.__name__ for base in kind.__mro__}
            if not names & refused:
                continue
            what = _("a dataset") if "DatasetV2" in names else _("a tensor")
            message = _(
                "{function} ({line}) uses {name}, {what} created outside it. Each worker "
                "builds its own graph: create it inside the function, or keep its values as a "
                "NumPy array."
            )
            place = _line_of_use(user, name)
            raise ConfigError(
                message.format(function=user.__name__, line=place, name=name, what=what)
            )


def captured_arrays(functions: Iterable[Callable[..., Any]]) -> list[tuple[int, str]]:
    """The bytes and the names of the arrays that functions capture, largest first."""
    arrays: dict[int, tuple[int, str]] = {}
    for function in functions:
        for name, value, user in captured(function):
            if isinstance(size := getattr(value, "nbytes", None), int) and _by_value(user):
                arrays[id(value)] = size, name
    return sorted(arrays.values(), reverse=True)


def are_large(arrays: Iterable[tuple[int, str]]) -> bool:
    """Whether `captured_arrays` are so large that TensorFlow needs seconds for its graph."""
    return sum(size for size, _name in arrays) >= LARGE_BYTES


def describe_large(functions: Iterable[Callable[..., Any]]) -> str | None:
    """A notice about the arrays that functions capture, if they are large."""
    arrays = captured_arrays(functions)
    if not are_large(arrays):
        return None
    total = sum(size for size, _name in arrays)
    message = _(
        "The functions capture {total} of arrays ({names}). Every worker receives its own copy, "
        "which costs time and memory. To avoid this, save the arrays with numpy.save, and load "
        "them inside the function that uses them."
    )
    names = join_phrases(f"{name} {labels.format_bytes(size)}" for size, name in arrays[:3])
    return message.format(total=labels.format_bytes(total), names=names)


def _by_value(function: Callable[..., Any]) -> bool:
    """Whether a function is sent by value, like the functions of a notebook or a script."""
    module = getattr(function, "__module__", None)
    return module == "__main__" or module not in sys.modules or "<locals>" in function.__qualname__


def _line_of_use(function: Any, name: str) -> str:
    """The first line of a function that contains a name."""
    file, first = function.__code__.co_filename, function.__code__.co_firstlineno
    try:
        lines, _start = inspect.getsourcelines(function)
    except (OSError, TypeError):
        lines = []
    offset = next((k for k, line in enumerate(lines) if k and name in line), 0)
    place = _("{file}, line {number}").format(file=file, number=first + offset)
    return labeled(place, lines[offset].strip()) if lines else place
