"""The phases of a step, worker by worker, on one time axis."""

from __future__ import annotations

from helpers import labels
from helpers.course.charts.svg import Drawing, straight_line
from helpers.course.figures import elements as p
from helpers.i18n import _

MIN_WORKERS, MAX_WORKERS = 2, 6  # workers
STRAGGLER = 1
LEFT, LANE, BOX, TOP = 116, 52, 40, 26  # the start of the time axis, heights, and the top
INPUT, FORWARD, BACKWARD = 70, 90, 110  # pixels of each phase at pace 1
PACES = (1.0, 1.37, 0.97, 1.06, 1.02, 1.08)  # each worker's computation (straggler: 1.37)
EXCHANGE, APART, PAUSE = 112, 3, 12  # the all-reduce, space between boxes, and the barrier


def step_timeline(workers: int = 2) -> Drawing:
    """Input, forward, backward, all-reduce and update of each worker, one of which is a straggler.

    Args:
      workers: the number of workers, from 2 to 6. Worker 1 is the straggler.

    Raises:
      ConfigError: the number of workers is outside this range.
    """
    p.check_range("workers", workers, MIN_WORKERS, MAX_WORKERS)
    bottom = TOP + workers * LANE
    barrier = LEFT + max(map(_work, range(workers)))
    middle = barrier + (PAUSE - APART) / 2
    rows = [_row(worker, barrier) for worker in range(workers)]
    parts = [
        *rows,
        straight_line(middle, TOP - 4, middle, bottom, opacity=0.7, dash="2 3"),
        p.note(middle, TOP - 14, _("all have arrived"), 220),
        p.bracket(LEFT, barrier - APART, bottom + 2, _("the slowest sets the pace")),
        p.bracket(barrier + PAUSE, p.WIDTH, bottom + 2, _("together")),
    ]
    label = _(
        "The time of one step, {workers}. Each reads its input and runs a forward and a backward "
        "pass. Worker {straggler} is slower, a straggler, and the others wait for it. Then all of "
        "them sum their gradients in one all-reduce, and update their variables."
    ).format(workers=labels.workers(workers), straggler=STRAGGLER)
    return p.figure(bottom + 32, parts, label)


def _work(worker: int) -> float:
    """The time of a worker up to the all-reduce."""
    return PACES[worker] * (INPUT + FORWARD + BACKWARD)


def _row(worker: int, barrier: float) -> str:
    """The row of one worker."""
    level = TOP + (worker + 0.5) * LANE
    name = _("worker {number}").format(number=worker)
    detail = _("straggler") if worker == STRAGGLER else ""
    parts, x = [p.row_label(level, LEFT - 10, name, detail)], float(LEFT)
    own = PACES[worker]
    phases: list[tuple[float, p.Style | None, str]] = [
        (own * INPUT, p.BATCH, _("input")),
        (own * FORWARD, p.WORKER, _("forward")),
        (own * BACKWARD, p.WORKER, _("backward")),
        (barrier - LEFT - _work(worker), p.WAIT, _("waits")),
        (PAUSE, None, ""),
        (EXCHANGE, p.GRADIENT, _("all-reduce")),
        (p.WIDTH + APART - barrier - PAUSE - EXCHANGE, p.VARIABLES._replace(corner=7), _("update")),
    ]
    for time, style, content in phases:
        if style and time > APART:
            parts.append(p.box(p.Area(x, level - BOX / 2, time - APART, BOX), style, content))
        x += time
    return "".join(parts)
