"""Asynchronous training with a parameter server, and the versions of values that workers use."""

from __future__ import annotations

from typing import NamedTuple

from helpers import labels
from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.i18n import _, join_clauses, join_items

MIN_WORKERS, MAX_WORKERS = 2, 4  # workers
LEFT = 116  # the start of the time axis
END = p.WIDTH - LEFT  # the end of the time axis, in pixels from LEFT
SENDS = 14  # the last gradient arrives at least these pixels before END
FIRST, TAKES, PAUSE = (34, 50, 16, 64), (102, 124, 197, 224), 20  # pixels: each worker's steps
SERVER, LANE, TOP = 36, 58, 56  # heights of the server and of a worker, top of the first worker
BOX, OVER = 40, 6  # a step's height, and extra width of its box


class Step(NamedTuple):
    """A step of a worker, in pixels of time.

    Attributes:
      fetched: the version of the variables at its start.
      met: the version that its gradient meets when it arrives.
    """

    worker: int
    start: float
    end: float
    fetched: int
    met: int

    @property
    def staleness(self) -> int:
        """The number of updates by other workers during the step."""
        return self.met - self.fetched


def asynchronous_steps(workers: int) -> list[Step]:
    """The steps of independent workers, in the order in which their gradients arrive.

    Each arriving gradient produces the next version of the variables.
    """
    spans = []
    for worker in range(workers):
        start, takes = FIRST[worker], TAKES[worker]
        while start + takes <= END - SENDS:
            spans.append((start + takes, start, worker))
            start += takes + PAUSE
    spans.sort()
    arrivals = [end for end, _start, _worker in spans]
    return [
        Step(worker, start, end, sum(other < start for other in arrivals), version)
        for version, (end, start, worker) in enumerate(spans)
    ]


def parameter_servers(workers: int = 3) -> Drawing:
    """Workers that fetch values and send gradients at their own pace, while the values change.

    Args:
      workers: the number of workers, from 2 to 4.

    Raises:
      ConfigError: the number of workers is outside this range.
    """
    p.check_range("workers", workers, MIN_WORKERS, MAX_WORKERS)
    steps = asynchronous_steps(workers)
    bottom = TOP + workers * LANE
    parts = [_server(steps)]
    for worker in range(workers):
        name = _("worker {number}").format(number=worker)
        parts.append(p.row_label(_level(worker), LEFT - 10, name))
    later = [_unfinished(worker, steps) for worker in range(workers)]
    for step in [*steps, *later]:
        parts += [_box(step, later), _ways(step, [*steps, *later])]
    sample = [(0.0, 0.0), (30.0, 0.0)]
    entries = [
        (p.arrow(*sample, style=p.VARIABLES), _("fetch values")),
        (p.arrow(*sample, style=p.GRADIENT), _("send a gradient")),
    ]
    parts.append(p.legend(bottom + 14, entries))
    return p.figure(bottom + 28, parts, _label(workers, steps))


def _level(worker: int) -> float:
    """The vertical middle of a worker's row."""
    return TOP + (worker + 0.5) * LANE


def _server(steps: list[Step]) -> str:
    """The versions of the variables, each until the next gradient arrives."""
    ends = [LEFT + step.end for step in steps]
    style = p.VARIABLES._replace(corner=0)
    parts = [
        p.row_label(SERVER / 2, LEFT - 14, _("variables"), _("versions")),
        p.frame(p.Area(LEFT - 6, 0, p.WIDTH - LEFT + 6, SERVER), p.SERVER),
    ]
    for version, (x1, x2) in enumerate(zip([LEFT, *ends], [*ends, p.WIDTH - 6], strict=True)):
        parts.append(p.box(p.Area(x1, 10, x2 - x1, SERVER - 16), style, str(version)))
    return "".join(parts)


def _unfinished(worker: int, steps: list[Step]) -> Step:
    """The last step that a worker begins, which ends after the figure."""
    start = max(step.end for step in steps if step.worker == worker) + PAUSE
    return Step(worker, start, END - OVER, len(steps), len(steps))


def _box(step: Step, later: list[Step]) -> str:
    """The box of a step."""
    width = step.end - step.start + 2 * OVER
    area = p.Area(LEFT + step.start - OVER, _level(step.worker) - BOX / 2, width, BOX)
    if step in later:
        return p.box(area, p.WORKER._replace(dash="4 3", tint=0.06), "…")
    stale = _("stale by {count}").format(count=step.staleness)
    return p.box(area, p.WORKER, _("version {number}").format(number=step.fetched), stale)


def _ways(step: Step, steps: list[Step]) -> str:
    """The arrows of the fetch before a step, and of the gradient after it if that is visible."""
    fetched = _way(step.start, step, steps, p.VARIABLES)
    return fetched + _way(step.end, step, steps, p.GRADIENT) * (step.end <= END - SENDS)


def _way(moment: float, step: Step, steps: list[Step], style: p.Style) -> str:
    """An arrow between the server and a step, hidden behind the steps of other workers."""
    ends, over = [SERVER + 2.0], OVER + 4
    for worker in range(step.worker):
        spans = [(one.start, one.end) for one in steps if one.worker == worker]
        if any(start - over < moment < end + over for start, end in spans):
            ends += [_level(worker) - BOX / 2 - 2, _level(worker) + BOX / 2 + 2]
    ends.append(_level(step.worker) - BOX / 2 - 2)
    if style == p.GRADIENT:  # from the worker to the server
        ends.reverse()
    x = LEFT + moment
    *pieces, last = [((x, y1), (x, y2)) for y1, y2 in zip(ends[::2], ends[1::2], strict=True)]
    return "".join(p.line(*piece, style=style) for piece in pieces) + p.arrow(*last, style=style)


def _label(workers: int, steps: list[Step]) -> str:
    """The alternative text of the figure."""
    name = _("worker {number}")
    told = [
        _("the staleness of the gradients of {worker} is {numbers}").format(
            worker=name.format(number=worker),
            numbers=join_items(str(step.staleness) for step in steps if step.worker == worker),
        )
        for worker in range(workers)
    ]
    label = _(
        "Asynchronous training, {workers}: each fetches the values of one version of the "
        "variables, computes, and sends its gradient, which produces the next version. In the "
        "meantime, other workers have produced versions too. Step by step, {staleness}."
    )
    return label.format(workers=labels.workers(workers), staleness=join_clauses(told))
