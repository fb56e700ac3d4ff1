"""Project 6, the chart: the time that a student's supervisor needs to detect each kind of fault."""

from __future__ import annotations

from pathlib import Path

from helpers.course.charts.svg import Drawing
from helpers.course.projects.fault_injector import Fault, Plan
from helpers.course.projects.panels import Panel, draw, not_measured
from helpers.course.projects.supervisor import EXERCISE
from helpers.course.projects.supervisor_runs import NAME, Case, is_right, observe
from helpers.i18n import _

WORKERS = (2, 4, 8)
KINDS = {"killed": 0.0, "frozen": 1.0, "silent": 1.5}  # and the timeout that detects each, seconds
CASE: Case = {
    **EXERCISE.case,
    "steps": 12,
    "start_timeout": 10.0,
    "heartbeat_timeout": KINDS["frozen"],
    "progress_timeout": KINDS["silent"],
}
PLAN = Plan([Fault(1, kind, "compute", 2 + 3 * turn) for turn, kind in enumerate(KINDS)])


def measure(module: Path) -> Drawing:
    """Measures the module with 2, 4 and 8 workers, each of which has one fault of each kind.

    Raises:
      ConfigError: it does not detect all of them.
    """
    found = {workers: detect(module, workers) for workers in WORKERS}
    texts = [
        (_("s until a dead worker restarts"), "0"),
        (_("s until a frozen worker restarts"), "heartbeat_timeout"),
        (_("s until a hanging worker restarts"), "progress_timeout"),
    ]
    panels = [
        Panel(
            name,
            formula,
            [(workers, timeout) for workers in WORKERS],
            [(workers, times[turn]) for workers, times in found.items()],
        )
        for turn, ((name, formula), timeout) in enumerate(zip(texts, KINDS.values(), strict=True))
    ]
    return draw(_("Your supervisor with 2, 4 and 8 workers"), panels)


def detect(module: Path, workers: int) -> list[float]:
    """The seconds from a fault to the next start of the group, for each kind.

    Raises:
      ConfigError: the module does not detect all faults.
    """
    seen = observe(module, {**CASE, "workers": workers}, PLAN, len(KINDS))
    if not is_right(seen, PLAN) or len(seen["seconds"]) != len(KINDS):
        raise not_measured(NAME, "N", workers)
    return list(seen["seconds"])
