"""Project 1, the chart: bytes, time and memory of a student's all-reduce, with their formulas."""

from __future__ import annotations

from pathlib import Path

from helpers.course.charts.svg import Drawing
from helpers.course.projects.group import HANG, ProcessGroup
from helpers.course.projects.observations import all_returned, subtract
from helpers.course.projects.panels import Panel, draw, megabytes, milliseconds, not_measured
from helpers.course.projects.ring_all_reduce import wanted_bytes
from helpers.course.projects.ring_all_reduce_runs import NAME, make_arrays
from helpers.i18n import _, number

WORKERS = (2, 4, 8)
GRADIENTS = 350_000, "float32"  # 1.4 MB, as many as the network of the lessons has
SMALL, LARGE = (64, "float32"), (4_000_000, "float32")
LATENCY = 0.02  # seconds
REPEAT = 3  # the fastest call counts, because the machine may be busy
MB, MS = 1e6, 1e-3


def measure(module: Path) -> Drawing:
    """Measures the module with 2, 4 and 8 processes.

    Raises:
      ConfigError: it does not work with one of these numbers.
    """
    sent, memory, steps = [], [], []
    for workers in WORKERS:
        with ProcessGroup(module, NAME, workers) as group:
            _open(group)
            sent.append((workers, _sent(group) / MB))
            if (extra := _memory(group)) is not None:
                memory.append((workers, extra / MB))
        with ProcessGroup(module, NAME, workers, latency=LATENCY) as group:
            _open(group)
            steps.append((workers, _seconds(group) / MS))
    size, large = 4 * GRADIENTS[0] / MB, 4 * LARGE[0] / MB
    panels = [
        Panel(
            _("MB sent by each process"),
            f"2(N−1)/N · {megabytes(size)}",
            [(workers, wanted_bytes(workers, 1) * size) for workers in WORKERS],
            sent,
        ),
        Panel(
            _("ms with {latency} ms of latency").format(latency=number(LATENCY / MS, "g")),
            f"2(N−1) · {milliseconds(LATENCY / MS)}",
            [(workers, 2 * (workers - 1) * LATENCY / MS) for workers in WORKERS],
            steps,
        ),
        Panel(
            _("MB of additional memory"),
            f"(1 + 1/N) · {megabytes(large)}",
            [(workers, (1 + 1 / workers) * large) for workers in WORKERS],
            memory,
        ),
    ]
    return draw(_("Your all-reduce in 2, 4 and 8 processes"), panels)


def _open(group: ProcessGroup) -> None:
    _require(group, all_returned(group.open(HANG)))


def _sent(group: ProcessGroup) -> float:
    """The most bytes that a process sends to sum the gradients of the lessons' network."""
    before = group.sent
    _call(group, GRADIENTS, 1)
    return max(subtract(group.sent, before))


def _memory(group: ProcessGroup) -> float | None:
    """The most memory that a process needs in addition, or None if the system does not tell."""
    _put(group, LARGE)
    before = group.reset_peaks()
    _require(group, all_returned(group.call("all_reduce", HANG)))
    pairs = list(zip(before, group.peaks(), strict=True))
    return max((peak - rest for rest, peak in pairs if rest and peak), default=None)


def _seconds(group: ProcessGroup) -> float:
    """The time of the slowest process in the fastest call."""
    times = _call(group, SMALL, REPEAT)
    return min(max(turn) for turn in zip(*times, strict=True))


def _call(group: ProcessGroup, size: tuple[int, str], repeat: int) -> list[tuple[float, ...]]:
    _put(group, size)
    replies = group.call("all_reduce", HANG, repeat=repeat)
    _require(group, all_returned(replies))
    return [reply.seconds for reply in replies]


def _put(group: ProcessGroup, size: tuple[int, str]) -> None:
    group.put([[array] for array in make_arrays(len(group.members), size, seed=0)])


def _require(group: ProcessGroup, works: bool) -> None:
    if not works:
        raise not_measured(NAME, "N", len(group.members))
