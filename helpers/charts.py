"""Pictures of a finished run."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.figure import Figure

from helpers.i18n import _, number

if TYPE_CHECKING:
    from helpers.result import TrainingResult


class Picture:
    """A matplotlib figure that a notebook shows as SVG.

    Its text stays text, in the fonts of the browser, which has glyphs for every script;
    matplotlib's own fonts have none for Chinese or Korean.
    """

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def _repr_svg_(self) -> str:
        buffer = io.StringIO()
        with (
            warnings.catch_warnings(),
            matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lesson"}),
        ):
            # matplotlib measures text with its own fonts; the browser draws it with others.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            self.figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()

    def __repr__(self) -> str:
        return f"Picture({len(self.figure.axes)} axes)"


def training_chart(result: TrainingResult) -> Picture:
    """Loss and throughput of each worker over the global step.

    A restart shows as a line that goes back to the checkpoint; evaluations are marked with
    their accuracy. The figure belongs to no pyplot state, so any thread may draw it.
    """
    figure = Figure(figsize=(9, 3), layout="constrained")
    losses, speeds = figure.subplots(1, 2)
    for name, points in result.history.items():
        steps = [point.step for point in points]
        losses.plot(steps, [point.loss for point in points], label=name, linewidth=1)
        speeds.plot(
            steps,
            [point.examples_per_second or float("nan") for point in points],
            label=name,
            linewidth=1,
        )
    losses.set(xlabel=_("step"), ylabel=_("loss"), ylim=(0, None))
    speeds.set(xlabel=_("step"), ylabel=_("examples/s"), ylim=(0, None))
    for evaluation in result.evaluations:
        accuracy = evaluation.metrics.get("accuracy")
        if accuracy is not None:
            losses.axvline(evaluation.step, color="gray", linestyle=":")
            losses.annotate(
                number(accuracy, ".1%"),
                (evaluation.step, losses.get_ylim()[1]),
                ha="right",
                va="top",
                color="gray",
            )
    if result.history:
        losses.legend(loc="upper center")
    return Picture(figure)
