"""Events: what a worker tells the notebook, one JSON object a line, over a pipe."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

Event = dict[str, Any]
"""A decoded line. Every event has ``event`` (its kind), ``time`` (seconds since the epoch, at
the sender) and, once received, ``task`` (as "worker 1") and ``attempt`` (0, 1, … with each
restart).

| kind         | sent                                 | other fields                            |
|--------------|--------------------------------------|-----------------------------------------|
| started      | the process runs                     | pid, cores, isolated                    |
| alive        | each second, by a thread of its own  |                                         |
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


# What each kind must carry, and of which type; a kind that is not here is not one of ours.
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "started": {"pid": int, "cores": list, "isolated": bool},
    "alive": {},
    "plan": {"total_steps": int, "global_batch": int},
    "ready": {"step": int},
    "step": {"step": int, "loss": float | int, "examples_per_second": float | int | None},
    "checkpoint": {"step": int},
    "evaluating": {},
    "evaluation": {"step": int, "metrics": dict},
    "notice": {"message": str},
    "result": {"value": object},
    "error": {"restartable": bool, "type": str, "message": str, "frames": list},
}


def decode(line: bytes) -> Event | None:
    """The event of one line, or None for a line that is no event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return None
    fields = {"time": float | int, **FIELDS.get(event["event"], {"": object})}
    well_formed = all(
        name in event and isinstance(event[name], kind) for name, kind in fields.items()
    )
    return event if well_formed else None
