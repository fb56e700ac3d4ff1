"""The panel's charts: curves, speed-up, and a whole run for pages without widgets.

They are drawn several times a second, so each is a string of inline SVG.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from operator import attrgetter

from helpers import labels
from helpers.course.charts.svg import (
    CHART,
    FONT,
    FRAME,
    INK,
    PAPER,
    Axes,
    Drawing,
    Line,
    nice_ceiling,
    straight_line,
    text,
)
from helpers.course.panel.cluster_diagram import WIDTH, cluster_diagram
from helpers.course.panel.run import RunRecord, TaskStatus, speedups
from helpers.errors import unknown_choice
from helpers.i18n import _, number
from helpers.results.history import Evaluation, Staleness, StepReport, split_by_attempt
from helpers.results.training_result import TrainingResult
from helpers.strategies import PARAMETER_SERVER

PALETTE = ("#2f7de1", "#e0731d", "#2e9e58", "#a45fd0", "#0f9191", "#d64545", "#9a7d0a", "#7a7f88")
MARK_WIDTH = 60
MAX_POINTS = 150  # of a curve, which has fewer pixels
GAP = 16  # between two rows of charts
CHARTS = ("loss", "speed", "accuracy", "staleness", "speed-up")
DEFAULT_CHARTS = ("loss", "speed")


def loss_chart(result: TrainingResult | None) -> Drawing:
    """The loss of each worker over the global step, with the accuracy of evaluations.

    The workers of a synchronous group report the same loss, so the later line is thinner and both
    remain visible.
    """
    lines = [
        Line(labels.task(name), PALETTE[k], _attempts(points, "step", "loss"), 5.0 - 3.0 * (k > 0))
        for k, (name, points) in enumerate(_visible_workers(result))
    ]
    top = max((y for line in lines for piece in line.pieces for _x, y in piece), default=2.0)
    axes = Axes(_("Loss"), _("step"), _last_step(result), nice_ceiling(top), lines)
    return axes.render("".join(_evaluation_marks(axes, result.evaluations if result else ())))


def speed_chart(result: TrainingResult | None) -> Drawing:
    """The examples per second of the whole group over time, as reported by each worker."""
    lines = [
        Line(
            labels.task(name),
            PALETTE[k],
            _attempts(points, "seconds", "examples_per_second"),
            4.0 - 2.5 * (k > 0),
        )
        for k, (name, points) in enumerate(_visible_workers(result))
    ]
    pieces = [piece for line in lines for piece in line.pieces]
    top = max((y for piece in pieces for _x, y in piece), default=20_000)
    last = max((piece[-1][0] for piece in pieces if piece), default=0.0)
    axes = Axes(
        _("Examples per second"), _("seconds"), _round_seconds(last), nice_ceiling(top), lines
    )
    return axes.render("".join(_restart_bands(axes, lines[0].pieces if lines else [])))


def speed_up_chart(records: Sequence[RunRecord]) -> Drawing | None:
    """The speed-up over one worker with the ideal line, or None if no run can be compared."""
    ups = speedups(records)
    found = [(record, up) for record, up in zip(records, ups, strict=True) if up is not None]
    if not any(record.workers > 1 for record, _up in found):
        return None
    most = max(record.workers for record, _up in found)
    groups: dict[tuple[str, int], dict[int, float]] = {}
    for record, up in found:
        groups.setdefault((record.communication, record.batch_size), {})[record.workers] = up
    lines = [
        Line(f"{name} {batch}", PALETTE[k % len(PALETTE)], [sorted({1: 1.0, **ups}.items())])
        for k, ((name, batch), ups) in enumerate(groups.items())
    ]
    axes = _speed_up_axes(most, lines)
    return axes.render("".join(_dots(axes, line) for line in lines))


def accuracy_chart(result: TrainingResult | None) -> Drawing:
    """The accuracy of each evaluation, over the seconds until its result."""
    found = [
        (one.seconds, one.accuracy)
        for one in (result.evaluations if result else ())
        if one.accuracy is not None
    ]
    axes = Axes(_("Accuracy"), _("seconds"), _round_seconds(result.seconds if result else 0.0), 1.0)
    line = Line("", PALETTE[0], [found], 1.5)
    dots = _dots(axes, line)
    if found:
        x, y = found[-1]
        said, place = number(y, ".1%"), min(axes.x(x), axes.width - axes.right - 20)
        dots += text(place, axes.y(y) + 18, said, anchor="middle", weight=600)
    return axes.render(axes.curve(line) + dots)


def staleness_chart(result: TrainingResult | None) -> Drawing:
    """The number of updates by others during a step of each worker, over the global step.

    Values far above the usual ones are drawn at the upper edge.
    """
    lags = (
        [(name, result.staleness.get(name, [])) for name, _p in _visible_workers(result)]
        if result
        else []
    )
    lines = [
        Line(labels.task(name), PALETTE[k], _attempts(points, "step", "updates"), 2.0)
        for k, (name, points) in enumerate(lags)
        if points
    ]
    values = sorted(y for line in lines for piece in line.pieces for _x, y in piece)
    usual = values[int(0.9 * len(values))] if values else 0.0
    top = nice_ceiling(
        max(4.0, 1.5 * usual)
    )  # a task's first step is slow, and others update tens of times
    axes = Axes(_("Updates by others during a step"), _("step"), _last_step(result), top, lines)
    note = ""
    if result and not lines and result.strategy != PARAMETER_SERVER:
        middle = (axes.left + axes.width - axes.right) / 2
        said = _("none: each step waits for all workers")
        note = text(middle, axes.height / 2, said, anchor="middle", opacity=0.8)
    return axes.render(note)


def validate_charts(names: Sequence[str]) -> tuple[str, ...]:
    """The names of charts. If there is no such chart, raises ConfigError."""
    for name in names:
        if name not in CHARTS:
            raise unknown_choice("charts", name, CHARTS)
    return tuple(names)


def chart(name: str, result: TrainingResult | None, records: Sequence[RunRecord] = ()) -> Drawing:
    """One of `CHARTS`, for the current or last run and the finished runs."""
    return _DRAWN[name](result, records)


def static_svg(
    result: TrainingResult,
    tasks: Sequence[TaskStatus],
    headline: Sequence[str],
    charts: Sequence[str] = DEFAULT_CHARTS,
    records: Sequence[RunRecord] = (),
) -> str:
    """A finished run as one SVG file on a white background, for viewers without widgets.

    Args:
      result: the result of the run.
      tasks: its tasks in their final states.
      headline: a line about the settings and a line about the result.
      charts: names of `CHARTS`, drawn two in a row.
      records: the finished runs of the session, for charts that compare runs.
    """
    cluster = cluster_diagram(tasks, result.communication, result.variables)
    top, rows = 70 + cluster.height, math.ceil(len(charts) / 2)
    width, height = WIDTH + 40, top + rows * (CHART[1] + GAP) - GAP + 15
    drawn = [chart(name, result, records) for name in charts]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" '
        f'viewBox="0 0 {width} {height:g}" role="img" aria-label="{escape(" · ".join(headline))}" '
        f'color="{INK}" fill="{INK}" {FONT}>',
        f'<rect width="{width}" height="{height:g}" rx="8" fill="{PAPER}" stroke="{FRAME}"/>',
        *(
            text(20, 28 + 20 * k, line, weight=600 - 200 * k, size=14)
            for k, line in enumerate(headline)
        ),
        cluster.translated(20, 60),
        *(
            drawing.translated(20 + 450 * (k % 2), top + (CHART[1] + GAP) * (k // 2))
            for k, drawing in enumerate(drawn)
        ),
    ]
    return "".join(parts) + "</svg>"


def _visible_workers(result: TrainingResult | None) -> list[tuple[str, list[StepReport]]]:
    """The workers with their own color: the chief and the next ones.

    In a synchronous group, the other workers have the same numbers.
    """
    return list(result.history.items())[: len(PALETTE)] if result else []


def _last_step(result: TrainingResult | None) -> float:
    """The end of an axis of steps: the requested last step, if it is known."""
    if result and result.total_steps:
        return max(result.total_steps, result.steps)
    return nice_ceiling(max(result.steps if result else 0, 100))


def _round_seconds(last: float) -> float:
    """The end of an axis of seconds."""
    return max(10, 5 * math.ceil(last / 5))


def _speed_up_axes(most: int, lines: Sequence[Line] = ()) -> Axes:
    """Axes that include the ideal line."""
    ideal = Line(_("ideal"), "#8a8f98", [[(1, 1), (most, most)]], 1.5, "5 4")
    return Axes(_("Speed-up over one worker"), _("workers"), most, most, [ideal, *lines])


def _dots(axes: Axes, line: Line) -> str:
    """A dot at every point of a line in one piece."""
    return "".join(
        f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="3.5" fill="{line.color}"/>'
        for x, y in line.pieces[0]
    )


def _attempts(
    points: Sequence[StepReport] | Sequence[Staleness], x: str, y: str
) -> list[list[tuple[float, float]]]:
    """A worker's reports as one piece of a curve per attempt, reduced in number."""
    stride, values = len(points) // MAX_POINTS + 1, attrgetter(x, y)
    return [
        [
            (a, b)
            for a, b in map(values, [*points[start : end - 1 : stride], points[end - 1]])
            if b is not None and math.isfinite(b)
        ]
        for start, end in split_by_attempt(points)
    ]


