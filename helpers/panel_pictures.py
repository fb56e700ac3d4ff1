"""The panel's pictures: curves, cluster, speed-up, and a whole run for pages without widgets.

They are drawn several times a second, so each is a string of inline SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby, pairwise

from helpers.i18n import _, ngettext, number
from helpers.panel_run import RunRecord, TaskStatus, speed_ups
from helpers.panel_svg import FONT, Axes, Line, Picture, nice, rule, text
from helpers.panel_words import COLORS, status_word
from helpers.result import Point, TrainingResult
from helpers.tf_config import EVALUATOR

SERIES = ("#2f7de1", "#e0731d", "#2e9e58", "#a45fd0", "#0f9191", "#d64545", "#9a7d0a", "#7a7f88")
MOST_POINTS = 150  # of a curve: more than it has pixels to show
CLUSTER_WIDTH = 880


def loss_chart(result: TrainingResult | None) -> Picture:
    """Loss of each worker over the global step; accuracy where it was evaluated.

    The workers of a synchronous group report one loss: the later line is the thinner one, so
    that both are seen.
    """
    history = result.history if result else {}
    lines = [
        Line(name, SERIES[k % len(SERIES)], _attempts(points, "step", "loss"), 5.0 - 3.0 * (k > 0))
        for k, (name, points) in enumerate(history.items())
    ]
    top = max((y for line in lines for piece in line.pieces for _x, y in piece), default=2.0)
    steps = (result.total_steps if result else None) or 100
    axes = Axes(_("Loss"), _("step"), steps, nice(top))
    evaluations = result.evaluations[-3:] if result else []
    marks = [_mark(axes, e.step, e.metrics.get("accuracy")) for e in evaluations]
    return axes.picture(lines, "".join(marks))


def speed_chart(result: TrainingResult | None) -> Picture:
    """Examples per second of the whole group over time, as each worker reports it."""
    history = result.history if result else {}
    lines = [
        Line(
            name,
            SERIES[k % len(SERIES)],
            _attempts(points, "seconds", "examples_per_second"),
            4.0 - 2.5 * (k > 0),
        )
        for k, (name, points) in enumerate(history.items())
    ]
    pieces = [piece for line in lines for piece in line.pieces]
    top = max((y for piece in pieces for _x, y in piece), default=20_000)
    last = max((piece[-1][0] for piece in pieces if piece), default=0.0)
    title, unit = _("Examples per second"), _("seconds")
    axes = Axes(title, unit, max(10, 5 * math.ceil(last / 5)), nice(top))
    return axes.picture(lines, "".join(_gaps(axes, lines[0].pieces if lines else [])))


def speed_up_chart(records: Sequence[RunRecord]) -> Picture | None:
    """Speed-up over one worker against the ideal line; None while no run can be compared."""
    ups = speed_ups(records)
    found = [(record, up) for record, up in zip(records, ups, strict=True) if up is not None]
    if not any(record.workers > 1 for record, _up in found):
        return None
    most = max(record.workers for record, _up in found)
    ideal = Line(_("ideal"), "#8a8f98", [[(1, 1), (most, most)]], 1.5, "5 4")
    groups: dict[tuple[str, int], dict[int, float]] = {}
    for record, up in found:
        groups.setdefault((record.collective, record.batch_size), {})[record.workers] = up
    lines = [
        Line(f"{name} {batch}", SERIES[k % len(SERIES)], [sorted({1: 1.0, **ups}.items())])
        for k, ((name, batch), ups) in enumerate(groups.items())
    ]
    axes = Axes(_("Speed-up over one worker"), _("workers"), most, most)
    dots = "".join(
        f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="3.5" fill="{line.color}"/>'
        for line in lines
        for x, y in line.pieces[0]
    )
    return axes.picture([ideal, *lines], dots)


def cluster_picture(tasks: Sequence[TaskStatus], collective: str) -> Picture:
    """The group: who is chief, who listens where, who talks to whom, and how each fares."""
    workers = [task for task in tasks if not task.name.startswith(EVALUATOR)]
    others = [task for task in tasks if task.name.startswith(EVALUATOR)]
    pitch = CLUSTER_WIDTH / max(len(tasks), 2)
    width = min(pitch - 28, 220)
    parts = [_ring(pitch, len(workers), width, collective)] if len(workers) > 1 else []
    parts += [_box((k + 0.5) * pitch, width, task) for k, task in enumerate(workers)]
    for k, task in enumerate(others, len(workers)):
        parts.append(_link(k * pitch, pitch - width))
        parts.append(_box((k + 0.5) * pitch, width, task, dashed=True))
    count = ngettext("{count} worker", "{count} workers", len(workers)).format(count=len(workers))
    states = ", ".join(f"{task.name} {status_word(task.shown_status)}" for task in tasks)
    label = _("The cluster: {count}, {collective}; {states}")
    return Picture(
        CLUSTER_WIDTH,
        116,
        "".join(parts),
        label.format(count=count, collective=collective, states=states),
    )


def poster(result: TrainingResult, tasks: Sequence[TaskStatus], headline: str) -> str:
    """A finished run as one SVG file, for viewers without widgets, on a white ground."""
    cluster = cluster_picture(tasks, result.collective)
    width, height = CLUSTER_WIDTH + 40, 410
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(headline)}" '
        f'color="#24292f" fill="#24292f" {FONT}>',
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff" stroke="#d0d7de"/>',
        text(20, 30, headline, weight=600, size=14),
        cluster.at(20, 46),
        loss_chart(result).at(20, 185),
        speed_chart(result).at(470, 185),
    ]
    return "".join(parts) + "</svg>"


def _attempts(points: Sequence[Point], x: str, y: str) -> list[list[tuple[float, float]]]:
    """A worker's reports as one piece of curve for each attempt, thinned out."""
    known = [p for p in points if (value := getattr(p, y)) is not None and math.isfinite(value)]
    stride = len(known) // MOST_POINTS + 1
    return [
        [(getattr(p, x), getattr(p, y)) for p in _thin(list(group), stride)]
        for _attempt, group in groupby(known, key=lambda point: point.attempt)
    ]


