"""Pictures of a finished run, as matplotlib figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from helpers.result import TrainingResult


def training_chart(result: TrainingResult) -> Figure:
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
    losses.set(xlabel="step", ylabel="loss", ylim=(0, None))
    speeds.set(xlabel="step", ylabel="examples/s", ylim=(0, None))
    for evaluation in result.evaluations:
        accuracy = evaluation.metrics.get("accuracy")
        if accuracy is not None:
            losses.axvline(evaluation.step, color="gray", linestyle=":")
            losses.annotate(
                f"{accuracy:.1%}",
                (evaluation.step, losses.get_ylim()[1]),
                ha="right",
                va="top",
                color="gray",
            )
    if result.history:
        losses.legend(loc="upper center")
    return figure
