"""Project 4, the chart: bubble, bytes and memory of a student's pipeline, with their formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.course.charts.svg import Drawing
from helpers.course.projects.model_parallel_clock import Operation, idle_share, wanted_share
from helpers.course.projects.model_parallel_expected import Job
from helpers.course.projects.model_parallel_judge import activation_bytes
from helpers.course.projects.model_parallel_runs import NAME, observe_clock, works
from helpers.course.projects.panels import Panel, draw, megabytes, not_measured
from helpers.i18n import _

MICRO_BATCHES = (1, 2, 4, 8)
WIDTHS, ROWS = (10, 1000, 10), 1000  # of the network, and of each micro-batch
MB, PERCENT = 1e6, 0.01


def measure(module: Path) -> Drawing:
    """Measures a pipeline of two stages with 1, 2, 4 and 8 micro-batches.

    Raises:
      ConfigError: it does not work with one of these numbers.
    """
    sessions = {count: _session(module, count) for count in MICRO_BATCHES}
    operations = {
        count: [Operation(*values) for values in session["operations"]]
        for count, session in sessions.items()
    }
    unit = activation_bytes(sessions[1]["calls"][-1], 0) / MB
    most = {count: _most(found) for count, found in operations.items()}
    panels = [
        Panel(
            _("% of time spent waiting"),
            "(p−1)/(m+p−1)",
            [(count, wanted_share(2, count) / PERCENT) for count in MICRO_BATCHES],
            [(count, idle_share(found, 2) / PERCENT) for count, found in operations.items()],
            symbol="m",
        ),
        Panel(
            _("MB sent by process 0"),
            f"m · {megabytes(_job(1).sent[0] / MB)}",
            [(count, _job(count).sent[0] / MB) for count in MICRO_BATCHES],
            [(count, session["calls"][-1]["sent"][0] / MB) for count, session in sessions.items()],
            symbol="m",
        ),
        Panel(
            _("MB of activations in process 0"),
            f"(min(m, p) + 1) · {megabytes(unit)}",
            [(count, (min(count, 2) + 1) * unit) for count in MICRO_BATCHES],
            [(count, value / MB) for count, value in most.items() if value is not None],
            symbol="m",
        ),
    ]
    return draw(_("Your pipeline of two processes, with 1 to 8 micro-batches"), panels)


def _job(micro_batches: int) -> Job:
    return Job(WIDTHS, [ROWS * micro_batches], micro_batches)


def _session(module: Path, micro_batches: int) -> dict[str, Any]:
    session = observe_clock(module, _job(micro_batches), 0)
    if not works(session):
        raise not_measured(NAME, "m", micro_batches)
    return session


def _most(operations: list[Operation]) -> int | None:
    """The most memory that process 0 needed before an operation, or None if it is unknown."""
    found = [one.memory for one in operations if one.rank == 0 and one.memory is not None]
    return max(found, default=None)
