"""Events: what a worker tells the notebook, one JSON object a line, over a pipe."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

Event = dict[str, Any]
"""A decoded line. Every event has ``event`` (its kind), ``time`` (seconds since the epoch, at
the sender) and, once received, ``task`` (as "worker 1") and ``attempt`` (0, 1, … with each
restart).

| kind         | sent                                 | other fields                            |
|--------------|--------------------------------------|-----------------------------------------|
| launched     | it was asked for (by its watcher)    |                                         |
| started      | the process runs                     | pid, cores, isolated                    |
| alive        | each second, by a thread of its own  |                                         |
| connecting   | collectives wait for the peers, and  |                                         |
|              | hold Python's lock: none can speak   |                                         |
| connected    | the peers are there                  |                                         |
| plan         | the number of steps is known         | total_steps, global_batch               |
| ready        | the session is open, peers are there | step (where training goes on from)      |
| step         | some ten times a second              | step, loss, examples_per_second         |
| checkpoint   | the chief saved one                  | step                                    |
| evaluating   | a batch was evaluated                |                                         |
| evaluation   | an evaluation is complete            | step, metrics                           |
| notice       | something the reader should know     | message                                 |
| result       | the work returned a value            | value                                   |
| error        | the work raised                      | restartable, type, message, frames      |
| exit         | the process ended (by its watcher)   | code                                    |
| replaced     | a new process took its place (same)  | reason                                  |
| restart      | a new attempt begins (same)          | reason                                  |
"""

EVENT_FD = "LESSON_EVENT_FD"


class EventWriter:
    """Writes events to a file descriptor; without one, drops them.

    Safe to call from several threads.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    @classmethod
    def from_env(cls) -> EventWriter:
        """The pipe this process was started with; it is not passed on to children."""
        fd = os.environ.pop(EVENT_FD, None)
        if fd is None:
            return cls(None)
        os.set_inheritable(int(fd), False)
        return cls(int(fd))

    def __call__(self, event: str, **fields: Any) -> None:
        """Sends one event. A reader that has gone away is ignored."""
        if self._fd is None:
            return
        line = json.dumps({"event": event, "time": time.time(), **fields}, default=float) + "\n"
        data = line.encode()
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except BrokenPipeError:
                self._fd = None


def _text(value: object) -> bool:
    return isinstance(value, str)


def _integer(value: object) -> bool:
    return isinstance(value, int) and abs(value) < 2**63


def _number(value: object) -> bool:
    return isinstance(value, float) or _integer(value)


def _maybe_number(value: object) -> bool:
    return value is None or _number(value)


def _numbers_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(map(_number, value.values()))


def _integers(value: object) -> bool:
    return isinstance(value, list) and all(map(_integer, value))


def _frames(value: object) -> bool:
    return isinstance(value, list) and all(map(_frame, value))


def _frame(value: object) -> bool:
    match value:
        case [str(), number, str()]:
            return _integer(number)
    return False


def _boolean(value: object) -> bool:
    return isinstance(value, bool)


# What each kind must carry, and how to tell; a kind that is not here is not one of ours.
FIELDS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "started": {"pid": _integer, "cores": _integers, "isolated": _boolean},
    "alive": {},
    "connecting": {},
    "connected": {},
    "plan": {"total_steps": _integer, "global_batch": _integer},
    "ready": {"step": _integer},
    "step": {"step": _integer, "loss": _number, "examples_per_second": _maybe_number},
    "checkpoint": {"step": _integer},
    "evaluating": {},
    "evaluation": {"step": _integer, "metrics": _numbers_by_name},
    "notice": {"message": _text},
    "result": {"value": lambda value: True},
    "error": {"restartable": _boolean, "type": _text, "message": _text, "frames": _frames},
}


def decode(line: bytes) -> Event | None:
    """The event of one line, or None for a line that is no event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("event") not in list(FIELDS):
        return None
    fields = {"time": _number, **FIELDS[event["event"]]}
    well_formed = all(name in event and check(event[name]) for name, check in fields.items())
    return event if well_formed else None
