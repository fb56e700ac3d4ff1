"""Events: what a worker tells the notebook, one JSON object a line, over a pipe."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

Event = dict[str, Any]
"""A decoded line. Every event has ``event`` (its kind), ``time`` (seconds since the epoch, at
the sender) and, once received, ``task`` (as "worker 1") and ``attempt`` (0, 1, … with each
restart).

| kind         | sent                                 | other fields                            |
|--------------|--------------------------------------|-----------------------------------------|
| started      | the process runs                     | pid, cores                              |
| alive        | each second, by a thread of its own  |                                         |
| plan         | the number of steps is known         | total_steps, global_batch, replicas     |
| ready        | the session is open, peers are there | step (where training goes on from)      |
| step         | some ten times a second              | step, loss, examples_per_second         |
| checkpoint   | the chief saved one                  | step                                    |
| evaluating   | a batch was evaluated                |                                         |
| evaluation   | an evaluation is complete            | step, metrics                           |
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


def decode(line: bytes) -> Event | None:
    """The event of one line, or None for a line that is no event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    well_formed = (
        isinstance(event, dict)
        and isinstance(event.get("event"), str)
        and isinstance(event.get("time"), int | float)
    )
    return event if well_formed else None
