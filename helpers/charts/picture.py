"""Pictures of a finished run."""

from __future__ import annotations

import base64
import io
import math
import warnings
from html import escape
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.i18n import _, number

if TYPE_CHECKING:
    from helpers.results.training_result import TrainingResult

METADATA = ("Creator", "Date", "Format", "Type")  # left out: a picture is the same every time


def image(svg: str, label: str) -> str:
    """A drawing as an HTML image, in which the browser's fonts draw the text.

    JupyterLab shows no SVG output of a notebook that it does not trust, as of one just cloned,
    and some viewers strip SVG of its styles and text
    (https://github.com/jupyter/nbviewer/issues/1037). An image they leave as it is.

    Args:
      svg: of a size of its own.
      label: what it shows, in words.
    """
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(label)}" src="data:image/svg+xml;base64,{data}">'


class Picture:
    """A matplotlib figure that a notebook shows as SVG.

    Its text stays text, in the fonts of the browser, which has glyphs for every script;
    matplotlib's own fonts have none for Chinese or Korean.

    Args:
      figure: what to show.
      label: what it shows, in words, for those who cannot see it.
    """

    def __init__(self, figure: Figure, label: str = "") -> None:
        self.figure = figure
        self.label = label

    def svg(self) -> str:
        """The drawing, the same for the same figure."""
        buffer = io.StringIO()
        with (
            warnings.catch_warnings(),
            matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lesson"}),
        ):
            # matplotlib measures text with its own fonts; the browser draws it with others.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            self.figure.savefig(buffer, format="svg", metadata=dict.fromkeys(METADATA))
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        return image(self.svg(), self.label)

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
        rates = [point.examples_per_second or float("nan") for point in points]
        losses.plot(steps, [point.loss for point in points], label=name, linewidth=1)
        speeds.plot(steps, rates, label=name, linewidth=1)
    losses.set(xlabel=_("step"), ylabel=_("loss"), ylim=(0, None))
    speeds.set(xlabel=_("step"), ylabel=_("examples/s"), ylim=(0, None))
    for axis in (losses.xaxis, losses.yaxis, speeds.xaxis, speeds.yaxis):
        axis.set_major_formatter(lambda value, _position: number(value, ",.7g"))
    _mark_evaluations(losses, result)
    if result.history:
        losses.legend(loc="upper center")
    return Picture(figure, repr(result))


def _mark_evaluations(losses: Axes, result: TrainingResult) -> None:
    """A dotted line at each evaluation; the accuracy at the last ones, as far as there is room."""
    room = math.inf
    width = (result.total_steps or result.steps) / 8  # of a label, in steps
    for step, metrics in reversed(result.evaluations):
        if "accuracy" in metrics:
            losses.axvline(step, color="gray", linestyle=":")
        if "accuracy" in metrics and room - step > width:
            room = step
            place = step, losses.get_ylim()[1]
            label = number(metrics["accuracy"], ".1%")
            losses.annotate(label, place, ha="right", va="top", color="gray")
