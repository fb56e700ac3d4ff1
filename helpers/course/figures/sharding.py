"""Who reads which examples of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.i18n import _, join_clauses, join_items, join_phrases, ngettext

MAX_WORKERS, EXAMPLES = 4, (4, 16)
LEFT, RIGHT = 232, 616  # of the cells
NAMES = 130  # where the names of the workers begin
TOP, ROW, CELL, GAP = 38, 22, 20, 14  # of the first way; a worker's row and its cells; between ways

Reading = Sequence[Sequence[int]]
"""The numbers of the examples that each worker reads, in its order."""


class Way(NamedTuple):
    """A way of dealing out examples, in words; who reads what; what comes of it."""

    name: str
    detail: str
    reading: Reading
    result: str


def by_shard(workers: int, examples: int) -> Reading:
    """Every N-th example, as `tf.data.Dataset.shard` deals them out."""
    return [range(k, examples, workers) for k in range(workers)]


def by_range(workers: int, examples: int) -> Reading:
    """Neighbours, about equally many: as if each had a file of its own."""
    ends = [examples * k // workers for k in range(workers + 1)]
    return [range(*pair) for pair in pairwise(ends)]


def unsharded(workers: int, examples: int) -> Reading:
    """All of them, by everybody."""
    return [range(examples)] * workers


def sharding(workers: int = 2, examples: int = 12, batch: int = 2) -> Drawing:
    """A data set as a row of numbered examples, and who reads which of them, in three ways.

    Args:
      workers: from 2 to 4.
      examples: from 4 to 16, and no fewer than the workers take in a step.
      batch: the examples that each worker takes in a step; those of the first step stand out.

    Raises:
      ConfigError: for other numbers.
    """
    p.check_range("workers", workers, 2, MAX_WORKERS)
    p.check_range("examples", examples, *EXAMPLES)
    p.check_range("batch", batch, 1, examples // workers)
    ways = _ways(workers, examples)
    numbers = [str(number) for number in range(examples)]
    parts = [
        p.row_label(12, LEFT - 8, _("data set")),
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
    """One way: a row of cells for each worker, with a dot where it does not read."""
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
    """An example that is read; with a thick edge, in the first step."""
    x, y, width, height = area
    edge = p.outline(p.Area(x + 1, y + 1, width - 2, height - 2), p.BATCH)
    return p.box(area, p.BATCH, name) + edge * first


def _told(way: Way) -> str:
    """One way in words."""
    message = _("worker {number} reads {examples}")
    parts = [
        message.format(number=worker, examples=join_items(map(str, numbers)))
        for worker, numbers in enumerate(way.reading)
    ]
    return _("{way}: {readings}").format(way=way.name, readings=join_phrases([*parts, way.result]))
