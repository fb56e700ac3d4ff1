"""The chart of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from helpers import labels
from helpers.compare.runs import Run, distance
from helpers.i18n import _
from helpers.results.svg_figure import SvgFigure

SMALLEST = 1e-9  # the smallest distance on a logarithmic axis


def comparison_chart(runs: Sequence[Run], tolerance: float, label: str) -> SvgFigure:
    """The loss over the steps for each group size, and its distance from the first group.

    Args:
      runs: the first one is the reference.
      tolerance: the largest distance of equal numbers.
      label: the alternative text.
    """
    figure = Figure(figsize=(9, 3), layout="constrained")
    losses, distances = figure.subplots(1, 2)
    reference = runs[0].losses
    for run in runs:
        name = labels.workers(run.workers)
        steps = range(1, len(run.losses) + 1)
        losses.plot(steps, run.losses, label=name, linewidth=1)
        if run is not runs[0]:
            pairs = zip(reference, run.losses, strict=False)
            found = [max(distance(one, other), SMALLEST) for one, other in pairs]
            finite = [value if math.isfinite(value) else math.nan for value in found]
            distances.plot(range(1, len(finite) + 1), finite, label=name, linewidth=1)
    distances.axhline(tolerance, color="gray", linestyle=":", label=_("tolerance"))
    losses.set(xlabel=_("step"), ylabel=_("loss"))
    distances.set(xlabel=_("step"), ylabel=_("difference of the loss"), yscale="log")
    losses.legend()
    distances.legend()
    return SvgFigure(figure, label)
