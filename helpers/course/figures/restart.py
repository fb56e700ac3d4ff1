"""A group that loses a worker, and restarts from its last checkpoint."""

from __future__ import annotations

from typing import NamedTuple

from helpers import labels
from helpers.course.charts.svg import Drawing, straight_line
from helpers.course.figures import elements as p
from helpers.course.figures.text_metrics import BOLD, TEXT
from helpers.i18n import _, ngettext

WORKERS, STEPS = (2, 4), (4, 20)
NAMES, LEFT, RIGHT = 108, 208, p.WIDTH - 14  # positions of the workers' names, and of the steps
LANE, CELL = 28, 22  # the heights of a worker's row and of a step
ROOM = 180  # the width of a short text next to a line
STEP = p.WORKER._replace(corner=1)
HEAD, SAVES, END = 24, 66, 30  # heights above the first row and of the rows of checkpoints


class RestartScenario(NamedTuple):
    """The numbers of a restart, in steps.

    Attributes:
      fails_after: the last step before a worker dies.
    """

    steps: int
    every: int
    fails_after: int
    workers: int

    @property
    def saved(self) -> int:
        """The step of the checkpoint from which the group restarts, or 0 if there is none."""
        return self.fails_after // self.every * self.every

    @property
    def lost(self) -> int:
        """The number of steps that run twice."""
        return self.fails_after - self.saved

    @property
    def lower(self) -> float:
        """The top of the rows of the second attempt."""
        return HEAD + self.workers * LANE + SAVES

    def x(self, step: int) -> float:
        """The horizontal position of the end of a step."""
        return LEFT + (RIGHT - LEFT) * step / self.steps


def restart(steps: int = 12, every: int = 4, fails_after: int = 10, workers: int = 2) -> Drawing:
    """Steps and checkpoints of a group that loses a worker and resumes from the last checkpoint.

    Args:
      steps: the number of steps of the run, from 4 to 20.
      every: the number of steps between checkpoints, from 1 to `steps`.
      fails_after: the last step before the worker dies, from 1 to `steps` - 1.
      workers: the number of workers, from 2 to 4.

    Raises:
      ConfigError: a number is outside its range.
    """
    p.check_range("steps", steps, *STEPS)
    p.check_range("every", every, 1, steps)
    p.check_range("fails_after", fails_after, 1, steps - 1)
    p.check_range("workers", workers, *WORKERS)
    scenario = RestartScenario(steps, every, fails_after, workers)
    height = scenario.lower + workers * LANE + END
    parts = [
        _start(scenario, HEAD, _("first attempt"), range(1, fails_after + 1), p.LOST),
        _start(
            scenario,
            scenario.lower,
            _("second attempt"),
            range(scenario.saved + 1, steps + 1),
            STEP,
        ),
        _death(scenario),
        _saves(scenario, HEAD, 1, fails_after),
        _saves(scenario, scenario.lower, scenario.saved + 1, steps),
        _way_back(scenario),
        _loss(scenario),
    ]
    return p.figure(height, parts, _label(scenario))


def _start(scenario: RestartScenario, top: float, name: str, steps: range, style: p.Style) -> str:
    """The rows of all workers in one attempt.

    Args:
      style: the style of the steps after the last checkpoint.
    """
    middle = top + scenario.workers * LANE / 2
    parts = [p.row_label(middle, NAMES - 8, name)]
    for worker in range(scenario.workers):
        level = top + (worker + 0.5) * LANE
        content = _("worker {number}").format(number=worker)
        parts.append(p.note(NAMES, level, content, LEFT - NAMES - 6, anchor="start"))
        for step in steps:
            left, width = scenario.x(step - 1), (RIGHT - LEFT) / scenario.steps
            area = p.Area(left, level - CELL / 2, width, CELL)
            parts.append(p.box(area, style if step > scenario.saved else STEP, str(step)))
    return "".join(parts)


def _death(scenario: RestartScenario) -> str:
    """The mark of the failure of the last worker."""
    x, bottom = scenario.x(scenario.fails_after), HEAD + scenario.workers * LANE
    name = _("worker {number} dies").format(number=scenario.workers - 1)
    return "".join(
        [
            p.note(min(x, p.WIDTH - ROOM / 2), HEAD / 2 - 3, name, ROOM, size=TEXT, weight=BOLD),
            straight_line(x, HEAD - 2, x, bottom + 2, dash="3 3"),
            p.cross(x, bottom - LANE / 2),
        ]
    )


def _saves(scenario: RestartScenario, top: float, first: int, last: int) -> str:
    """The checkpoints below the rows of an attempt."""
    level = top + scenario.workers * LANE + 4
    steps = [step for step in range(first, last + 1) if step % scenario.every == 0]
    name = p.note(0, level + 10, _("checkpoints"), LEFT - 16, anchor="start", size=TEXT)
    return name * bool(steps) + "".join(p.document(scenario.x(step), level) for step in steps)


def _way_back(scenario: RestartScenario) -> str:
    """The arrow from the last checkpoint to the second attempt."""
    top = HEAD + scenario.workers * LANE
    start = top + (28 if scenario.saved else 4)
    x = scenario.x(scenario.saved)
    return p.arrow((x, start), (x, scenario.lower), style=p.VARIABLES)


def _loss(scenario: RestartScenario) -> str:
    """The repeated steps, on the side of the arrow that has more room."""
    content = ngettext("{count} step lost", "{count} steps lost", scenario.lost)
    content = content.format(count=scenario.lost)
    x, level = scenario.x(scenario.saved), scenario.lower - 20
    side, anchor = (1, "start") if p.WIDTH - x > ROOM else (-1, "end")
    return p.note(x + 12 * side, level, content, ROOM - 12, anchor=anchor, size=TEXT, weight=BOLD)


def _label(scenario: RestartScenario) -> str:
    """The alternative text of the figure."""
    label = _(
        "A training run on {workers}. Steps: {steps}, steps between checkpoints: {every}. A worker "
        "dies after step {failed}. All workers restart from the last checkpoint, after step "
        "{saved}: {lost}."
    )
    if not scenario.saved:
        label = _(
            "A training run on {workers}. Steps: {steps}, steps between checkpoints: {every}. A "
            "worker dies after step {failed}, before the first checkpoint. All workers restart "
            "from the beginning: {lost}."
        )
    lost = ngettext("{count} step lost", "{count} steps lost", scenario.lost).format(
        count=scenario.lost
    )
    return label.format(
        steps=scenario.steps,
        workers=labels.workers(scenario.workers),
        every=scenario.every,
        failed=scenario.fails_after,
        saved=scenario.saved,
        lost=lost,
    )
