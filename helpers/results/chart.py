"""The chart of a finished run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers import labels
from helpers.i18n import _, number
from helpers.results.history import Evaluation, StepReport
from helpers.results.svg_figure import SvgFigure


def training_chart(
    history: Mapping[str, Sequence[StepReport]],
    evaluations: Sequence[Evaluation],
    last_step: int,
    label: str,
) -> SvgFigure:
    """Loss and throughput of each worker over the global step.

    A restart appears as a line that returns to the checkpoint, and evaluations are marked with
    their accuracy. The figure is independent of pyplot's state, so any thread may draw it.

    Args:
      history: the reports of each process that trained, by its name.
      evaluations: the evaluations in order of time.
      last_step: the requested number of global steps.
      label: the alternative text.
    """
    figure = Figure(figsize=(9, 3), layout="constrained")
    losses, speeds = figure.subplots(1, 2)
    for name, points in history.items():
        steps = [point.step for point in points]
        rates = [point.examples_per_second or float("nan") for point in points]
        losses.plot(steps, [point.loss for point in points], label=labels.task(name), linewidth=1)
        speeds.plot(steps, rates, label=labels.task(name), linewidth=1)
    losses.set(xlabel=_("step"), ylabel=_("loss"), ylim=(0, None))
    speeds.set(xlabel=_("step"), ylabel=_("examples/s"), ylim=(0, None))
    for axis in (losses.xaxis, losses.yaxis, speeds.xaxis, speeds.yaxis):
        axis.set_major_formatter(lambda value, _position: number(value, ",.7g"))
    _mark_evaluations(losses, evaluations, last_step)
    if history:
        speeds.legend(loc="lower center")  # above the losses are the accuracies
    return SvgFigure(figure, label)


def _mark_evaluations(losses: Axes, evaluations: Sequence[Evaluation], last_step: int) -> None:
    """Draws a dotted line at each evaluation, and the latest accuracies that have room."""
    room = math.inf
    width = last_step / 8  # the width of a label, in steps
    for evaluation in reversed(evaluations):
        step = evaluation.step
        if evaluation.accuracy is None:
            continue
        losses.axvline(step, color="gray", linestyle=":")
        if room - step > width:
            room = step
            place = step, losses.get_ylim()[1]
            label = number(evaluation.accuracy, ".1%")
            losses.annotate(label, place, ha="right", va="top", color="gray")
