"""One request to several workers: sends it, shows their output, and waits for their replies."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from helpers.cluster.debugger_prompts import DebuggerPrompts
from helpers.cluster.stack_collection import collect
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, describe
from helpers.cluster.timeouts import SuspendSafeClock
from helpers.protocol.cell_messages import Message
from helpers.worker_cells.group import CellGroup, WorkerLink
from helpers.worker_cells.interrupts import InterruptRecorder
from helpers.worker_cells.output import CellOutput

POLL_INTERVAL = 0.05
LOG_INTERVAL = 0.1
MAX_LOG_BYTES = 1_000_000  # of a worker that are shown for one cell
INTERRUPT_TIMEOUT = 5.0  # for the reaction of a worker, before it is killed
HANG_INTERRUPT_TIMEOUT = 2.0  # the same, because a collective that waits cannot be interrupted
INTERRUPT_INTERVAL = 2.0  # after which it is interrupted again, because TensorFlow may lose one
ALONE_TIMEOUT = 10.0  # for workers that wait for others that do not run the cell
BUSY_SHARE = 0.1  # of a core, from which a worker computes and does not wait
BUSY_WINDOW = 2.0  # seconds, at least the interval of two heartbeats
LIBRARY_MESSAGE = re.compile(r"[IWE]\d{4} \d\d:|WARNING: All log messages before absl::")
FOR_PEERS = (WaitsFor.COLLECTIVE, WaitsFor.PEERS)


class Stop(Enum):
    """Why a request was stopped."""

    INTERRUPT = "the kernel was interrupted"
    TIMEOUT = "the time limit of the cell has passed"
    HANG = "all workers that run the cell wait for other workers"
    LOST = "a worker has ended"


@dataclass
class Outcome:
    """The end of a request.

    Attributes:
      replies: by the index of the worker.
      stop: why it was stopped, or None after all replies.
      unfinished: the workers that had not replied when it was stopped.
      places: where they were at that time, in clauses without a full stop, or "".
      unresponsive: the workers that did not react to an interrupt, and must be killed.
    """

    replies: dict[int, Message] = field(default_factory=dict)
    stop: Stop | None = None
    unfinished: list[WorkerLink] = field(default_factory=list)
    places: str = ""
    unresponsive: list[WorkerLink] = field(default_factory=list)

    @property
    def reaction_timeout(self) -> float:
        """Seconds in which a worker must react to an interrupt."""
        return HANG_INTERRUPT_TIMEOUT if self.stop == Stop.HANG else INTERRUPT_TIMEOUT


@dataclass(frozen=True)
class Limits:
    """How long to wait, in seconds.

    Attributes:
      total: for all replies, or None for no limit.
      hang: while all workers wait for each other, or None for no limit.
    """

    total: float | None = None
    hang: float | None = None


class LogTail:
    """The text that is appended to the log of a worker, by processes that it starts.

    The messages of TensorFlow's library in C++ stay in the log.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._left = MAX_LOG_BYTES
        self._end = log.stat().st_size

    def read(self) -> str:
        """The text since the last call, up to a limit."""
        size = self._log.stat().st_size
        if size <= self._end or not self._left:
            self._end = size  # a log that became too long was truncated
            return ""
        with self._log.open("rb") as file:
            file.seek(self._end)
            data = file.read(min(size - self._end, self._left))
        self._end += len(data)
        self._left -= len(data)
        lines = data.decode(errors="replace").splitlines(keepends=True)
        return "".join(line for line in lines if not LIBRARY_MESSAGE.match(line))


class HangDetector:
    """Detects that all workers of a request wait for other workers.

    Args:
      clock: measures the seconds.
      limits: see `Limits.hang`.
      others: whether there are workers that do not get the request.
    """

    def __init__(self, clock: SuspendSafeClock, limits: Limits, others: bool) -> None:
        self._clock = clock
        self._limits = limits
        self._others = others
        self._since = clock.now
        self._cpu: dict[int, float] = {}
        self._window = clock.now

    def progress(self) -> None:
        """Records that a worker has sent something."""
        self._since = self._clock.now

    def check(self, pending: Sequence[WorkerLink], finished: int) -> Stacks | None:
        """Returns the stacks of workers that wait for other workers for too long."""
        now = self._clock.now
        if self._limits.hang is None:
            return None
        if now - self._window > BUSY_WINDOW:
            used = {link.index: link.cpu for link in pending}
            share = BUSY_SHARE * (now - self._window)
            if any(cpu - self._cpu.get(index, 0) > share for index, cpu in used.items()):
                self.progress()
            self._cpu, self._window = used, now
        limit = self._limits.hang
        if finished or self._others:
            limit = min(limit, ALONE_TIMEOUT)
        if now - self._since < limit:
            return None
        self.progress()  # the next look follows after the same time
        stacks = collect([link.process for link in pending], {})
        waits = stacks and all(stack.waits_for in FOR_PEERS for stack in stacks.values())
        return stacks if waits else None


