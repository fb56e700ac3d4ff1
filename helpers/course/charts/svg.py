"""SVG drawings built from strings, fast enough to be redrawn while a slider moves.

Lines and letters use `currentColor`, so that they suit light and dark pages. The browser's fonts
draw the letters, so that every script has its glyphs. All text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple
from unicodedata import east_asian_width

from helpers.i18n import number
from helpers.results.svg_figure import image

CHART = 430, 210
MAX_CHAR_WIDTH = 7.0  # the maximum width of a letter in pixels
FULL_WIDTH = 1.8  # letters
FONT = 'font-family="system-ui, sans-serif" font-size="12"'
AXIS = ",.7g"  # the format of numbers on an axis: 12,500, 468, 1.25
INK, PAPER, FRAME = "#24292f", "#ffffff", "#d0d7de"
LEGEND_ROW = 15  # pixels
MARGIN = 16  # pixels around a drawing


class Drawing(NamedTuple):
    """A drawing: its size in pixels, its SVG elements, and its alternative text."""

    width: float
    height: float
    body: str
    label: str

    def __repr__(self) -> str:
        return f"Drawing({self.label})"

    def svg(self) -> str:
        """An `<svg>` element that shrinks with its page."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'role="img" aria-label="{escape(self.label)}" fill="currentColor" {FONT} '
            f'style="width:100%;max-width:{self.width:g}px;height:auto;display:block">'
            f"{self.body}</svg>"
        )

    def standalone_svg(self) -> str:
        """A standalone `<svg>` with a background."""
        width, height = self.width + 2 * MARGIN, self.height + 2 * MARGIN
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(self.label)}" '
            f'color="{INK}" fill="{INK}" {FONT}>'
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{PAPER}" '
            f'stroke="{FRAME}"/>{self.translated(MARGIN, MARGIN)}</svg>'
        )

    def _repr_html_(self) -> str:
        return image(self.standalone_svg(), self.label)

    def translated(self, x: float, y: float) -> str:
        """The elements as a part of a larger drawing, moved by `x` and `y` pixels."""
        return f'<g transform="translate({x:g} {y:g})">{self.body}</g>'


class Line(NamedTuple):
    """A curve in one or more pieces, and its style."""

    name: str
    color: str
    pieces: Sequence[Sequence[tuple[float, float]]]
    width: float = 2.0
    dash: str = ""


