"""The story of a run on one time line: when each task trained, and what befell it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from helpers.charts.svg import AXIS, Drawing, nice, rule, text
from helpers.i18n import _, join_clauses, number
from helpers.panel.curves import SERIES
from helpers.results.history import attempts
from helpers.results.training_result import TrainingResult

WIDTH, NAMES, ROW, TOP = 880, 110, 34, 12
RADIUS = 9
MOST_TASKS = 12


def story_picture(result: TrainingResult, tasks: Sequence[str]) -> Drawing:
    """A lane for each task: a bar while it made steps, and a number for each line of the story.

    Args:
      tasks: their names, those that train first.
    """
    lanes = {name: TOP + ROW * k for k, name in enumerate(tasks[:MOST_TASKS])}
    end = nice(max(result.seconds, 1.0))
    bottom = TOP + ROW * len(lanes)
    scale = (WIDTH - NAMES - RADIUS) / end

    def x(seconds: float) -> float:
        return NAMES + scale * seconds

    parts = [_axis(x, end, bottom)]
    for name, top in lanes.items():
        parts.append(text(0, top + ROW / 2 + 4, name, weight=600))
        parts.append(rule(NAMES, top + ROW / 2, WIDTH, top + ROW / 2, opacity=0.15))
    for k, (name, points) in enumerate(result.history.items()):
        for start, stop in attempts(points) if name in lanes else ():
            left, right = x(points[start].seconds), x(points[stop - 1].seconds)
            parts.append(
                f'<rect x="{left:.1f}" y="{lanes[name] + ROW / 2 - 5:.1f}" rx="3" height="10" '
                f'width="{max(right - left, 2):.1f}" fill="{SERIES[k % len(SERIES)]}"/>'
            )
    free = dict.fromkeys(lanes, 0.0)  # from where on a lane's next mark hides none
    for count, line in enumerate(result.story, 1):
        if line.task in lanes:
            at = min(max(x(line.seconds), free[line.task]), WIDTH - RADIUS)
            free[line.task] = at + 2 * RADIUS
            parts.append(_mark(at, lanes[line.task] + ROW / 2, count))
    label = join_clauses(f"{line.task}: {line.what}" for line in result.story)
    return Drawing(WIDTH, bottom + 40, "".join(parts), label or _("Nothing has happened yet."))


def _axis(x: Callable[[float], float], end: float, bottom: float) -> str:
    parts = [rule(NAMES, bottom + 4, WIDTH, bottom + 4)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = "end" if share == 1 else "middle"
        value = number(share * end, AXIS)
        parts.append(text(x(share * end), bottom + 18, value, anchor=anchor, opacity=0.7))
    parts.append(text((NAMES + WIDTH) / 2, bottom + 34, _("seconds"), anchor="middle", opacity=0.7))
    return "".join(parts)


def _mark(x: float, y: float, count: int) -> str:
    """The number of a line of the story, in a circle."""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="#b3261e" stroke="#ffffff"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-size="11" font-weight="600" '
        f'fill="#ffffff">{count}</text>'
    )