class Request:
    """A request to several workers.

    Args:
      group: the workers of the cluster.
      links: the workers that get the request.
      message: the request.
      output: shows the output of the workers.
      limits: how long to wait.
    """

    def __init__(
        self,
        group: CellGroup,
        links: Sequence[WorkerLink],
        message: Message,
        output: CellOutput,
        limits: Limits,
    ) -> None:
        self._group = group
        self._pending = {link.index: link for link in links}
        self._message = message
        self._output = output
        self._limits = limits
        self._clock = SuspendSafeClock()
        self._logs = {link.index: LogTail(link.process.log) for link in links}
        self._logs_read = 0.0
        others = len(links) < len(group.links)
        self._hangs = HangDetector(self._clock, limits, others)
        self._outcome = Outcome()
        self._prompts = DebuggerPrompts()
        self._interrupted_at = self._interrupted_last = 0.0

    def perform(self) -> Outcome:
        """Sends the request and waits until it has ended in all workers."""
        for link in self._pending.values():
            link.queue(self._message)
        with InterruptRecorder() as interrupts:
            while self._pending and not self._step(interrupts):
                pass
        if interrupts.count and not self._outcome.stop:
            self._outcome.stop = Stop.INTERRUPT
        self._read_logs()
        self._output.flush()
        return self._outcome

    def _step(self, interrupts: InterruptRecorder) -> bool:
        """Waits a moment for messages. Returns whether the request must be given up."""
        for link, message in self._group.poll(POLL_INTERVAL):
            self._receive(link, message)
        self._serve_debuggers(interrupts)
        self._clock.tick(paused=self._prompts.is_paused and not self._outcome.stop)
        if self._clock.now - self._logs_read > LOG_INTERVAL:
            self._read_logs()
        self._output.tick()
        outcome = self._outcome
        if self._pending and self._group.lost:
            outcome.unfinished = outcome.unfinished or list(self._pending.values())
            outcome.stop = outcome.stop or Stop.LOST
            return True
        if outcome.stop:
            return self._wait_for_reaction()
        if interrupts.count:
            self._stop(Stop.INTERRUPT)
        elif self._limits.total is not None and self._clock.now > self._limits.total:
            self._stop(Stop.TIMEOUT, collect([link.process for link in self._links], {}))
        elif stacks := self._hangs.check(self._links, len(outcome.replies)):
            self._stop(Stop.HANG, stacks)
        return False

    def _serve_debuggers(self, interrupts: InterruptRecorder) -> None:
        """Asks for the lines that debuggers wait for, after the output that came before."""
        if events := self._group.take_debugger_events():
            for link, message in self._group.poll(0):
                self._receive(link, message)
            self._output.catch_up()
        for event in events:
            self._prompts.observe(event, [link.process for link in self._group.links])
        if not self._outcome.stop and not interrupts.count:
            with interrupts.interruptible():
                for warning in self._prompts.serve():
                    self._group.on_warning(warning["message"])

    @property
    def _links(self) -> list[WorkerLink]:
        return list(self._pending.values())

    def _receive(self, link: WorkerLink, message: Message) -> None:
        self._hangs.progress()
        fields = message.fields
        self._read_log(link)  # which was written before the message
        if message.kind == "stream":
            self._output.add_text(link.index, fields["stream"], fields["text"])
        elif message.kind == "display":
            self._output.add_display(link.index, fields["data"], fields["metadata"])
        elif message.kind == "done" and fields["id"] == self._message.fields["id"]:
            self._output.finish(link.index)
            self._outcome.replies[link.index] = message
            self._pending.pop(link.index, None)

    def _read_logs(self) -> None:
        self._logs_read = self._clock.now
        for link in self._links:
            link.process.truncate_log()
            self._read_log(link)

    def _read_log(self, link: WorkerLink) -> None:
        if link.index in self._logs and (text := self._logs[link.index].read()):
            self._output.add_text(link.index, "stdout", text)

    def _stop(self, reason: Stop, stacks: Stacks | None = None) -> None:
        """Interrupts the workers that have not replied."""
        self._outcome.stop = reason
        self._outcome.unfinished = self._links
        if stacks is not None and stacks.answered:
            self._outcome.places = describe(stacks.values())
        self._interrupted_at = self._clock.now
        self._interrupt()

    def _interrupt(self) -> None:
        self._interrupted_last = self._clock.now
        for link in self._links:
            link.process.signal(signal.SIGINT)

    def _wait_for_reaction(self) -> bool:
        if self._clock.now - self._interrupted_at > self._outcome.reaction_timeout:
            self._outcome.unresponsive = self._links
            return True
        if self._clock.now - self._interrupted_last > INTERRUPT_INTERVAL:
            self._interrupt()
        return False
