"""The elements of figures: one style for each concept, boxes, arrows, lanes, brackets.

A style combines a color with a hatch, a dash or a shape, so that a figure is readable in grayscale.
A `mwl-room` is a group of a frame, which may be invisible, and the texts that must remain within
it. A `mwl-way` is a line that must not cross a text. tools/check_figures.py measures both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from helpers.course.charts.svg import Drawing, straight_line, text
from helpers.course.figures.text_metrics import BOLD, LINE, PLAIN, SMALL, TEXT, text_width, wrap
from helpers.errors import ConfigError, check_count
from helpers.i18n import _

WIDTH, MARGIN = 720, 1  # the width of every figure and its margin, in pixels
MIN_HATCHED = 8  # least pixels of hatch next to a text, else it is behind
CODE = SMALL * 1.35  # the height of a line of code
PADDING = 3  # pixels between a box and its letters
MUTED_OPACITY = 0.78  # the opacity of secondary text

BLUE, ORANGE, PINK, TEAL = "#4c78a8", "#d9791a", "#b8437f", "#13868c"
GREEN, VIOLET, RED, GRAY = "#4f9a3c", "#7d5ba6", "#c8332b", "#7a8088"

Point = tuple[float, float]
Row = tuple[str, float, int]
"""A line of text, its size and its weight."""


class Area(NamedTuple):
    """A rectangle, in pixels from the upper left corner of the figure."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> Point:
        """The center of the rectangle."""
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def place(self) -> str:
        """The rectangle as attributes of an SVG element."""
        x, y, width, height = self
        return f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'


class Style(NamedTuple):
    """The style of a concept in all figures.

    Attributes:
      corner: the radius of its corners in pixels.
      tint: the opacity of its fill.
      dash: the dash pattern of its edge.
      hatch: the pixels between lines of its hatch, or 0 for no hatch.
      shelf: whether a second line runs along its top.
      flow: the dash pattern of an arrow that transfers it.
    """

    color: str
    corner: float = 7.0
    tint: float = 0.13
    dash: str = ""
    hatch: float = 0.0
    shelf: bool = False
    flow: str = ""


