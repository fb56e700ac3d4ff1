"""The diagram of a cluster: the chief, the addresses, and the flow of gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from helpers import labels
from helpers.course.charts.svg import Drawing, straight_line, text
from helpers.course.figures.text_metrics import SMALL, text_width
from helpers.course.panel.run import TaskStatus
from helpers.course.panel.task_grid import counts, task_grid
from helpers.i18n import _, join_phrases, labeled
from helpers.tf_config import CHIEF, EVALUATOR, PS

WIDTH = 880
BOX_WIDTH, BOX_HEIGHT, MARGIN = 220, 88, 8  # a task's box, with room below it for an arrow
ROW = 136  # the distance between two rows of boxes
ONE_ROW = 5  # the maximum number of tasks in one row; two rows have more room
MAX_BOXES = 16  # above this, each task is a cell, and its rows are scrolled

Point = tuple[float, float]
_VariableBytes = Mapping[str, int]


class _Grid:
    """The positions of tasks: training tasks in one or two rows, the others next to them."""

    def __init__(self, workers: int, others: int, width: float) -> None:
        self.workers = workers
        self.rows = 1 if workers + others <= ONE_ROW else 2
        self.columns = math.ceil(workers / self.rows)
        count = self.columns + math.ceil(others / self.rows)
        self.pitch = width / max(count, 2)
        self.width = min(self.pitch - 28, BOX_WIDTH)
        self._left = (width - count * self.pitch) / 2
        self.height = (self.rows - 1) * ROW + BOX_HEIGHT + 2 * MARGIN

    def corner(self, task: int) -> Point:
        """The upper left corner of a task's box. The second row runs from right to left."""
        column, row = task, 0
        if task >= self.workers:
            more, row = divmod(task - self.workers, self.rows)
            column = self.columns + more
        elif task >= self.columns:
            column, row = 2 * self.columns - 1 - task, 1
        middle = self._left + (column + 0.5) * self.pitch
        return middle - self.width / 2, MARGIN + row * ROW


def cluster_diagram(
    tasks: Sequence[TaskStatus],
    collective: str,
    variables: _VariableBytes | None = None,
    *,
    width: float = WIDTH,
) -> Drawing:
    """The group: the chief, the addresses, the connections, and each task's state.

    Args:
      tasks: the tasks with their states, training tasks first.
      collective: the name of their communication.
      variables: the bytes of variables on each task, if known.
      width: in pixels, up to `MAX_BOXES` tasks.
    """
    if len(tasks) > MAX_BOXES:
        return _task_grid_diagram(tasks, collective)
    others = [task for task in tasks if task.name.startswith((PS, EVALUATOR))]
    workers = [task for task in tasks if task not in others]
    grid = _Grid(len(workers), len(others), width)
    parts = []
    if servers := [task for task in others if task.name.startswith(PS)]:
        parts += [_bus(grid, len(servers))]
        parts += [_exchange_label(grid, collective)] * (grid.rows == 1)  # no room in two rows
    elif len(workers) > 1:
        parts += [_ring(grid), _exchange_label(grid, f"all-reduce · {collective}")]
    parts += [_box(grid, k, task, variables) for k, task in enumerate([*workers, *others])]
    parts += [_link(grid, k) for k in range(len(workers) + len(servers), len(tasks))]
    states = [" ".join(filter(None, _caption(task, variables))) for task in tasks]
    label = _label(len(workers), collective, states)
    return Drawing(width, grid.height + 30 * (grid.rows == 1), "".join(parts), label)


def _task_grid_diagram(tasks: Sequence[TaskStatus], collective: str) -> Drawing:
    workers = sum(not task.name.startswith((PS, EVALUATOR)) for task in tasks)
    body, height = task_grid(tasks, collective)
    states = [labeled(word, count) for word, count in counts(tasks)]
    return Drawing(WIDTH, height, body, _label(workers, collective, states))


def _label(workers: int, collective: str, states: Sequence[str]) -> str:
    """The alternative text of the diagram."""
    label = _("The cluster: {count}, {collective}; {states}")
    count = labels.workers(workers)
    return label.format(count=count, collective=collective, states=join_phrases(states))


def _caption(task: TaskStatus, variables: _VariableBytes | None) -> Sequence[str]:
    """The lines that describe a task."""
    held = _held(task, variables)
    return task.label, task.shown_status.word, f"({held[0]})" if held else ""


def _held(task: TaskStatus, variables: _VariableBytes | None) -> tuple[str, str] | None:
    """The size of the variables on a task, as a long and a short text, or None if unknown."""
    if not variables or task.name.startswith(EVALUATOR):
        return None
    size = variables.get(task.name, 0)
    return labels.variables(size), labels.format_bytes(size)


