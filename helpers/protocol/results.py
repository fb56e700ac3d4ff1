"""The result of a function: a plain value in its event, and any other value pickled in a file.

A plain value is one that JSON preserves. The notebook reads the file as soon as the event arrives,
and deletes it. Unpickling may run any code. A notebook trusts its own functions, which its workers
run as the same user. A grader trusts no submission, so it forbids unpickling (`tools.teaching`).
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.i18n import _
from helpers.protocol import values
from helpers.protocol.events import Event, EventType

MAX_PLAIN_SIZE = 10_000  # values and characters in an event
MAX_INTEGER_BITS = 64
PACKAGES = ("tensorflow", "keras", "tf_keras")  # whose objects belong to one process
CONTAINERS = (list, dict, tuple)  # that TensorFlow wraps if they are attributes of a model

# Set to False by programs that grade other people's code.
may_unpickle: ContextVar[bool] = ContextVar("may_unpickle", default=True)


def fields(value: Any, folder: Path | None, task: object) -> dict[str, Any]:
    """The fields of the "result" event of a task. Writes a file if the value is not plain.

    Args:
      folder: the folder of the attempt, or None if no notebook reads the result.

    Raises:
      ConfigError: the value cannot be pickled or written.
    """
    if folder is None or is_plain(value):
        return {"value": value, "is_pickled": False}
    try:
        with _path(folder, task).open("wb") as file:
            values.write(value, file, reduce=_reduce)
    except OSError as error:
        message = _("The result of the function cannot be written: {reason}.")
        raise ConfigError(message.format(reason=error.strerror or error)) from None
    except Exception as error:  # __reduce__ of the reader's objects may raise any exception
        message = _(
            "The function returned {value}, which cannot be sent to the notebook: {error}. Return "
            "numbers, text, NumPy arrays, or lists, dicts and dataclasses of them, and save models "
            "to a file."
        )
        raise ConfigError(message.format(value=_shown(value), error=error)) from error
    return {"value": None, "is_pickled": True}


def read(event: Event, folder: Path) -> Any:
    """The value of a "result" event. Deletes its file.

    Args:
      folder: the folder of the run.

    Raises:
      ConfigError: this process cannot read the value.
    """
    if not event["is_pickled"]:
        return event["value"]
    path = _path(folder / f"attempt-{event['attempt']}", event["task"])
    try:
        if not may_unpickle.get():
            raise ValueError(_("this program does not unpickle results"))
        with path.open("rb") as file:
            return values.read(file)
    except Exception as error:  # such as ImportError, or from the reader's classes
        message = _("The result of {task} cannot be read in the notebook: {error}")
        task = labels.task(event["task"])
        raise ConfigError(message.format(task=task, error=error)) from error
    finally:
        path.unlink(missing_ok=True)


def with_values(events: Iterable[Event], folder: Path) -> Iterator[Event]:
    """The events of a run, in which each "result" event has its value.

    Raises: as `read`.
    """
    for event in events:
        is_result = event["event"] == EventType.RESULT
        yield event | {"value": read(event, folder)} if is_result else event


def is_plain(value: Any) -> bool:
    """Whether JSON preserves a value, and it is small enough for an event."""
    left, pending = MAX_PLAIN_SIZE, [value]
    while pending:
        one = pending.pop()
        kind = type(one)
        left -= 1
        if kind is list:
            pending += one[: left + 1]
        elif kind is dict:
            if len(one) > left or any(type(name) is not str for name in one):
                return False
            left -= sum(map(len, one))
            pending += one.values()
        elif kind is str:
            left -= len(one)
        elif kind is int:
            if one.bit_length() > MAX_INTEGER_BITS:
                return False
        elif one is not None and kind not in (bool, float):
            return False
        if left < 0:
            return False
    return True


def _path(folder: Path, task: object) -> Path:
    return folder / f"result-{str(task).replace(' ', '-')}.pickle"


def _reduce(value: Any) -> Any:
    """Reduces a tensor to its array, for `values.write`.

    Raises:
      TypeError: it is another object of TensorFlow or Keras, which the notebook's process could
        not use, and for which it would import TensorFlow.
    """
    kind = type(value)
    if str(getattr(kind, "__module__", "")).partition(".")[0] not in PACKAGES:
        return NotImplemented
    if kind.__name__ == "EagerTensor":
        return _identity, (value.numpy(),)
    for container in CONTAINERS:
        if isinstance(value, container):
            return container, (container(value),)
    message = _("an object of type {type} belongs to the process of its worker")
    raise TypeError(message.format(type=kind.__name__))


def _identity(value: Any) -> Any:
    return value


def _shown(value: Any) -> str:
    with suppress(Exception):  # of the reader's __repr__
        return reprlib.repr(value)
    return type(value).__name__
