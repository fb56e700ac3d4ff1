"""Project 2, the chart: bytes, overlap and time of a student's training, with their formulas."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from helpers.course.charts.svg import Drawing
from helpers.course.projects.data_parallel_gate import Gate
from helpers.course.projects.data_parallel_runs import (
    NAME,
    STOPPED_TIMEOUT,
    Job,
    Script,
    observe,
)
from helpers.course.projects.group import HANG, ProcessGroup
from helpers.course.projects.observations import all_returned, from_data, subtract
from helpers.course.projects.panels import Panel, draw, megabytes, milliseconds, not_measured
from helpers.course.projects.ring_all_reduce import wanted_bytes
from helpers.i18n import _

WORKERS = (2, 3, 4)
LAYERS = 5
LARGE, SMALL = 256, 16  # inputs of each layer
STEPS = 4  # the fastest step counts, because the machine may be busy
LAYER_SECONDS, LATENCY = 0.04, 0.005
QUIET = 0.2  # seconds without a byte, after which no more are expected
MB, MS = 1e6, 1e-3


def measure(module: Path) -> Drawing:
    """Measures the module with 2, 3 and 4 processes.

    Raises:
      ConfigError: it does not work with one of these numbers.
    """
    sent, early, times = [], [], []
    for workers in WORKERS:
        step, before_end = _bytes(module, workers)
        sent.append((workers, step / MB))
        early.append((workers, before_end / MB))
        times.append((workers, _seconds(module, workers) / MS))
    layer = _job(2, LARGE).layers[0] / MB
    last, latency = LAYERS * LAYER_SECONDS / MS, LATENCY / MS
    panels = [
        Panel(
            _("MB sent per step"),
            f"2(N−1)/N · {megabytes(LAYERS * layer)}",
            [(count, wanted_bytes(count, 1) * LAYERS * layer) for count in WORKERS],
            sent,
        ),
        Panel(
            _("MB sent before the gradient of the first layer"),
            f"2(N−1)/N · {megabytes((LAYERS - 1) * layer)}",
            [(count, wanted_bytes(count, 1) * (LAYERS - 1) * layer) for count in WORKERS],
            early,
        ),
        Panel(
            _("ms per step"),
            f"{LAYERS} · {milliseconds(LAYER_SECONDS / MS)} + 2(N−1) · {milliseconds(latency)}",
            [(count, last + 2 * (count - 1) * latency) for count in WORKERS],
            times,
        ),
    ]
    return draw(_("Your training loop in 2, 3 and 4 processes"), panels)


def _job(workers: int, width: int) -> Job:
    """Training in which each layer fills a bucket."""
    return Job([width] * (LAYERS + 1), [[2] * workers] * STEPS, bucket=4 * width)


def _bytes(module: Path, workers: int) -> tuple[int, int]:
    """The most bytes that a process sends in the second step, and before its first layer."""
    marks: list[list[int]] = []  # the bytes of each process at the start of each step
    early: list[int] = []

    def script(group: ProcessGroup, gate: Gate) -> None:
        while not gate.wait_for_all(HANG):
            if gate.layer == LAYERS:
                marks.append(group.sent)
            elif gate.layer == 0 and len(marks) == 2:
                early.extend(_wait_until_quiet(group))
            gate.open()

    _train(module, _job(workers, LARGE), script, marks)
    start, end = marks[1:3]
    return _most(start, end), _most(start, early)


def _seconds(module: Path, workers: int) -> float:
    """The time of the fastest step, if each layer takes some time, and each message too."""
    marks: list[float] = []

    def script(group: ProcessGroup, gate: Gate) -> None:
        while not gate.wait_for_all(HANG):
            if gate.layer == LAYERS:
                marks.append(time.monotonic())
            else:
                time.sleep(LAYER_SECONDS)
            gate.open()

    _train(module, _job(workers, SMALL), script, marks, LATENCY)
    return min(end - start for start, end in pairwise(marks))


def _train(
    module: Path, job: Job, script: Script, marks: Sequence[Any], latency: float = 0.0
) -> None:
    workers = job.workers
    with ProcessGroup(module, NAME, workers, timeout=STOPPED_TIMEOUT, latency=latency) as group:
        works = all_returned(group.open(HANG))
        works = works and all_returned(from_data(observe(group, job, 0, script)["replies"]))
    works = works and len(marks) == STEPS
    if not works:
        raise not_measured(NAME, "N", workers)


def _wait_until_quiet(group: ProcessGroup) -> list[int]:
    """Waits until no process sends, and returns what each has sent."""
    before = group.sent
    while True:
        time.sleep(QUIET)
        now = group.sent
        if now == before:
            return now
        before = now


def _most(start: list[int], end: list[int]) -> int:
    return max(subtract(end, start))
