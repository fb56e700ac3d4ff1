"""Which lesson needs which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import fmean

from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.course.figures.layered_graph import (
    Layered,
    Needs,
    Node,
    layered,
    ranks,
    transitive_reduction,
)
from helpers.course.figures.text_metrics import LINE, SMALL, text_width, wrap
from helpers.errors import ConfigError
from helpers.i18n import _, join_clauses, join_items

MAX_LESSONS, MAX_LAYERS = 14, 6  # lessons; layers side by side
HEIGHT = 410  # of the figure, where titles are short enough
APART, CLOSE, BETWEEN = 48, 28, (4, 22)  # between layers, of few and of many; between lessons
PASSING = 14  # the height that an arrow takes which passes a layer
ROUNDS = 8  # of moving lessons towards those they have to do with
MAX_WIDTH, TRUNK = 380, 12  # of a lesson on a stair; where the way down begins


def lesson_map(lessons: Mapping[str, Iterable[str]]) -> Drawing:
    """Lessons from left to right, each after those that it needs.

    An arrow that follows from others is left out: who needs the second lesson, which needs the
    first, has the first behind them.

    Args:
      lessons: for each title, the titles of those that it needs; up to 14, without a circle.

    Raises:
      ConfigError: for none or too many, for a need that is no lesson, for lessons that need each
        other in a circle.
    """
    needs = {name: tuple(dict.fromkeys(others)) for name, others in lessons.items()}
    _check(needs)
    reduced = transitive_reduction(needs)
    drawn = _stairs(reduced) if max(ranks(needs).values()) >= MAX_LAYERS else _columns(reduced)
    return drawn._replace(label=_label(needs))


def _check(needs: Needs) -> None:
    p.check_range("len(lessons)", len(needs), 1, MAX_LESSONS)
    if unknown := [other for others in needs.values() for other in others if other not in needs]:
        message = _("{names} are needed, but are no lessons of the map. The lessons are {lessons}.")
        raise ConfigError(message.format(names=join_items(unknown), lessons=join_items(needs)))
    if circle := _circle(needs):
        message = _("{names} need each other in a circle. Take one of these needs away.")
        raise ConfigError(message.format(names=join_items(circle)))


def _circle(needs: Needs) -> list[str]:
    """The lessons that stand neither after nor before all others; none, where there is an order."""
    late = [name for name in needs if name not in ranks(needs)]
    early = ranks({name: [other for other in late if name in needs[other]] for name in late})
    return [name for name in late if name not in early]


def _columns(needs: Needs) -> Drawing:
    """Layers side by side."""
    drawn = layered(needs)
    count = len(drawn.layers)
    gap = APART if count < 5 else CLOSE
    width = min((p.WIDTH - gap * (count - 1)) / count, _longest(needs))
    pitch = (p.WIDTH - width) / max(count - 1, 1)
    high = _height(needs, width)
    levels, height = _levels(drawn, high)
    lefts = {spot: k * pitch for k, layer in enumerate(drawn.layers) for spot in layer}
    parts = [_lesson(lefts[name], levels[name], width, high, name) for name in needs]
    for start, end in drawn.links:
        x = lefts[start] + width
        parts.append(_curve((x, levels[start]), (lefts[end], levels[end]), end in needs))
        if start not in needs:
            parts.append(p.line((x - width, levels[start]), (x, levels[start])))
    return p.figure(height, parts, "")


def _levels(drawn: Layered, high: float) -> tuple[dict[Node, float], float]:
    """The middle of every spot, near those it has to do with; and the height of all."""
    most = max(map(len, drawn.layers))
    gap = min(max(HEIGHT / most - high, BETWEEN[0]), BETWEEN[1])
    sizes = {
        spot: high + gap if isinstance(spot, str) else PASSING
        for layer in drawn.layers
        for spot in layer
    }
    height = max(sum(sizes[spot] for spot in layer) for layer in drawn.layers)
    levels: dict[Node, float] = {}
    for layer in drawn.layers:
        levels |= _settled(layer, dict.fromkeys(layer, height / 2), sizes, height)
    for _round in range(ROUNDS):
        for layer in drawn.layers:
            wanted = {
                spot: fmean(
                    [levels[b if a == spot else a] for a, b in drawn.links if spot in (a, b)]
                    or [levels[spot]]
                )
                for spot in layer
            }
            levels |= _settled(layer, wanted, sizes, height)
    return levels, height


def _settled(
    layer: Sequence[Node], wanted: Mapping[Node, float], sizes: Mapping[Node, float], height: float
) -> dict[Node, float]:
    """The levels nearest to the wanted ones at which the spots of a layer do not overlap.

    What stands too close is taken together, by its mean: isotonic regression.
    """
    ends = list(accumulate(sizes[spot] for spot in layer))
    offsets = [end - sizes[spot] / 2 for end, spot in zip(ends, layer, strict=True)]
    groups: list[list[float]] = []
    for spot, offset in zip(layer, offsets, strict=True):
        groups.append([wanted[spot] - offset])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    shifts = [fmean(group) for group in groups for _spot in group]
    return {
        spot: offset + min(max(shift, 0), height - ends[-1])
        for spot, offset, shift in zip(layer, offsets, shifts, strict=True)
    }


def _stairs(needs: Needs) -> Drawing:
    """A row for each lesson, where there are more layers than would fit side by side."""
    depth = ranks(needs)
    names = sorted(needs, key=lambda name: depth[name])
    width = min(_longest(needs), MAX_WIDTH)
    high = _height(needs, width)
    pitch = high + max(min(HEIGHT / len(names) - high, BETWEEN[1]), BETWEEN[0])
    step = (p.WIDTH - width) / (len(names) - 1)
    places = {name: (k * step, (k + 0.5) * pitch) for k, name in enumerate(names)}
    parts = [_lesson(x, y, width, high, name) for name, (x, y) in places.items()]
    for name in names:
        x, y = places[name]
        for other in needs[name]:
            left, above = places[other]
            points = [(left + TRUNK, above + high / 2), (left + TRUNK, y), (x - 1, y)]
            parts.append(p.arrow(*points))
    return p.figure(len(names) * pitch, parts, "")


def _longest(names: Iterable[str]) -> float:
    """The width of a lesson whose title stands in one line."""
    return max(text_width(name, SMALL) for name in names) + 2 * p.PADDING + 2


def _height(names: Iterable[str], width: float) -> float:
    """Of every lesson: that of the title with the most lines."""
    lines = max(len(wrap(name, width - 2 * p.PADDING, SMALL)) for name in names)
    return lines * SMALL * LINE + 10


def _lesson(x: float, y: float, width: float, height: float, name: str) -> str:
    return p.box(p.Area(x, y - height / 2, width, height), p.PLACE, detail=name)


def _curve(start: p.Point, end: p.Point, ends: bool) -> str:
    """From one layer to the next, with a head where it ends."""
    (x1, y1), (x2, y2) = start, end
    stop = x2 - 9 if ends else x2
    middle = (x1 + stop) / 2
    path = f"M{x1:.1f} {y1:.1f} C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {stop:.1f} {y2:.1f}"
    return p.path(path) + (p.arrow((stop, y2), (x2 - 1, y2)) if ends else "")


def _label(needs: Needs) -> str:
    """The map in words."""
    first = [name for name, others in needs.items() if not others]
    told = [_("Lessons that need no other: {names}").format(names=join_items(first))]
    told += [
        _("{name} needs {others}").format(name=name, others=join_items(others))
        for name, others in needs.items()
        if others
    ]
    return join_clauses(told)
