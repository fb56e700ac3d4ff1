"""Events, which a worker sends to the notebook over a pipe, one JSON object per line."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

Event = dict[str, Any]
"""A decoded line. Every event has ``event`` (its `EventType`), ``time`` (seconds since the epoch,
at the sender) and, once received, ``task`` (as "worker 1") and ``attempt`` (0, 1, … with each
restart)."""


class EventType(str, Enum):
    """The kind of an event.

    | type                | sent                                | other fields                     |
    |---------------------|-------------------------------------|----------------------------------|
    | launched            | it was requested (from supervisor)  |                                  |
    | started             | the process runs                    | pid, cores, isolated, host       |
    | heartbeat           | each second, by its own thread,     |                                  |
    |                     | with the CPU time used so far       |                                  |
    | connecting          | collectives wait for the peers, and |                                  |
    |                     | hold Python's lock: no thread runs  |                                  |
    | connected           | the peers are connected             |                                  |
    | run_info            | the number of steps is known        | total_steps, global_batch        |
    | ready               | the session is open, with all peers | step (where training resumes)    |
    | variable_placement  | the session is open                 | bytes (of each task, by name)    |
    | step                | some ten times a second             | step, loss, examples_per_second  |
    | staleness           | with a step, if asynchronous: mean  | step, updates                    |
    |                     | updates by others during one step   |                                  |
    | waiting             | a step has lasted a second          | batches (of the step, from 1)    |
    | trained             | its training has ended              | step, batches                    |
    | checkpoint          | the chief saved one                 | step                             |
    | trace               | the steps to trace have ended       | spans                            |
    | evaluation_progress | a batch was evaluated               |                                  |
    | evaluation          | an evaluation is complete           | step, metrics                    |
    | warning             | information for the reader          | message                          |
    | debugger_stopped    | a debugger waits for a line         | text, place                      |
    | debugger_continued  | it no longer waits                  | text                             |
    | result              | the work returned a value, or it is | value, is_pickled                |
    |                     | in a file (`protocol.results`)      |                                  |
    | error               | the work raised                     | retryable, type, message,        |
    |                     |                                     | frames, error_class              |
    | exit                | the process ended (from supervisor) | code                             |
    | respawned           | a new process replaced it (same)    | reason                           |
    | preempted           | it received SIGTERM, and will save  |                                  |
    |                     | and exit                            |                                  |
    | group_restart       | a new attempt begins (from          | reason                           |
    |                     | supervisor)                         |                                  |
    | group_resized       | the number of workers changes       | step, previous, workers, reason  |
    |                     | (same)                              |                                  |
    | fault_injected      | a fault was injected (same)         | fault, options (of the fault)    |
    | fault_cleared       | a fault was cleared (same)          | fault                            |
    | attempt_failed      | an attempt on Ray ended (by Ray's   | lost, raised, stacks             |
    |                     | controller)                         |                                  |
    | slots_counted       | Ray has resources for some workers, | slots, request (or None)         |
    |                     | and may wait for a size (same)      |                                  |
    """

    LAUNCHED = "launched"
    STARTED = "started"
    HEARTBEAT = "heartbeat"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RUN_INFO = "run_info"
    READY = "ready"
    VARIABLE_PLACEMENT = "variable_placement"
    STEP = "step"
    STALENESS = "staleness"
    WAITING = "waiting"
    TRAINED = "trained"
    CHECKPOINT = "checkpoint"
    TRACE = "trace"
    EVALUATION_PROGRESS = "evaluation_progress"
    EVALUATION = "evaluation"
    WARNING = "warning"
    DEBUGGER_STOPPED = "debugger_stopped"
    DEBUGGER_CONTINUED = "debugger_continued"
    RESULT = "result"
    ERROR = "error"
    EXIT = "exit"
    RESPAWNED = "respawned"
    PREEMPTED = "preempted"
    GROUP_RESTART = "group_restart"
    GROUP_RESIZED = "group_resized"
    FAULT_INJECTED = "fault_injected"
    FAULT_CLEARED = "fault_cleared"
    ATTEMPT_FAILED = "attempt_failed"
    SLOTS_COUNTED = "slots_counted"

    __str__ = str.__str__


class FaultType(str, Enum):
    """The faults that `LocalCluster.inject_fault` injects into a process."""

    KILL = "kill"
    PAUSE = "pause"
    THROTTLE = "throttle"
    PARTITION = "partition"
    DISK_FULL = "disk_full"
    DELAY_START = "delay_start"
    NODE_LOSS = "node_loss"
    PREEMPT = "preempt"

    __str__ = str.__str__


EVENT_FD = "LESSON_EVENT_FD"


class EventWriter:
    """Writes events to a file descriptor, or drops them without one.

    Safe to call from several threads. In a fork of this process it writes nothing, because the
    fork, in which a function returns a second time, is not the worker.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @classmethod
    def from_env(cls) -> EventWriter:
        """Uses the pipe this process was started with, which its children do not inherit."""
        fd = os.environ.pop(EVENT_FD, None)
        if fd is None:
            return cls(None)
        os.set_inheritable(int(fd), False)
        return cls(int(fd))

    def __call__(self, event: str, **fields: Any) -> None:
        """Sends one event. A closed pipe is ignored."""
        if self._fd is None or os.getpid() != self._pid:
            return
        data = encode(event, **fields)
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except BrokenPipeError:
                self._fd = None