def _box(grid: _Grid, place: int, task: TaskStatus, variables: _VariableBytes | None) -> str:
    """One task of the cluster."""
    x, y = grid.corner(place)
    evaluator = task.name.startswith(EVALUATOR)
    color = task.shown_status.color
    parts = [
        f'<rect x="{x:.1f}" y="{y}" width="{grid.width:.1f}" height="{BOX_HEIGHT}" rx="8" '
        f'class="mwl-box" fill="{color}" fill-opacity="0.09" stroke="{color}" '
        f'stroke-width="1.5" stroke-dasharray="{"5 4" if evaluator else ""}"/>',
        text(x + 12, y + 21, task.label, weight=600),
        text(x + 12, y + 39, _address(task), opacity=0.7, size=11),
        f'<circle cx="{x + 16:.1f}" cy="{y + 57}" r="4" fill="{color}"/>',
        text(x + 26, y + 61, task.shown_status.word),
    ]
    if held := _held(task, variables):
        fits = text_width(held[0], SMALL) <= grid.width - 24
        parts.append(text(x + 12, y + 79, held[not fits], opacity=0.8, size=SMALL))
    if task.chief and not task.name.startswith(CHIEF):
        end = x + grid.width - 12
        parts.append(text(end, y + 21, "chief", anchor="end", opacity=0.8, size=11))
    return "".join(parts)


def _address(task: TaskStatus) -> str:
    """The host and port, or a dash if there is none yet."""
    return _("reads checkpoints") if task.name.startswith(EVALUATOR) else task.address or "–"


def _ring(grid: _Grid) -> str:
    """The path of the gradients around the workers."""
    corners = [grid.corner(k) for k in range(grid.workers)]
    ways = [_step(grid, *pair) for pair in pairwise(corners)]
    return "".join([*ways, _return_arrow(grid, corners[-1], corners[0])])


def _step(grid: _Grid, start: Point, end: Point) -> str:
    """An arrow from one worker to the next: to the right, down, or to the left."""
    (x1, y1), (x2, y2) = start, end
    if y1 != y2:
        middle = x1 + grid.width / 2
        return _arrow((middle, y1 + BOX_HEIGHT), (middle, y2))
    level = y1 + BOX_HEIGHT / 2
    ends = (x1 + grid.width, x2) if x1 < x2 else (x1, x2 + grid.width)
    return _arrow((ends[0], level), (ends[1], level))


def _return_arrow(grid: _Grid, last: Point, first: Point) -> str:
    """An arrow from the last worker to the first: below the row, or up to it."""
    half = grid.width / 2
    target = first[0] + half, first[1] + BOX_HEIGHT
    if grid.rows == 1:
        low = target[1] + 19
        return _arrow((last[0] + half, target[1]), (last[0] + half, low), (target[0], low), target)
    if last[0] == first[0]:
        return _arrow((target[0], last[1]), target)
    level = last[1] + BOX_HEIGHT / 2  # with an odd number of workers, the corner is empty
    return _arrow((last[0], level), (target[0], level), target)


def _bus(grid: _Grid, servers: int) -> str:
    """The connections between each worker and the parameter servers, on a common line."""
    level = MARGIN + BOX_HEIGHT + (19 if grid.rows == 1 else (ROW - BOX_HEIGHT) / 2)
    feet = []
    for task in range(grid.workers + servers):
        x, y = grid.corner(task)
        end = y + BOX_HEIGHT if y < level else y
        feet.append((x + grid.width / 2, end))
    ends = [x for x, _y in feet]
    across = straight_line(min(ends), level, max(ends), level)
    return across + "".join(_arrow((x, level), (x, y)) for x, y in feet)


def _exchange_label(grid: _Grid, name: str) -> str:
    """The label of the traffic, below the path of one row or inside the path of two."""
    first, last = grid.corner(0)[0], grid.corner(grid.columns - 1)[0]
    level = MARGIN + (ROW + BOX_HEIGHT) / 2 + 4 if grid.rows == 2 else grid.height + 27
    middle = (first + last + grid.width) / 2
    return text(middle, level, name, anchor="middle", opacity=0.7)


def _arrow(*points: Point) -> str:
    """An arrow along straight lines, with a small space to the boxes at its ends."""
    (x1, y1), (x2, y2) = points[-2:]
    dx, dy = _sign(x2 - x1), _sign(y2 - y1)
    tip = x2 - 2 * dx, y2 - 2 * dy
    foot = tip[0] - 7 * dx, tip[1] - 7 * dy
    line = " L".join(f"{x:.1f} {y:.1f}" for x, y in [*points[:-1], foot])
    wings = [tip, (foot[0] + 4 * dy, foot[1] + 4 * dx), (foot[0] - 4 * dy, foot[1] - 4 * dx)]
    head = " L".join(f"{x:.1f} {y:.1f}" for x, y in wings)
    return (
        f'<path class="mwl-flow" d="M{line}" fill="none" stroke="currentColor" '
        'stroke-width="1.5" stroke-linejoin="round" opacity="0.45"/>'
        f'<path d="M{head} Z" opacity="0.45"/>'
    )


def _link(grid: _Grid, place: int) -> str:
    """The path of the checkpoints from the group to the evaluator."""
    x, y = grid.corner(place)
    level = y + BOX_HEIGHT / 2
    return straight_line(x - (grid.pitch - grid.width) + 2, level, x - 2, level, dash="3 3")


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
