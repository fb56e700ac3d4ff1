"""The chart of a project: measured values next to the values of a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from helpers.course.charts.plot import (
    BLUE,
    ORANGE,
    WIDTH,
    Key,
    Plot,
    Scale,
    circle,
    legend,
    text_width,
)
from helpers.course.charts.svg import Drawing, Line, nice_ceiling, text
from helpers.errors import ConfigError
from helpers.i18n import _, join_clauses, join_items, join_sentences, labeled, number

LEFT, TOP, HEIGHT, GAP = 44, 104, 150, 62
Points = Sequence[tuple[float, float]]


class Panel(NamedTuple):
    """One quantity, for several numbers of processes, or values of another symbol.

    Attributes:
      name: the quantity with its unit, such as "MB sent".
      formula: the formula as text, such as "2(N−1)/N · 1.4".
      expected, measured: pairs of a number of processes and a value.
      symbol: the letter that stands for that number.
    """

    name: str
    formula: str
    expected: Points
    measured: Points
    symbol: str = "N"


def megabytes(size: float, spec: str = ".3g") -> str:
    """A number of MB with its unit, for a formula."""
    return _("{count} MB").format(count=number(size, spec))


def milliseconds(time: float) -> str:
    """A number of milliseconds with its unit, for a formula."""
    return _("{count} ms").format(count=number(time, "g"))


def draw(title: str, panels: Sequence[Panel]) -> Drawing:
    """The panels side by side. The alternative text has all numbers."""
    width = (WIDTH - LEFT - GAP * (len(panels) - 1)) / len(panels)
    parts = [text(0, 14, title, weight=600), *_legend(0, 36)]
    for place, panel in enumerate(panels):
        parts.append(_panel(panel, LEFT + place * (width + GAP), width))
    label = join_sentences([f"{title}.", *(f"{_label(panel)}." for panel in panels)])
    return Drawing(WIDTH + 12, TOP + HEIGHT + 42, "".join(parts), label)


def _panel(panel: Panel, left: float, width: float) -> str:
    values = [value for _count, value in (*panel.expected, *panel.measured)]
    top = nice_ceiling(max(values))
    counts = [count for count, _value in panel.expected]
    ticks = {share * top: number(share * top, ",.4g") for share in (0.0, 0.5, 1.0)}
    x = Scale(
        _("processes") if panel.symbol == "N" else panel.symbol,
        0,
        max(counts) + 1,
        {count: f"{count:g}" for count in counts},
    )
    plot = Plot(left, TOP, width, HEIGHT, x, Scale("", 0, top, ticks))
    name = text(left - 40, TOP - 34, panel.name, weight=600)
    formula = text(left - 40, TOP - 17, panel.formula, size=11, opacity=0.8)
    line = plot.curve(Line("", ORANGE, [panel.expected], dash="5 3"))
    dots = "".join(plot.dot(count, value, BLUE) for count, value in panel.measured)
    return plot.frame() + name + formula + line + dots


def _legend(left: float, middle: float) -> list[str]:
    measured = _("measured")
    right = left + 18 + text_width(measured) + 18
    return [
        circle(left + 6, middle, BLUE),
        text(left + 18, middle + 4, measured),
        legend([Key(_("formula"), ORANGE, "5 3")], right, middle),
    ]


def _label(panel: Panel) -> str:
    expected = dict(panel.expected)
    measured = _("{value} with {symbol} = {count} (formula {expected})")
    items = [
        measured.format(
            symbol=panel.symbol,
            count=f"{count:g}",
            value=number(value, ",.4g"),
            expected=number(expected[count], ",.4g"),
        )
        for count, value in panel.measured
    ]
    joined = (join_clauses if any("," in item for item in items) else join_items)(items)
    return labeled(panel.name, joined)


def not_measured(name: str, symbol: str, value: int) -> ConfigError:
    """The error if a module does not work for a value of the symbol on the x-axis."""
    message = _(
        "Nothing was measured, because the module does not work with {symbol} = {value} yet. "
        'Run check("{name}") first, and fix what it reports.'
    )
    return ConfigError(message.format(symbol=symbol, value=value, name=name))