def encode(event: str, **fields: Any) -> bytes:
    """Encodes one event, with the current time, as a line."""
    content = {"event": event, "time": time.time(), **fields}
    return json.dumps(content, default=float).encode() + b"\n"


def supervisor_event(event_type: EventType, task: object, **fields: Any) -> Event:
    """Creates an event of a task's supervisor, in the form that readers of events receive."""
    return {"event": event_type.value, "time": time.time(), "task": str(task), **fields}


def _text(value: object) -> bool:
    return isinstance(value, str)


def _maybe_text(value: object) -> bool:
    return value is None or _text(value)


def _integer(value: object) -> bool:
    return isinstance(value, int) and abs(value) < 2**63


def _number(value: object) -> bool:
    return isinstance(value, float) or _integer(value)


def _maybe_number(value: object) -> bool:
    return value is None or _number(value)


def _by_name(value: object) -> bool:
    return isinstance(value, dict)


def _integers_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(map(_integer, value.values()))


def _integers(value: object) -> bool:
    return isinstance(value, list) and all(map(_integer, value))


def _frames(value: object) -> bool:
    return isinstance(value, list) and all(map(_frame, value))


def _frame(value: object) -> bool:
    match value:
        case [str(), number, str()]:
            return _integer(number)
    return False


def _spans(value: object) -> bool:
    return isinstance(value, list) and all(map(_span, value))


def _span(value: object) -> bool:
    match value:
        case [str(), str(), start, end, str()]:
            return _number(start) and _number(end)
    return False


def _boolean(value: object) -> bool:
    return isinstance(value, bool)


Fields = Mapping[str, Callable[[object], bool]]

# The events of a worker: the required fields of each kind, and their checks.
WORKER_EVENT_FIELDS: Mapping[EventType, Fields] = {
    EventType.STARTED: {"pid": _integer, "cores": _integers, "isolated": _boolean, "host": _text},
    EventType.HEARTBEAT: {},
    EventType.CONNECTING: {},
    EventType.CONNECTED: {},
    EventType.RUN_INFO: {"total_steps": _integer, "global_batch": _integer},
    EventType.READY: {"step": _integer},
    EventType.VARIABLE_PLACEMENT: {"bytes": _integers_by_name},
    EventType.STEP: {"step": _integer, "loss": _number, "examples_per_second": _maybe_number},
    EventType.STALENESS: {"step": _integer, "updates": _number},
    EventType.WAITING: {"batches": _integer},
    EventType.TRAINED: {"step": _integer, "batches": _integer},
    EventType.CHECKPOINT: {"step": _integer},
    EventType.TRACE: {"spans": _spans},
    EventType.PREEMPTED: {},
    EventType.EVALUATION_PROGRESS: {},
    EventType.EVALUATION: {"step": _integer, "metrics": _by_name},
    EventType.WARNING: {"message": _text},
    EventType.DEBUGGER_STOPPED: {"text": _text, "place": _frame},
    EventType.DEBUGGER_CONTINUED: {"text": _text},
    EventType.RESULT: {"value": lambda value: True, "is_pickled": _boolean},
    EventType.ERROR: {
        "retryable": _boolean,
        "type": _text,
        "message": _text,
        "frames": _frames,
        "error_class": _maybe_text,
    },
}

# The events of supervisors, which are trusted and not checked.
SUPERVISOR_EVENT_FIELDS: Mapping[EventType, tuple[str, ...]] = {
    EventType.LAUNCHED: (),
    EventType.EXIT: ("code",),
    EventType.RESPAWNED: ("reason",),
    EventType.GROUP_RESTART: ("reason",),
    EventType.GROUP_RESIZED: ("step", "previous", "workers", "reason"),
    EventType.FAULT_INJECTED: ("fault", "options"),
    EventType.FAULT_CLEARED: ("fault",),
    EventType.ATTEMPT_FAILED: ("lost", "raised", "stacks"),
    EventType.SLOTS_COUNTED: ("slots", "request"),
}


def decode(line: bytes) -> Event | None:
    """The event in a line from a worker, or None for a malformed line."""
    try:
        event = json.loads(line)
        fields = WORKER_EVENT_FIELDS[EventType(event["event"])]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    checks = {"time": _number, **fields}
    well_formed = all(name in event and check(event[name]) for name, check in checks.items())
    return event if well_formed else None
