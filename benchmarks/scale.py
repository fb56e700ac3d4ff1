"""The cost of supervision, and the time to detect a death, with 8, 64 and 512 workers.

    python -m benchmarks.scale [--workers 8 64 512] [--seconds 20] [--output FOLDER]

A machine with two cores cannot train 512 workers, but it can run 512 processes that send the same
messages: events and heartbeats, through the same kind of pipes. The watcher is the real one, fills
a real `TrainingResult`, and shows a progress bar. Writes `results/scale.md`.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import RESULTS
from benchmarks.report import page, publish
from helpers.cluster.group import WorkerGroup
from helpers.cluster.respawn import TaskFailure
from helpers.cluster.timeouts import Timeouts
from helpers.protocol.events import Event, EventType
from helpers.results.progress import consume
from helpers.results.training_result import TrainingResult
from helpers.tf_config import build_tf_configs
from tests.support.fake_worker import FakeWorkerProcess

SETTLED = 3.0  # seconds after the last worker has started
TIMEOUTS = Timeouts(start=120.0, heartbeat=30.0, progress=30.0)


@dataclass(frozen=True)
class Cost:
    """The cost of watching `workers` processes.

    Attributes:
      core: fraction of a core.
      events: per second.
      megabytes: memory of the watcher, more than before the first worker.
      growth: of this memory, per minute of training.
      noticed: seconds from a worker's death until the watcher reports the fault.
    """

    workers: int
    core: float
    events: float
    megabytes: float
    growth: float
    noticed: float


class _Watch:
    """Measures while events pass, and kills the last worker after enough of them."""

    def __init__(self, group: WorkerGroup, seconds: float) -> None:
        self._victim = group.processes[-1]
        self._waiting = {str(process.task) for process in group.processes}
        self._seconds = seconds
        self._me = psutil.Process()
        self._alone = self._me.memory_full_info().uss
        self._from: float | None = None
        self.killed = 0.0

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if self._waiting:
            self._waiting.discard(event["task"] if event["event"] == EventType.STEP else "")
            self._settled = now + SETTLED
        elif self._from is None:
            if now > self._settled:
                self._from, self._cpu, self._count = now, time.process_time(), 0
                self._memory = self._me.memory_full_info().uss
        elif not self.killed:
            self._count += 1
            if now > self._from + self._seconds:
                self._stop(now - self._from)

    def _stop(self, seconds: float) -> None:
        memory = self._me.memory_full_info().uss
        self.core = (time.process_time() - self._cpu) / seconds
        self.events = self._count / seconds
        self.megabytes = (memory - self._alone) / 1e6
        self.growth = (memory - self._memory) / 1e6 * 60 / seconds
        self.killed = time.monotonic()
        self._victim.signal(signal.SIGKILL)


def measure(workers: int, seconds: float) -> Cost:
    """Watches that many processes for a while, and kills one."""
    talkers = [
        FakeWorkerProcess(config)
        for config in build_tf_configs([f"host-{k}:2222" for k in range(workers)])
    ]
    group = WorkerGroup(talkers, (), TIMEOUTS)
    watch = _Watch(group, seconds)
    result = TrainingResult(workers, "RING", "", time.time())
    silent, wake = os.pipe()
    noticed: list[float] = []
    try:
        with (
            closing(group),
            suppress(TaskFailure),
            redirect_stderr(io.StringIO()),
        ):  # its progress bar
            consume(_noting(group.monitor(silent), noticed), result, on_event=watch)
    finally:
        os.close(silent)
        os.close(wake)
    return Cost(
        workers, watch.core, watch.events, watch.megabytes, watch.growth, noticed[0] - watch.killed
    )


def _noting(events: Iterator[Event], noticed: list[float]) -> Iterator[Event]:
    """Yields the events like a supervisor, and records when a fault ended them."""
    try:
        for event in events:
            yield event | {"attempt": 0}
    except TaskFailure:
        noticed.append(time.monotonic())
        raise


def report_text(costs: list[Cost]) -> str:
    """Formats the results as Markdown."""
    rows = [
        f"| {cost.workers} | {cost.core:.1%} | {cost.events:.0f} | {cost.megabytes:.1f} "
        f"| {cost.growth:.1f} | {cost.noticed:.2f} |"
        for cost in costs
    ]
    columns = ["workers", "share of a core", "events/s", "MB", "MB more per minute"]
    return page("The cost of supervision", [*columns, "death detected after, s"], rows)


def main() -> None:
    """Measures, prints, and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    measure(2, 1.0)  # does the imports, so that the first measurement does not include them
    text = report_text([measure(workers, args.seconds) for workers in args.workers])
    publish(text, args.output, "scale.md")


if __name__ == "__main__":
    main()
