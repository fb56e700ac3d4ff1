"""The bar chart of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from benchmarks.throughput.measure import Row, by_contender, spread


def draw(rows: Sequence[Row], caption: str, path: Path) -> None:
    """Draws one bar for each contender: the median, with the range of the repeats as a line."""
    groups = by_contender(rows)
    names = list(dict.fromkeys(name for name, _, _ in groups))
    figure = Figure(figsize=(9, 1.2 + 0.34 * len(groups)), layout="constrained")
    axes = figure.subplots()
    for place, (key, group) in enumerate(groups.items()):
        speeds = spread(group, "examples_per_second")
        assert speeds is not None
        middle = speeds.median
        reach = [[middle - min(speeds.values)], [max(speeds.values) - middle]]
        axes.barh(place, middle, xerr=reach, color=f"C{names.index(key[0])}", ecolor="0.3")
        axes.annotate(
            f"{middle:,.0f}",
            (0, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            color="white",
        )
    labels = [f"{name} · {workers} × {batch}" for name, workers, batch in groups]
    axes.set_yticks(range(len(groups)), labels)
    axes.invert_yaxis()
    axes.set_title("contender · workers × batch of each worker", loc="left", fontsize=9)
    axes.set_xlabel("examples per second, all workers together")
    axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(caption, fontsize=7, color="0.4")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(path)
