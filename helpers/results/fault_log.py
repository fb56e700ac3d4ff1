"""The log of injected faults, failures and recoveries of a run."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import NamedTuple

from helpers import labels
from helpers.i18n import _, join_clauses, join_phrases, ngettext, number
from helpers.protocol.events import Event, EventType, FaultType
from helpers.results.history import Resize

ANY_TASK = ""  # the key if the next step of any task ends the recovery
BLOCKING_FAULTS = (FaultType.PAUSE, FaultType.PARTITION, FaultType.DISK_FULL)
STYLE = "text-align: left; vertical-align: top"


class Entry(NamedTuple):
    """One line of the log: the `message` about an event of a `task`, such as "worker 1".

    Attributes:
      seconds: the time since the start of the run.
    """

    seconds: float
    task: str
    message: str


class FaultLog(list[Entry]):
    """Entries in order of time: injected faults, their detection, and the next step."""

    def __init__(self) -> None:
        super().__init__()
        self._step = 0  # the last reported step
        self._reporters: set[str] = set()  # tasks that report steps
        self._fault_time: float | None = None  # the time of a fault not yet detected
        self._pending_recovery: dict[str, float] = {}  # start times, by task or ANY_TASK
        self._restarted = False
        self._respawning: dict[str, float] = {}  # start times of respawns, by task

    def add(self, event: Event, seconds: float) -> None:
        """Adds an event that arrived `seconds` after the start of the run."""
        task = event.get("task", "")
        match event["event"]:
            case EventType.FAULT_INJECTED:
                self.append(Entry(seconds, task, _describe_fault(event["fault"], event["options"])))
                self._fault_time = seconds
            case EventType.FAULT_CLEARED:
                self.append(Entry(seconds, task, _describe_cleared_fault(event["fault"])))
                self._fault_time = None
                if event["fault"] in BLOCKING_FAULTS:
                    self._pending_recovery[task if task in self._reporters else ANY_TASK] = seconds
            case EventType.GROUP_RESTART:
                then = _("all processes were restarted")
                self.append(Entry(seconds, task, self._detected(seconds, event["reason"], then)))
                self._pending_recovery, self._respawning, self._restarted = (
                    {ANY_TASK: seconds},
                    {},
                    True,
                )
            case EventType.GROUP_RESIZED:
                self.append(Entry(seconds, task, Resize.from_event(event).numbers))
            case EventType.RESPAWNED:
                then = _("it was restarted, and the others continued")
                self.append(Entry(seconds, task, self._detected(seconds, event["reason"], then)))
                self._respawning[task] = seconds
            case EventType.READY if task in self._respawning:
                back = _("back after {seconds} s")
                since = seconds - self._respawning.pop(task)
                self.append(Entry(seconds, task, back.format(seconds=_format_seconds(since))))
            case EventType.STEP:
                self._take_step(event["step"], task, seconds)

    def _detected(self, seconds: float, reason: str, then: str) -> str:
        harmed, self._fault_time = self._fault_time, None
        if harmed is None:
            noticed = _("detected: {reason}").format(reason=reason)
        else:
            message = _("detected {seconds} s later: {reason}")
            noticed = message.format(seconds=_format_seconds(seconds - harmed), reason=reason)
        return join_clauses([noticed, then])

    def _take_step(self, step: int, task: str, seconds: float) -> None:
        self._reporters.add(task)
        for awaited in (ANY_TASK, task):
            since = self._pending_recovery.get(awaited)
            if since is not None and seconds > since:
                del self._pending_recovery[awaited]
                self.append(Entry(seconds, task, self._resumed(step, seconds - since)))
        self._step = max(self._step, step)

    def _resumed(self, step: int, seconds: float) -> str:
        message = _("the next step is {step}, after {seconds} s")
        phrases = [message.format(step=step, seconds=_format_seconds(seconds))]
        if self._restarted:
            phrases.append(_lost_steps(self._step - step + 1))
            self._restarted, self._step = False, step
        return join_phrases(phrases)

    def _texts(self) -> Iterator[tuple[str, str, str]]:
        """The time, the task and the message of each line, in the language in use."""
        for line in self:
            yield format_elapsed(line.seconds), labels.task(line.task), line.message

    def __repr__(self) -> str:
        texts = list(self._texts())
        times = max((len(time) for time, _task, _what in texts), default=0)
        tasks = max((len(task) for _time, task, _what in texts), default=0)
        return "\n".join(f"{time:>{times}}  {task:<{tasks}}  {what}" for time, task, what in texts)

    def _repr_html_(self) -> str:
        rows = (
            "".join(f'<td style="{STYLE}">{html.escape(text)}</td>' for text in texts)
            for texts in self._texts()
        )
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def format_elapsed(seconds: float) -> str:
    """A duration as text, such as "2.5 s"."""
    return _("{seconds} s").format(seconds=number(seconds, ".1f"))


def _describe_fault(fault: str, options: dict[str, float]) -> str:
    """The message about an injected fault."""
    match fault:
        case FaultType.KILL:
            what = _("killed (SIGKILL)")
        case FaultType.PAUSE:
            what = _("frozen (SIGSTOP)")
        case FaultType.THROTTLE:
            what = _("slowed down to 1/{factor} of its speed")
        case FaultType.PARTITION:
            what = _("disconnected from the network")
        case FaultType.DISK_FULL:
            what = _("its disk is full: no write to a file succeeds")
        case FaultType.NODE_LOSS:
            what = _("its machine is lost (SIGKILL)")
        case FaultType.PREEMPT:
            what = _("preempted (SIGTERM)")
        case _delay:
            return _("its next start is delayed by {seconds} s").format(**_numbers(options))
    if "seconds" in options:
        what = join_phrases([what, _("for {seconds} s")])
    return what.format(**_numbers(options))


def _describe_cleared_fault(fault: str) -> str:
    """The message about a cleared fault."""
    match fault:
        case FaultType.PAUSE:
            return _("thawed (SIGCONT)")
        case FaultType.THROTTLE:
            return _("at full speed again")
        case FaultType.PARTITION:
            return _("reconnected to the network")
        case FaultType.DISK_FULL:
            return _("its disk has space again")
        case FaultType.NODE_LOSS:
            return _("its machine is available again")
        case _delay:
            return _("its next start is not delayed")


def _lost_steps(steps: int) -> str:
    if steps <= 0:
        return _("no step was lost")
    return ngettext("{count} step was lost", "{count} steps were lost", steps).format(count=steps)


def _format_seconds(seconds: float) -> str:
    return number(seconds, ".1f" if seconds >= 1 else ".2f")


def _numbers(options: dict[str, float]) -> dict[str, str]:
    return {name: number(value, "g") for name, value in options.items()}
