"""What a recording shows about the questions that readers answer before it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from helpers.protocol.events import Event, EventType
from tools.site.recordings.run_file import Recording

RESTARTS, CONTINUES, ENDS = "restarts", "continues", "ends"


class Facts(NamedTuple):
    """The right answers to the questions about a run.

    Attributes:
      outcome: RESTARTS, CONTINUES or ENDS.
      standstill: the longest time without a step of any worker from the fault on, in seconds. A
        fault before the first step counts as its beginning.
      repeated: the number of steps that were trained twice.
    """

    outcome: str
    standstill: float
    repeated: int


def facts(recording: Recording) -> Facts:
    """The facts about a recording."""
    events = recording.events
    restarted = any(event["event"] == EventType.GROUP_RESTART for event in events)
    outcome = ENDS if recording.error else RESTARTS if restarted else CONTINUES
    return Facts(outcome, _standstill(events, fault_time(recording)), _repeated(events))


def fault_time(recording: Recording) -> float:
    """The time of the fault, in seconds since the start of the run."""
    return next(
        event["time"] for event in recording.events if event["event"] == EventType.FAULT_INJECTED
    )


def _standstill(events: Sequence[Event], fault: float) -> float:
    steps = [event["time"] for event in events if event["event"] == EventType.STEP]
    last = max((time for time in steps if time <= fault), default=fault)
    times = [last, *(time for time in steps if time > fault)]
    return max(after - before for before, after in pairwise(times))


def _repeated(events: Sequence[Event]) -> int:
    repeated = step = attempt = 0
    for event in events:
        if event["event"] == EventType.STEP:
            step = max(step, event["step"])
        elif event["event"] == EventType.READY and event["attempt"] > attempt:
            repeated += step - event["step"]
            step, attempt = event["step"], event["attempt"]
    return repeated
