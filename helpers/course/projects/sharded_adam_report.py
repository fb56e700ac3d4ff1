"""Project 3, the chart: bytes and memory of a student's optimizer, with their formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.course.charts.svg import Drawing
from helpers.course.projects.panels import Panel, Points, draw, megabytes, not_measured
from helpers.course.projects.ring_all_reduce import wanted_bytes
from helpers.course.projects.sharded_adam import EXERCISE, MB, parameter_bytes, wanted_memory
from helpers.course.projects.sharded_adam_runs import NAME, observe_memory, works
from helpers.i18n import _

WORKERS = (1, 2, 4, 8)
SHAPES = [(2000, 2000), (2000,)]  # 16 MB


def measure(module: Path) -> Drawing:
    """Measures the module with 1, 2, 4 and 8 processes.

    Raises:
      ConfigError: it does not work with one of these numbers.
    """
    sessions = [_session(module, workers) for workers in WORKERS]
    size = parameter_bytes(SHAPES) / MB
    sent = [(found["workers"], max(found["sent"][-1]) / MB) for found in sessions]
    memory = f"(2 + 2/N) · {megabytes(size)}"
    panels = [
        Panel(
            _("MB sent per step"),
            f"2(N−1)/N · {megabytes(size)}",
            [(workers, wanted_bytes(workers, size)) for workers in WORKERS],
            sent,
        ),
        Panel(_("MB between two steps"), memory, _formula(size), _most(sessions, "held")),
        Panel(_("MB at the peak"), memory, _formula(size), _most(sessions, "peak")),
    ]
    return draw(_("Your sharded optimizer in 1, 2, 4 and 8 processes"), panels)


def _session(module: Path, workers: int) -> dict[str, Any]:
    session = observe_memory(module, EXERCISE.case, workers, SHAPES)
    if not works(session):
        raise not_measured(NAME, "N", workers)
    return session


def _formula(size: float) -> Points:
    return [(workers, wanted_memory(workers, size)) for workers in WORKERS]


def _most(sessions: list[dict[str, Any]], moment: str) -> Points:
    """The memory of the process that needs most, unless the system does not report it."""
    found = []
    for session in sessions:
        values = [value for value in session["memory"][moment] if value is not None]
        if values:
            found.append((session["workers"], max(values) / MB))
    return found