def _evaluation_marks(axes: Axes, evaluations: Sequence[Evaluation]) -> Iterable[str]:
    """A dotted line and the accuracy at the latest evaluations that have room."""
    room = math.inf
    for evaluation in reversed(evaluations):
        x = axes.x(min(evaluation.step, axes.x_max))
        if evaluation.accuracy is None or room - x < MARK_WIDTH:
            continue
        room = x
        label = number(evaluation.accuracy, ".1%")
        yield straight_line(x, axes.top, x, axes.height - axes.bottom, opacity=0.6, dash="2 3")
        if x - axes.left > MARK_WIDTH:  # else it would overlap the numbers of the axis
            yield text(x - 5, axes.top + 12, label, anchor="end", weight=600)


def _restart_bands(axes: Axes, pieces: Sequence[Sequence[tuple[float, float]]]) -> Iterable[str]:
    """A shaded band from the end of an attempt to the first step of the next."""
    whole = [piece for piece in pieces if piece]
    for before, after in pairwise(whole):
        left, right = axes.x(before[-1][0]), axes.x(after[0][0])
        if right > left:
            yield (
                f'<rect x="{left:.1f}" y="{axes.top}" width="{right - left:.1f}" '
                f'height="{axes.height - axes.top - axes.bottom}" opacity="0.08"/>'
                + text((left + right) / 2, axes.top + 12, _("restart"), anchor="middle", size=11)
            )


_Draw = Callable[[TrainingResult | None, Sequence[RunRecord]], Drawing]
_DRAWN: Mapping[str, _Draw] = {
    "loss": lambda result, _records: loss_chart(result),
    "speed": lambda result, _records: speed_chart(result),
    "accuracy": lambda result, _records: accuracy_chart(result),
    "staleness": lambda result, _records: staleness_chart(result),
    "speed-up": lambda _result, records: speed_up_chart(records) or _speed_up_axes(2).render(),
}
