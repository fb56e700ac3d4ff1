"""A finished run as it stays in a notebook, for viewers without widgets."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.course.charts import image
from helpers.course.panel import curves
from helpers.course.panel import fragments as texts
from helpers.course.panel.fault_controls import lines
from helpers.course.panel.fault_timeline import fault_timeline
from helpers.course.panel.run import Run, RunRecord


def static_html(
    run: Run,
    records: Sequence[RunRecord],
    charts: Sequence[str],
    *,
    sweep_position: tuple[int, int] | None,
    has_story: bool,
) -> str:
    """A picture; below it, where there were several runs, their table; and the story.

    Args:
      records: the finished runs of the session.
      charts: names of `helpers.course.panel.curves.CHARTS`.
      sweep_position: which of how many runs of a sweep it was.
      has_story: whether it was run in a laboratory.
    """
    head = texts.headline(run.result, run.batch, sweep_position)
    picture = curves.static_svg(run.result, run.tasks, head, charts, records)
    table = texts.runs_table(records) if len(records) > 1 else ""
    return image(picture, " · ".join(head)) + table + (_fault_log_html(run) if has_story else "")


def _fault_log_html(run: Run) -> str:
    picture = fault_timeline(run.result, [task.name for task in run.tasks])
    return picture._repr_html_() + lines(run.result.fault_log)