WORKER = Style(BLUE)
SERVER = Style(VIOLET, corner=2, shelf=True)
VARIABLES = Style(ORANGE, corner=99)
GRADIENT = Style(PINK, corner=3, tint=0.09, hatch=7, flow="5 3")
SUM = Style(TEAL, corner=3, tint=0.2)  # the sum or mean of the gradients of all workers
BATCH = Style(GREEN, corner=1, tint=0.2)
WAIT = Style(GRAY, corner=3, tint=0, dash="3 3", flow="2 3")
LOST = Style(RED, corner=1, tint=0.05, dash="4 2", hatch=5)
PLACE = Style(GRAY, tint=0.05)  # a container, such as a machine, a process or a lesson


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Raises ConfigError unless the `value` of parameter `name` is from `least` to `most`."""
    check_count(name, value, least)
    if value > most:
        message = _("{name}={value} is more than the figure has room for: pass at most {most}.")
        raise ConfigError(message.format(name=name, value=value, most=most))


def figure(height: float, parts: Iterable[str], label: str) -> Drawing:
    """A figure of the common width, with a margin for the edges of its boxes."""
    body = f'<g transform="translate({MARGIN} {MARGIN})">{"".join(parts)}</g>'
    return Drawing(WIDTH + 2 * MARGIN, height + 2 * MARGIN, body, label)


def box(
    area: Area, style: Style, content: str = "", detail: str = "", *, weight: int = PLAIN
) -> str:
    """A box with a centered text and, in smaller letters, another text below."""
    inside = area.width - 2 * PADDING
    rows = _rows(content, inside, TEXT, weight) + _rows(detail, inside, SMALL, PLAIN)
    parts = [frame(area, style), _stack(area.middle, rows, "middle")]
    if style.hatch:
        taken = max((text_width(*row) + 2 * PADDING for row in rows), default=0)
        parts += [_hatch(part, style) for part in _beside(area, taken)]
    return group("".join(parts))


def frame(area: Area, style: Style) -> str:
    """The outline of a box with a light fill."""
    x, y, width, height = area
    shelf = straight_line(x, y + 4, x + width, y + 4, opacity=0.5) if style.shelf else ""
    corner = min(style.corner, height / 2, width / 2)
    return (
        f'<rect {area.place} rx="{corner:g}" fill="{style.color}" fill-opacity="{style.tint:g}" '
        f'stroke="{style.color}" stroke-width="1.5" stroke-dasharray="{style.dash}"/>{shelf}'
    )


def fill(area: Area, style: Style) -> str:
    """A box without an edge."""
    return f'<rect {area.place} fill="{style.color}" fill-opacity="{2 * style.tint:g}"/>'


def outline(area: Area, style: Style) -> str:
    """A thick edge that highlights an area."""
    return f'<rect {area.place} fill="none" stroke="{style.color}" stroke-width="3"/>'


def note(
    x: float,
    y: float,
    content: str,
    room: float,
    *,
    anchor: str = "middle",
    size: float = SMALL,
    weight: int = PLAIN,
    opacity: float = 1.0,
) -> str:
    """A separate text, in lines of at most `room` pixels, centered at `y`."""
    rows = _rows(content, room, size, weight)
    left = x - room * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    height = len(rows) * size * LINE
    area = Area(left, y - height / 2, room, height)
    return group(_invisible(area) + _stack((x, y), rows, anchor, opacity))


def title(area: Area, content: str, *, size: float = TEXT, weight: int = BOLD) -> str:
    """A text centered in a part of a box."""
    rows = _rows(content, area.width - 2 * PADDING, size, weight)
    return group(_invisible(area) + _stack(area.middle, rows, "middle"))


def code(x: float, y: float, lines: Sequence[str]) -> str:
    """Lines of code that start at `y`."""
    kept = [line.replace(" ", "\u00a0") for line in lines]
    texts = [text(x, y + (k + 0.7) * CODE, line, size=SMALL) for k, line in enumerate(kept)]
    return f'<g font-family="ui-monospace, monospace">{"".join(texts)}</g>'


def arrow(*points: Point, style: Style = PLACE, both: bool = False) -> str:
    """An arrow along straight lines, in the color and dash pattern of the transferred data.

    Args:
      style: the style of the transferred data.
      both: whether it has a head at both ends.
    """
    ends = [_head(points[-2], points[-1])] + [_head(points[1], points[0])] * both
    way = list(points)
    way[-1] = ends[0][1]
    if both:
        way[0] = ends[1][1]
    heads = "".join(f'<path d="{head}" fill="{style.color}"/>' for head, _foot in ends)
    return line(*way, style=style) + heads


def line(*points: Point, style: Style = PLACE) -> str:
    """A line like `arrow`, without a head."""
    return path("M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points), style)


def path(d: str, style: Style = PLACE) -> str:
    """A line like `line`, along an SVG path."""
    return (
        f'<path class="mwl-way" d="{d}" fill="none" stroke="{style.color}" '
        f'stroke-width="1.6" stroke-linejoin="round" stroke-dasharray="{style.flow}"/>'
    )


def bracket(x1: float, x2: float, y: float, content: str) -> str:
    """A bracket below an area, and its label."""
    drawn = f'<path d="M{x1:.1f} {y:.1f} v6 H{x2:.1f} v-6" fill="none" stroke="currentColor" '
    meaning = note((x1 + x2) / 2, y + 17, content, max(x2 - x1, 150))
    return f'{drawn}opacity="0.55"/>{meaning}'


def row_label(y: float, right: float, name: str, detail: str = "") -> str:
    """The name of a row of a timeline, left of `right`, and a detail."""
    rows = _rows(name, right, TEXT, BOLD) + _rows(detail, right, SMALL, PLAIN)
    height = sum(size * LINE for _row, size, _weight in rows)
    return group(_invisible(Area(0, y - height / 2, right, height)) + _stack((0, y), rows, "start"))


def cells(area: Area, names: Sequence[str], style: Style = BATCH) -> str:
    """Cells for the examples of a batch, side by side, with their names."""
    each = area.width / len(names)
    return "".join(
        box(area._replace(x=area.x + k * each, width=each), style, name)
        for k, name in enumerate(names)
    )


def dot(x: float, y: float) -> str:
    """A dot that marks an empty cell."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.2" opacity="0.5"/>'


