"""The diagram of a group with too many tasks for boxes: a cell for every task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from helpers.course.charts.svg import text
from helpers.course.panel.run import TaskStatus
from helpers.course.panel.status import Status
from helpers.i18n import labeled

COLUMNS = 16
PITCH, ROW, CELL_HEIGHT = 55, 34, 26
LEGEND = 28  # the height of the legend below the cells


def task_grid(tasks: Sequence[TaskStatus], way: str) -> tuple[str, float]:
    """SVG elements with rows of sixteen cells and a line of counts, and their height in pixels.

    Args:
      tasks: the tasks with their states.
      way: the name of their communication.
    """
    rows = -(-len(tasks) // COLUMNS)
    cells = [_cell(place, task) for place, task in enumerate(tasks)]
    level = rows * ROW + LEGEND - 8
    counted = " · ".join([way, *(labeled(word, count) for word, count in counts(tasks))])
    return "".join([*cells, text(0, level, counted, opacity=0.7)]), rows * ROW + LEGEND


def counts(tasks: Sequence[TaskStatus]) -> list[tuple[str, int]]:
    """The number of tasks in each state, with the state's name."""
    found = Counter(task.shown_status for task in tasks)
    return [(status.word, found[status]) for status in Status if found[status]]


def _cell(place: int, task: TaskStatus) -> str:
    row, column = divmod(place, COLUMNS)
    x, y = 1 + column * PITCH, 2 + row * ROW
    color, width = task.shown_status.color, PITCH - 7
    name = "chief" if task.chief else _short(task.name)
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{CELL_HEIGHT}" rx="5" class="mwl-box" '
        f'fill="{color}" fill-opacity="0.16" stroke="{color}" stroke-width="1.5"/>'
        + text(x + width / 2, y + 17, name, anchor="middle", weight=600 if task.chief else 400)
    )


def _short(name: str) -> str:
    """The number of a worker, or the letters of the job and the number for other tasks."""
    job, _space, index = name.partition(" ")
    return index if job == "worker" else f"{job[:4]} {index}"
