"""A plot with named linear or logarithmic axes, and marks that do not depend on color."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from helpers.course.charts.shards import COLORS
from helpers.course.charts.svg import MARGIN, MAX_CHAR_WIDTH, Line, straight_line, text

WIDTH = 760
BLUE, ORANGE, GREEN, PURPLE = COLORS
WIDE = 12.5  # the width of a Chinese or Korean letter in pixels
BOLD_WIDTH_FACTOR = 1.1  # the factor of the width of bold letters
HATCH = 5.0  # pixels between the lines of a hatch

Points = Sequence[tuple[float, float]]


class Scale(NamedTuple):
    """An axis.

    Attributes:
      name: the quantity, with the unit.
      low, high: the ends of the axis, at which values beyond them are drawn.
      ticks: the positions and labels of the ticks.
      log: whether the axis is logarithmic.
    """

    name: str
    low: float
    high: float
    ticks: Mapping[float, str]
    log: bool = False

    def share(self, value: float) -> float:
        """The relative position of a value: from 0 at `low` to 1 at `high`."""
        if self.log:
            value = max(value, self.low)
            found = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            found = (value - self.low) / (self.high - self.low)
        return min(max(found, 0.0), 1.0)


class Plot:
    """A plot in a rectangle of a drawing, with the names and numbers of its axes outside.

    Args:
      left, top, width, height: the rectangle, in pixels.
    """

    def __init__(  # noqa: PLR0917
        self, left: float, top: float, width: float, height: float, x: Scale, y: Scale
    ) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.right, self.bottom = left + width, top + height
        self._x, self._y = x, y

    def x(self, value: float) -> float:
        """The pixel of an abscissa."""
        return self.left + self.width * self._x.share(value)

    def y(self, value: float) -> float:
        """The pixel of an ordinate."""
        return self.bottom - self.height * self._y.share(value)

    def frame(self) -> str:
        """The grid, with the numbers and names of both axes. The name of y is above the axis."""
        parts = [straight_line(self.left, self.bottom, self.right, self.bottom, opacity=0.45)]
        for value, label in self._y.ticks.items():
            level = self.y(value)
            parts.append(straight_line(self.left, level, self.right, level, opacity=0.14))
            parts.append(text(self.left - 7, level + 4, label, anchor="end", size=11, opacity=0.8))
        for value, label in self._x.ticks.items():
            place = self.x(value)
            parts.append(straight_line(place, self.bottom, place, self.bottom + 4))
            parts.append(
                text(place, self.bottom + 17, label, anchor="middle", size=11, opacity=0.8)
            )
        middle = self.left + self.width / 2
        parts.append(text(middle, self.bottom + 35, self._x.name, anchor="middle", opacity=0.8))
        parts.append(text(self.left - 40, self.top - 12, self._y.name, weight=600))
        return "".join(parts)

    def curve(self, line: Line, opacity: float = 1.0) -> str:
        """A line in one piece or several."""
        return "".join(
            f'<polyline fill="none" stroke="{line.color}" stroke-width="{line.width:g}" '
            f'stroke-dasharray="{line.dash}" stroke-linejoin="round" opacity="{opacity:g}" '
            f'points="{" ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in piece)}"/>'
            for piece in line.pieces
        )

    def dot(self, x: float, y: float, color: str, radius: float = 4.5) -> str:
        """A filled circle, with a rim that separates it from a line below."""
        return circle(self.x(x), self.y(y), color, radius)

    def upright(
        self,
        x: float,
        label: str,
        *,
        row: int = 0,
        low: bool = False,
        before: bool = False,
        dash: str = "4 3",
    ) -> str:
        """A vertical line with a label at its end, to the right if there is room.

        Args:
          row: the row of the label. Labels of adjacent lines have separate rows.
          low: whether the label is at the lower end.
          before: whether the label is to the left of the line, if there is room.
        """
        place = self.x(x)
        level = self.bottom - 10 - 16 * row if low else self.top + 12 + 16 * row
        needed = 6 + BOLD_WIDTH_FACTOR * text_width(label)
        fits_before, fits_after = place - needed > self.left, place + needed < self.right + MARGIN
        before = fits_before and (before or not fits_after)
        aside, anchor = (-6, "end") if before else (6, "start")
        line = straight_line(place, self.top, place, self.bottom, opacity=0.8, dash=dash)
        return line + text(place + aside, level, label, anchor=anchor, weight=600)


def circle(x: float, y: float, color: str, radius: float = 4.5) -> str:
    """A filled circle at a pixel, with a rim."""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{color}" '
        'stroke="currentColor" stroke-width="1.2"/>'
    )


def text_width(content: str) -> float:
    """The maximum width in pixels of a text with a font size of 12 pixels."""
    return sum(WIDE if unicodedata.east_asian_width(c) in "WF" else MAX_CHAR_WIDTH for c in content)


def band(x: float, y: float, width: float, height: float, color: str, *, kind: int) -> str:
    """A filled rectangle. Kind 0 is full, 1 is hatched, and 2 is light."""
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    opacity = (1, 0.3, 0.3)[kind]
    found = f'<rect {shape} fill="{color}" fill-opacity="{opacity}" stroke="{color}"/>'
    if kind == 1:
        places = _hatching(x, x + width)
        found += _uprights([(place, y, y + height) for place in places], color)
    return found


def area(plot: Plot, lower: Points, upper: Points, color: str, *, kind: int) -> str:
    """The area between two curves over the same abscissae, filled as in `band`."""
    edge = [(plot.x(x), plot.y(y)) for x, y in upper]
    foot = [(plot.x(x), plot.y(y)) for x, y in lower]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*edge, *reversed(foot)])
    opacity = (1, 0.3, 0.3)[kind]
    found = f'<polygon points="{points}" fill="{color}" fill-opacity="{opacity}"/>'
    if kind == 1:
        lines = [(x, top, low) for (x, top), (_x, low) in zip(edge, foot, strict=True)]
        found += _uprights(lines, color)
    return found


class Key(NamedTuple):
    """An entry of a legend: a piece of a line, or a box of the kind of a `band`."""

    name: str
    color: str
    dash: str | None = None
    kind: int = 0


def legend(keys: Iterable[Key], left: float, top: float, width: float = WIDTH) -> str:
    """Entries side by side, in as many rows as their texts need."""
    parts, x, y = [], left, top
    for key in keys:
        needed = 28 + text_width(key.name) + 18
        if x > left and x + needed > left + width:
            x, y = left, y + 18
        parts.append(_sample(key, x, y) + text(x + 28, y + 4, key.name))
        x += needed
    return "".join(parts)


def written(x: float, y: float, content: str, color: str, **style: float | str) -> str:
    """A text in a separate color."""
    return f'<g fill="{escape(color)}">{text(x, y, content, **style)}</g>'  # type: ignore[arg-type]


def _sample(key: Key, x: float, y: float) -> str:
    if key.dash is None:
        return band(x, y - 6, 20, 12, key.color, kind=key.kind)
    return (
        f'<line x1="{x:.1f}" x2="{x + 22:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{key.color}" '
        f'stroke-width="2.5" stroke-dasharray="{key.dash}"/>'
    )


def _hatching(left: float, right: float) -> list[float]:
    return [left + HATCH * (k + 0.5) for k in range(int((right - left) / HATCH))]


def _uprights(lines: Iterable[tuple[float, float, float]], color: str) -> str:
    way = "".join(f"M{x:.1f} {top:.1f}V{bottom:.1f}" for x, top, bottom in lines)
    return f'<path d="{way}" stroke="{color}" stroke-width="1.4"/>'