def variable_box(x: float, y: float, content: str, width: float = 30) -> str:
    """A box of variables, centered at (x, y)."""
    return box(Area(x - width / 2, y - 10, width, 20), VARIABLES, content)


def document(x: float, y: float) -> str:
    """A checkpoint, whose upper edge is centered at (x, y)."""
    return (
        f'<path d="M{x - 8:.1f} {y:.1f} h11 l5 5 v15 h-16 Z m11 0 v5 h5" stroke-linejoin="round" '
        f'fill="{ORANGE}" fill-opacity="0.25" stroke="{ORANGE}" stroke-width="1.5"/>'
    )


def cross(x: float, y: float, arm: float = 7) -> str:
    """A cross that marks a failure."""
    ways = f"M{x - arm:.1f} {y - arm:.1f} l{2 * arm} {2 * arm} m0 {-2 * arm} l{-2 * arm} {2 * arm}"
    return f'<path d="{ways}" stroke="{RED}" stroke-width="3" stroke-linecap="round"/>'


def legend(y: float, entries: Sequence[tuple[str, str]]) -> str:
    """A row of samples, each 30 pixels wide and centered at (15, 0), with their meanings."""
    each = WIDTH / len(entries)
    return "".join(
        f'<g transform="translate({k * each:.1f} {y:.1f})">{sample}'
        f"{note(38, 0, content, each - 46, anchor='start')}</g>"
        for k, (sample, content) in enumerate(entries)
    )


def group(content: str) -> str:
    """A frame, and the texts that must remain within it."""
    return f'<g class="mwl-room">{content}</g>'


def _rows(content: str, room: float, size: float, weight: int) -> list[Row]:
    return [(row, size, weight) for row in wrap(content, room, size, weight)]


def _stack(middle: Point, rows: Sequence[Row], anchor: str, opacity: float = 1.0) -> str:
    """Lines of text, one below the other."""
    x, level = middle
    level -= sum(size * LINE for _row, size, _weight in rows) / 2
    parts = []
    for row, size, weight in rows:
        baseline = level + size * (LINE / 2 + 0.36)
        parts.append(
            text(x, baseline, row, anchor=anchor, weight=weight, size=size, opacity=opacity)
        )
        level += size * LINE
    return "".join(parts)


def _invisible(area: Area) -> str:
    return f'<rect {area.place} fill="none"/>'


def _beside(area: Area, taken: float) -> list[Area]:
    """The areas on both sides of a text, or the whole area if they are too narrow."""
    side = (area.width - taken) / 2
    if side < MIN_HATCHED:
        return [area]
    return [area._replace(x=x, width=side) for x in (area.x, area.x + area.width - side)]


def _hatch(area: Area, style: Style) -> str:
    """Diagonal lines within a rectangle."""
    x, y, width, height = area
    ways = []
    for number in range(1, math.ceil((width + height) / style.hatch)):
        reach = number * style.hatch
        x1, x2 = max(0.0, reach - height), min(reach, width)
        ways.append(f"M{x + x1:.1f} {y + reach - x1:.1f} L{x + x2:.1f} {y + reach - x2:.1f}")
    return f'<path d="{" ".join(ways)}" stroke="{style.color}" stroke-opacity="0.45"/>'


def _head(start: Point, tip: Point) -> tuple[str, Point]:
    """The head of an arrow from `start`, as a path, and its starting point."""
    length = math.dist(start, tip) or 1.0
    dx, dy = (tip[0] - start[0]) / length, (tip[1] - start[1]) / length
    foot = tip[0] - 8 * dx, tip[1] - 8 * dy
    wings = [tip, (foot[0] - 4 * dy, foot[1] + 4 * dx), (foot[0] + 4 * dy, foot[1] - 4 * dx)]
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in wings) + " Z", foot