def _thin(points: Sequence[Point], stride: int) -> Sequence[Point]:
    """Every `stride`-th point and the last."""
    kept = points[::stride]
    return kept if (len(points) - 1) % stride == 0 else [*kept, points[-1]]


def _mark(axes: Axes, step: int, accuracy: float | None) -> str:
    """A dotted line at an evaluation, with its accuracy."""
    if accuracy is None:
        return ""
    x = axes.x(min(step, axes.x_max))
    label = text(x - 5, axes.top + 12, number(accuracy, ".1%"), anchor="end", weight=600)
    return rule(x, axes.top, x, axes.height - axes.bottom, opacity=0.6, dash="2 3") + label


def _gaps(axes: Axes, pieces: Sequence[Sequence[tuple[float, float]]]) -> Iterable[str]:
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


def _box(middle: float, width: float, task: TaskStatus, *, dashed: bool = False) -> str:
    """One task of the cluster."""
    x = middle - width / 2
    status = task.shown_status
    color = COLORS[status]
    dash = "5 4" if dashed else ""
    parts = [
        f'<rect x="{x:.1f}" y="8" width="{width:.1f}" height="70" rx="8" class="mwl-box" '
        f'fill="{color}" fill-opacity="0.09" stroke="{color}" stroke-width="1.5" '
        f'stroke-dasharray="{dash}"/>',
        text(x + 12, 29, task.name, weight=600),
        f'<circle cx="{x + 16:.1f}" cy="65" r="4" fill="{color}"/>',
        text(x + 26, 69, status_word(status)),
        text(x + 12, 47, _address(task, width), opacity=0.7, size=11),
    ]
    if task.chief:
        parts.append(text(x + width - 12, 29, "chief", anchor="end", opacity=0.8, size=11))
    return "".join(parts)


def _address(task: TaskStatus, width: float) -> str:
    """Host and port, the port alone where there is little room, a dash where there is none."""
    if task.name.startswith(EVALUATOR):
        return _("reads checkpoints")
    address = task.address or "–"
    return address if width > 120 else ":" + address.rpartition(":")[2]


def _ring(pitch: float, count: int, width: float, collective: str) -> str:
    """The way of the gradients around the workers."""
    first, last = pitch / 2, (count - 1) * pitch + pitch / 2
    forward = "".join(
        _arrow(k * pitch + pitch / 2 + width / 2, (k + 1) * pitch + pitch / 2 - width / 2, 43)
        for k in range(count - 1)
    )
    back = (
        f'<path class="mwl-flow" d="M{last:.1f} 79 V92 Q{last:.1f} 98 {last - 6:.1f} 98 '
        f'H{first + 6:.1f} Q{first:.1f} 98 {first:.1f} 92 V84" fill="none" stroke="currentColor" '
        'stroke-width="1.5" opacity="0.45"/>'
        f'<path d="M{first - 4:.1f} 86 L{first:.1f} 79 L{first + 4:.1f} 86 Z" opacity="0.45"/>'
    )
    name = text((first + last) / 2, 113, f"all-reduce · {collective}", anchor="middle", opacity=0.7)
    return forward + back + name


def _arrow(x1: float, x2: float, y: float) -> str:
    head = f"M{x2 - 9:.1f} {y - 4} L{x2 - 2:.1f} {y} L{x2 - 9:.1f} {y + 4} Z"
    return rule(x1 + 2, y, x2 - 6, y) + f'<path d="{head}" opacity="0.45"/>'


def _link(middle: float, length: float) -> str:
    """The way of the checkpoints, from the group to the evaluator."""
    return rule(middle - length / 2 + 2, 43, middle + length / 2 - 2, 43, dash="3 3")
