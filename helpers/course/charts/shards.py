"""A chart of the examples that each worker read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from helpers.i18n import _, join_clauses, labeled
from helpers.results.svg_figure import SvgFigure

COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")


def shards_chart(readings: Mapping[str, Sequence[Sequence[int]]], examples: int) -> SvgFigure:
    """For each way of sharding, draws the examples in the colors of the workers that read them.

    An example read by several workers has several colors. An example read by no worker is empty.

    Args:
      readings: for each way of sharding, the numbers of the examples that each worker read.
      examples: the number of examples, which are numbered from 0.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    workers = max(len(parts) for parts in readings.values())
    figure = Figure(figsize=(1.6 + 0.42 * examples, 0.5 * len(readings) + 0.55))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-4, examples), ylim=(-len(readings), 1.1))
    axes.set_axis_off()
    for row, (way, parts) in enumerate(readings.items()):
        axes.text(-0.3, -row - 0.5, way, ha="right", va="center")
        for example in range(examples):
            readers = [worker for worker, part in enumerate(parts) if example in part]
            for k, worker in enumerate(readers):
                corner = (example, -row - 0.9 + 0.8 * k / len(readers))
                axes.add_patch(Rectangle(corner, 0.9, 0.8 / len(readers), color=COLORS[worker]))
            if not readers:
                axes.add_patch(Rectangle((example, -row - 0.9), 0.9, 0.8, fill=False))
            middle = (example + 0.45, -row - 0.5)
            color = "white" if readers else "black"
            axes.text(*middle, str(example), ha="center", va="center", color=color)
    for worker in range(workers):
        axes.add_patch(Rectangle((3 * worker, 0.35), 0.4, 0.4, color=COLORS[worker]))
        name = _("worker {number}").format(number=worker)
        axes.text(3 * worker + 0.6, 0.55, name, va="center")
    label = join_clauses(
        labeled(way, [list(part) for part in parts]) for way, parts in readings.items()
    )
    return SvgFigure(figure, label)
