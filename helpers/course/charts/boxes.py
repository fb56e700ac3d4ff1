"""Boxes and arrows that look the same in every chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN = 0.2  # inches
SHAPE = "round,pad=0,rounding_size=0.1"

Point = tuple[float, float]
"""A point in inches, from the lower left corner."""


def canvas(width: float, height: float) -> tuple[Figure, Any]:
    """A figure and axes without ticks, in inches, with a margin on all sides."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-MARGIN, width + MARGIN), ylim=(-MARGIN, height + MARGIN))
    axes.set_axis_off()
    return figure, axes


def box(
    axes: Any, corner: Point, size: Point, lines: Sequence[tuple[str, str]], edge: str = "black"
) -> None:
    """Draws a box with lines of text below each other, each in its own color.

    Args:
      axes: the axes of `canvas`.
      corner: the lower left corner, in inches.
      size: width and height, in inches.
      lines: the text and the color of each line.
      edge: the color of the edge.
    """
    (left, low), (width, height) = corner, size
    from matplotlib.patches import FancyBboxPatch

    patch = FancyBboxPatch(corner, width, height, boxstyle=SHAPE, fill=False, edgecolor=edge)
    axes.add_patch(patch)
    for k, (text, color) in enumerate(lines):
        y = low + height * (1 - (k + 1) / (len(lines) + 1))
        axes.text(left + width / 2, y, text, ha="center", va="center", color=color, size=11)


def arrow(axes: Any, start: Point, end: Point, color: str, style: str) -> None:
    """Draws an arrow in one of matplotlib's styles, such as "<->".

    Args:
      axes: the axes of `canvas`.
      start, end: points, in inches.
    """
    axes.annotate("", end, start, arrowprops={"arrowstyle": style, "color": color})