class Axes:
    """A plot of lines from (0, 0) to (x_max, y_max) with grid, labels, title and legend."""

    def __init__(
        self, title: str, x_label: str, x_max: float, y_max: float, lines: Sequence[Line] = ()
    ) -> None:
        self.title, self.x_label = title, x_label
        self.x_max, self.y_max = x_max, y_max
        self.lines = lines
        self.width, self.height = CHART
        self.left, self.right, self.top, self.bottom = 54, 12, 34, 34
        self._legend = self._rows()
        self.top += LEGEND_ROW * max(0, len(self._legend) - 1)

    def x(self, value: float) -> float:
        """The pixel of an abscissa."""
        return self.left + (self.width - self.left - self.right) * value / self.x_max

    def y(self, value: float) -> float:
        """The pixel of an ordinate. Values above the plot are drawn at its upper edge."""
        share = min(value / self.y_max, 1.0)
        return self.height - self.bottom - (self.height - self.top - self.bottom) * share

    def frame(self) -> str:
        """The grid, the numbers and the title."""
        parts = [text(0, 14, self.title, weight=600)]
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            level = self.y(share * self.y_max)
            opacity = 0.35 if share == 0 else 0.12
            parts.append(
                straight_line(self.left, level, self.width - self.right, level, opacity=opacity)
            )
            if share in (0.0, 0.5, 1.0):
                label = number(share * self.y_max, AXIS)
                parts.append(text(self.left - 8, level + 4, label, anchor="end", opacity=0.7))
            place, label = self.x(share * self.x_max), number(share * self.x_max, AXIS)
            anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
            if share in (0.0, 0.5, 1.0):
                parts.append(text(place, self.height - 18, label, anchor=anchor, opacity=0.7))
        middle = (self.left + self.width - self.right) / 2
        parts.append(text(middle, self.height - 3, self.x_label, anchor="middle", opacity=0.7))
        return "".join(parts)

    def curve(self, line: Line) -> str:
        """A line, with a dot at its end."""
        parts = []
        for piece in line.pieces:
            points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in piece)
            parts.append(
                f'<polyline class="mwl-curve" fill="none" stroke="{line.color}" '
                f'stroke-width="{line.width:g}" stroke-dasharray="{line.dash}" '
                f'stroke-linejoin="round" points="{points}"/>'
            )
        if line.pieces and line.pieces[-1]:
            x, y = line.pieces[-1][-1]
            parts.append(
                f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3" fill="{line.color}"/>'
            )
        return "".join(parts)

    def legend(self) -> str:
        """The names of the lines at the upper right, next to the title, or below a long title."""
        letters = sum(row.letters for row in self._legend) + 1.2 * _letters(self.title)
        first = 14 if letters * MAX_CHAR_WIDTH < self.width else 14 + LEGEND_ROW
        return "".join(
            f'<text x="{self.width - self.right}" y="{first + LEGEND_ROW * k}" text-anchor="end">'
            f"{escape(row.common)} {row.spans}</text>"
            for k, row in enumerate(self._legend)
        )

    def render(self, extra: str = "") -> Drawing:
        """The finished drawing."""
        body = self.frame() + self.legend() + extra + "".join(map(self.curve, self.lines))
        return Drawing(self.width, self.height, body, self.title)

    def _rows(self) -> list[_LegendRow]:
        """The rows of the legend."""
        common, names = _shared_label([line.name for line in self.lines])
        rows = [_LegendRow(common, "", _letters(common))]
        for line, name in zip(self.lines, names, strict=True):
            span = f'<tspan fill="{line.color}" dx="8">● {escape(name)}</tspan>'
            before, letters = rows[-1], _letters(name) + 5
            if before.spans and (before.letters + letters) * MAX_CHAR_WIDTH > self.width:
                rows.append(_LegendRow("", span, letters))
            else:
                spans = f"{before.spans} {span}" if before.spans else span
                rows[-1] = _LegendRow(before.common, spans, before.letters + letters)
        return rows


class _LegendRow(NamedTuple):
    """The common first word of its names, the names, and its width in letters."""

    common: str
    spans: str
    letters: float


def _letters(content: str) -> float:
    """The width of a text in Latin letters. A Chinese or Korean character is square."""
    return sum(FULL_WIDTH if east_asian_width(char) in "WF" else 1 for char in content)


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "start",
    weight: int = 400,
    opacity: float = 1.0,
    size: float = 12,
) -> str:
    """An SVG text element with escaped content."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'font-size="{size:g}" opacity="{opacity:g}">{escape(content)}</text>'
    )


def straight_line(
    x1: float, y1: float, x2: float, y2: float, *, opacity: float = 0.45, dash: str = ""
) -> str:
    """A thin straight line."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" '
        f'stroke-dasharray="{dash}" opacity="{opacity:g}"/>'
    )


def _shared_label(names: Sequence[str]) -> tuple[str, list[str]]:
    """Splits names that begin with the same word into that word and the rest of each name."""
    words = [name.partition(" ")[0] for name in names]
    if len(names) < 3:
        return "", list(names)
    if len(set(words)) == 1:
        return words[0], [name.partition(" ")[2] for name in names]
    # If a chief precedes the workers, a word appears only with its first name.
    repeated = [word == before for before, word in zip([None, *words], words, strict=False)]
    return "", [
        name.partition(" ")[2] if again else name
        for name, again in zip(names, repeated, strict=True)
    ]


def nice_ceiling(value: float) -> float:
    """The next round number from `value` up: 1, 2, 2.5, 4, 5 times a power of ten.

    >>> nice_ceiling(2.3), nice_ceiling(17_200)
    (2.5, 20000.0)
    """
    if not math.isfinite(value) or value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 2, 2.5, 4, 5, 10) if m * power >= value * 0.999)
