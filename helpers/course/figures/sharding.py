"""The examples of a dataset that each worker reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.i18n import _, join_clauses, join_items, join_phrases, ngettext

MAX_WORKERS, EXAMPLES = 4, (4, 16)
LEFT, RIGHT = 232, 616  # the range of the cells
NAMES = 130  # the left edge of the workers' names
TOP, ROW, CELL, GAP = 38, 22, 20, 14  # the first way, rows, cells, space between ways

Reading = Sequence[Sequence[int]]
"""The numbers of the examples that each worker reads, in its order."""


class Way(NamedTuple):
    """A way of sharding: its description, the examples of each worker, and the outcome."""

    name: str
    detail: str
    reading: Reading
    result: str


def by_shard(workers: int, examples: int) -> Reading:
    """Every N-th example, as in `tf.data.Dataset.shard`."""
    return [range(k, examples, workers) for k in range(workers)]


def by_range(workers: int, examples: int) -> Reading:
    """Contiguous ranges of similar size, as if each worker had its own file."""
    ends = [examples * k // workers for k in range(workers + 1)]
    return [range(*pair) for pair in pairwise(ends)]


def unsharded(workers: int, examples: int) -> Reading:
    """All examples for every worker."""
    return [range(examples)] * workers


def sharding(workers: int = 2, examples: int = 12, batch: int = 2) -> Drawing:
    """A dataset as a row of numbered examples, and the examples of each worker, for three ways.

    Args:
      workers: the number of workers, from 2 to 4.
      examples: the number of examples, from 4 to 16, and at least `workers` × `batch`.
      batch: the examples of each worker in a step. The first step is highlighted.

    Raises:
      ConfigError: a number is outside its range.
    """
    p.check_range("workers", workers, 2, MAX_WORKERS)
    p.check_range("examples", examples, *EXAMPLES)
    p.check_range("batch", batch, 1, examples // workers)
    ways = _ways(workers, examples)
    numbers = [str(number) for number in range(examples)]
    parts = [
        p.row_label(12, LEFT - 8, _("dataset")),
        p.cells(p.Area(LEFT, 2, RIGHT - LEFT, CELL), numbers, p.PLACE._replace(corner=1)),
    ]
    pitch = workers * ROW + GAP
    parts += [_drawn(TOP + k * pitch, way, batch, examples) for k, way in enumerate(ways)]
    bottom = TOP + len(ways) * pitch
    sample = _cell(p.Area(0, -CELL / 2, 30, CELL), "", first=True)
    parts.append(p.legend(bottom + 8, [(sample, _("read in the first step"))]))
    return p.figure(bottom + 20, parts, join_clauses(map(_told, ways)))


def _ways(workers: int, examples: int) -> list[Way]:
    once = _("each example once")
    often = ngettext("each example {count} time", "each example {count} times", workers)
    return [
        Way(_("by shard"), _("every N-th"), by_shard(workers, examples), once),
        Way(_("by range"), _("contiguous"), by_range(workers, examples), once),
        Way(
            _("no sharding"),
            _("all read everything"),
            unsharded(workers, examples),
            often.format(count=workers),
        ),
    ]


def _drawn(top: float, way: Way, batch: int, examples: int) -> str:
    """One way of sharding: a row of cells for each worker, with dots for unread examples."""
    middle = top + len(way.reading) * ROW / 2
    each = (RIGHT - LEFT) / examples
    result = p.note(RIGHT + 12, middle, way.result, p.WIDTH - RIGHT - 12, anchor="start")
    parts = [p.row_label(middle, NAMES - 8, way.name, way.detail), result]
    for worker, numbers in enumerate(way.reading):
        y = top + worker * ROW + (ROW - CELL) / 2
        name = _("worker {number}").format(number=worker)
        parts.append(p.note(NAMES, y + CELL / 2, name, LEFT - NAMES - 8, anchor="start"))
        for number in range(examples):
            area = p.Area(LEFT + number * each, y, each, CELL)
            if number in numbers:
                parts.append(_cell(area, str(number), first=number in numbers[:batch]))
            else:
                parts.append(p.dot(*area.middle))
    return "".join(parts)


def _cell(area: p.Area, name: str, *, first: bool) -> str:
    """An example that is read, with a thick edge in the first step."""
    x, y, width, height = area
    edge = p.outline(p.Area(x + 1, y + 1, width - 2, height - 2), p.BATCH)
    return p.box(area, p.BATCH, name) + edge * first


def _told(way: Way) -> str:
    """The text of one way."""
    message = _("worker {number} reads {examples}")
    parts = [
        message.format(number=worker, examples=join_items(map(str, numbers)))
        for worker, numbers in enumerate(way.reading)
    ]
    return _("{way}: {readings}").format(way=way.name, readings=join_phrases([*parts, way.result]))
