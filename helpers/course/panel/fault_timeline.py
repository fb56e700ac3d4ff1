"""The fault log of a run: its lines, and a timeline of the training and failures of each task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from helpers import labels
from helpers.course.charts.svg import AXIS, Drawing, nice_ceiling, straight_line, text
from helpers.course.panel.curves import PALETTE
from helpers.i18n import _, join_clauses, labeled, number
from helpers.results.fault_log import Entry, FaultLog, format_elapsed
from helpers.results.history import split_by_attempt
from helpers.results.training_result import TrainingResult

WIDTH, NAMES, ROW, TOP = 880, 110, 34, 12
RADIUS = 9
MAX_TASKS = 12


def fault_timeline(
    result: TrainingResult, tasks: Sequence[str], *, width: float = WIDTH
) -> Drawing:
    """A lane for each task, with a bar while it ran steps and a number for each line of the log.

    Args:
      result: the result with the fault log.
      tasks: the names of the tasks, training tasks first.
      width: in pixels.
    """
    lanes = {name: TOP + ROW * k for k, name in enumerate(tasks[:MAX_TASKS])}
    end = nice_ceiling(max(result.seconds, 1.0))
    bottom = TOP + ROW * len(lanes)
    scale = (width - NAMES - RADIUS) / end

    def x(seconds: float) -> float:
        return NAMES + scale * seconds

    parts = [_axis(x, end, bottom, width)]
    for name, top in lanes.items():
        parts.append(text(0, top + ROW / 2 + 4, labels.task(name), weight=600))
        parts.append(straight_line(NAMES, top + ROW / 2, width, top + ROW / 2, opacity=0.15))
    for k, (name, points) in enumerate(result.history.items()):
        for start, stop in split_by_attempt(points) if name in lanes else ():
            left, right = x(points[start].seconds), x(points[stop - 1].seconds)
            parts.append(
                f'<rect x="{left:.1f}" y="{lanes[name] + ROW / 2 - 5:.1f}" rx="3" height="10" '
                f'width="{max(right - left, 2):.1f}" fill="{PALETTE[k % len(PALETTE)]}"/>'
            )
    free = dict.fromkeys(lanes, 0.0)  # the position from which a lane's next mark hides none
    for count, line in enumerate(result.fault_log, 1):
        if line.task in lanes:
            at = min(max(x(line.seconds), free[line.task]), width - RADIUS)
            free[line.task] = at + 2 * RADIUS
            parts.append(_mark(at, lanes[line.task] + ROW / 2, count))
    label = join_clauses(labeled(labels.task(line.task), line.message) for line in result.fault_log)
    return Drawing(width, bottom + 40, "".join(parts), label or _("Nothing has happened yet."))


def _axis(x: Callable[[float], float], end: float, bottom: float, width: float) -> str:
    parts = [straight_line(NAMES, bottom + 4, width, bottom + 4)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = "end" if share == 1 else "middle"
        value = number(share * end, AXIS)
        parts.append(text(x(share * end), bottom + 18, value, anchor=anchor, opacity=0.7))
    parts.append(text((NAMES + width) / 2, bottom + 34, _("seconds"), anchor="middle", opacity=0.7))
    return "".join(parts)


def _mark(x: float, y: float, count: int) -> str:
    """The number of a line of the log, in a circle."""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="#b3261e" stroke="#ffffff"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-size="11" font-weight="600" '
        f'fill="#ffffff">{count}</text>'
    )


def _head(line: Entry) -> str:
    """When it happened, and to which task, in bold."""
    return f"<b>{format_elapsed(line.seconds)} · {escape(labels.task(line.task))}</b>"


def lines(log: FaultLog) -> str:
    """The lines of a fault log, numbered as on its timeline."""
    rows = "".join(f"<li>{labeled(_head(line), escape(line.message))}</li>" for line in log)
    return f'<ol aria-live="polite">{rows}</ol>'


def fault_log_html(result: TrainingResult, tasks: Sequence[str]) -> str:
    """The timeline and the lines of a finished run."""
    return fault_timeline(result, tasks)._repr_html_() + lines(result.fault_log)
