"""The time until a group trains, and its memory: forked workers compared with new processes.

    python -m benchmarks.start [--repeat 5] [--workers 2 4] [--output FOLDER]

Both ways take turns in one run. A worker is killed in each run to measure the time of a restart,
and the next step ends the run. The first fork server is started before the measurement, because a
program imports TensorFlow only once. Writes `results/start.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import psutil

from benchmarks import RESULTS
from benchmarks.machine import describe, sentence
from benchmarks.report import publish
from benchmarks.stats import median_ratios, medians
from helpers import LocalCluster
from helpers.cluster import processes
from helpers.cluster.fork_client import can_fork
from helpers.course.lazy_defaults import input_fn, model_fn
from helpers.errors import StoppedError
from helpers.protocol.events import Event

STEPS, MIN_STEPS = 150, 3  # before a worker is killed
MANY_STEPS = 100_000  # more than before the kill, however late a busy machine injects it


class Measured(NamedTuple):
    """The result of one run: seconds, and bytes of all its processes together."""

    first_step: float
    next_step: float
    memory: int


def measure(workers: int, steps: int) -> Measured:
    """Trains, kills a worker after that many steps, and waits for the next one."""
    with LocalCluster(workers, collective="RING") as cluster:
        watch = _Watch(cluster, steps)
        with contextlib.suppress(StoppedError):
            cluster.train(
                model_fn,
                input_fn,
                steps=MANY_STEPS,
                save_checkpoints_steps=steps // 3,
                evaluate=None,
                progress=False,
                on_event=watch,
            )
    assert watch.restarts == 1
    return Measured(
        watch.first_stepped_at - watch.began_at, watch.stepped_at - watch.lost_at, watch.memory
    )


class _Watch:
    """Injects the fault, records the times, and ends the training run."""

    def __init__(self, cluster: LocalCluster, kill_at: int) -> None:
        self._cluster, self._kill_at = cluster, kill_at
        self.memory = self.restarts = 0
        self.began_at = time.time()
        self.first_stepped_at = self.lost_at = self.stepped_at = 0.0

    def __call__(self, event: Event) -> None:
        if event["event"] == "group_restart":
            self.restarts += 1
            self.lost_at = event["time"]
        if event["event"] != "step":
            return
        self.first_stepped_at = self.first_stepped_at or event["time"]
        if not self.memory and event["step"] >= self._kill_at:
            self.memory = sum(one.memory_full_info().pss for one in self._processes())
            self._cluster.processes[1].signal(signal.SIGKILL)
        if self.lost_at and not self.stepped_at:
            self.stepped_at = event["time"]
            self._cluster.stop()

    def _processes(self) -> set[psutil.Process]:
        """The workers, and the process that they were forked from.

        A memory page that several of them share counts for each in part (proc(5), Pss).
        """
        workers = {psutil.Process(process.pid) for process in self._cluster.processes}
        parents = {worker.parent() for worker in workers}
        servers = {p for p in parents if p and "helpers.cluster.fork_server" in p.cmdline()}
        return workers | servers


def compare(workers: int, rounds: int, steps: int) -> str:
    """Formats a row for each way, and the ratios, as Markdown."""
    runs: dict[bool, list[Measured]] = {True: [], False: []}
    for _round in range(rounds):
        for forked, found in runs.items():
            with patch.object(processes, "can_fork", return_value=forked):
                found.append(measure(workers, steps))
    lines = [
        f"| {workers} | {'forked' if forked else 'started anew'} | {first:.1f} | {after:.1f} "
        f"| {memory / 1e6:.0f} |"
        for forked, found in runs.items()
        for first, after, memory in [medians(found)]
    ]
    shown = " | ".join(f"{ratio:.1f}" for ratio in median_ratios(runs[False], runs[True]))
    return "\n".join([*lines, f"| {workers} | anew / forked | {shown} |"])


def main() -> None:
    """Measures, prints, and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--steps", type=int, default=STEPS, help="before a worker is killed")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.steps < MIN_STEPS:
        parser.error(
            f"--steps={args.steps}: {MIN_STEPS} or more, as a third of them ends in a checkpoint"
        )
    if not can_fork():
        parser.exit(1, "Workers are not forked on this machine, so there is nothing to compare.\n")
    about = sentence(describe(None))
    measure(2, args.steps)  # starts the fork server
    head = (
        "| workers | they are | first step after, s | next step after a kill, s | MB together |\n"
        "|---|---|---|---|---|"
    )
    rows = [compare(workers, args.repeat, args.steps) for workers in args.workers]
    text = "\n".join(["# The start of a group", "", about, "", head, *rows, ""])
    publish(text, args.output, "start.md")


if __name__ == "__main__":
    main()
