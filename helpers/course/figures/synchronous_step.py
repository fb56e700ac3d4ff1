"""The phases of one step of synchronous training."""

from __future__ import annotations

from itertools import pairwise

from helpers import labels
from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.course.figures.text_metrics import BOLD, TEXT
from helpers.i18n import _

MIN_WORKERS, MAX_WORKERS = 2, 6  # workers
LEFT, MAX_WIDTH = 128, 190  # the left edge of the columns, and the width of a box
EXAMPLES = 4  # the number of examples in each worker's part
PACES = (0.66, 1.0, 0.54, 0.76, 0.6, 0.7)  # each worker's time, relative to the slowest
BATCH, BOX, COMPUTE, BARRIER, REDUCE, UPDATE, END = 2, 50, 118, 216, 244, 304, 348  # levels
PART, NAME, BAR, LINE = 22, 60, 32, 24  # heights of batch, worker, all-reduce, update


def synchronous_step(workers: int = 2) -> Drawing:
    """A step from top to bottom: shards of a batch, gradients, all-reduce, the same update.

    Args:
      workers: the number of workers, from 2 to 6. Worker 1 is the slowest.

    Raises:
      ConfigError: the number of workers is outside this range.
    """
    p.check_range("workers", workers, MIN_WORKERS, MAX_WORKERS)
    pitch = (p.WIDTH - LEFT) / workers
    width = min(pitch - 13, MAX_WIDTH)
    middles = [LEFT + (k + 0.5) * pitch for k in range(workers)]
    parts = [_meanings()]
    for number, x in enumerate(middles):
        batch = p.Area(x - pitch / 2 + 3, BATCH, pitch - 6, PART)
        parts += [p.cells(batch, [""] * EXAMPLES), _column(number, x, width)]
    reduce = p.Area(LEFT + 7, REDUCE, p.WIDTH - LEFT - 14, BAR)
    parts.append(p.box(reduce, p.GRADIENT, _mean(workers), weight=BOLD))
    parts += [
        p.note((x1 + x2) / 2, UPDATE + LINE / 2, "=", 14, size=TEXT, weight=BOLD)
        for x1, x2 in pairwise(middles)
    ]
    label = _(
        "A synchronous step, {workers}: the global batch is split among the workers. Each worker "
        "computes the gradient of its part with its own copy of the model and waits for the "
        "slowest one. An all-reduce gives every worker the mean gradient. Each worker applies the "
        "same update, so all copies stay equal."
    ).format(workers=labels.workers(workers))
    return p.figure(END, parts, label)


def _meanings() -> str:
    """The meanings of the rows, next to a time arrow."""
    rows = {
        BATCH + PART / 2: _("global batch"),
        BOX + NAME / 2: _("copies of the model"),
        COMPUTE + 30: _("each on its own part"),
        BARRIER: _("wait for the slowest"),
        REDUCE + BAR / 2: _("all-reduce: mean"),
        UPDATE + LINE / 2: _("the same update"),
    }
    notes = [
        p.note(LEFT - 10, y, content, LEFT - 34, anchor="end", opacity=p.MUTED_OPACITY)
        for y, content in rows.items()
    ]
    time = p.note(0, END - 7, _("time"), 80, anchor="start", opacity=p.MUTED_OPACITY)
    return p.arrow((6, BATCH), (6, END - 16)) + time + "".join(notes)


def _column(number: int, x: float, width: float) -> str:
    """The column of one worker, centered at `x`."""
    left, low = x - width / 2, "₀₁₂₃₄₅"[number]
    takes = PACES[number] * (BARRIER - COMPUTE)
    waits = p.Area(left, COMPUTE + takes, width, BARRIER - COMPUTE - takes)
    name = _("worker {number}").format(number=number)
    worker = p.Area(left, BOX, width, NAME)
    compute = p.Area(left, COMPUTE, width, takes)
    parts = [
        p.arrow((x, BATCH + PART + 2), (x, BOX - 2), style=p.BATCH),
        p.frame(worker, p.WORKER),
        p.title(worker._replace(height=NAME - 24), name),
        p.variable_box(x, BOX + 46, "w"),
        p.box(compute, p.WORKER, f"g{low}", _("gradient")),
        p.arrow((x, BARRIER + 4), (x, REDUCE - 2), style=p.GRADIENT),
        p.arrow((x, REDUCE + BAR + 2), (x, UPDATE - 2), style=p.SUM),
        p.box(p.Area(left, UPDATE, width, LINE), p.VARIABLES, detail="w ← w − ηg"),
    ]
    if waits.height:
        parts.append(p.box(waits, p.WAIT, detail=_("waits")))
    return "".join(parts)


def _mean(workers: int) -> str:
    """The mean of the gradients, as a formula."""
    terms = [f"g{low}" for low in "₀₁₂₃₄₅"[:workers]]
    if workers > 3:
        terms[2:-1] = ["…"]
    return f"g = ({' + '.join(terms)}) / {workers}"
