"""A finished run as it stays in a notebook, for viewers without widgets."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.charts import image
from helpers.panel import curves
from helpers.panel import html as texts
from helpers.panel.laboratory import lines
from helpers.panel.run import Run, RunRecord
from helpers.panel.story_picture import story_picture


def stored(
    run: Run,
    records: Sequence[RunRecord],
    charts: Sequence[str],
    *,
    turn: tuple[int, int] | None,
    has_story: bool,
) -> str:
    """A picture; below it, where there were several runs, their table; and the story.

    Args:
      records: the finished runs of the session.
      charts: names of `helpers.panel.curves.CHARTS`.
      turn: which of how many runs of a sweep it was.
      has_story: whether it was run in a laboratory.
    """
    head = texts.headline(run.result, run.batch, turn)
    picture = curves.poster(run.result, run.tasks, head, charts, records)
    table = texts.runs_table(records) if len(records) > 1 else ""
    return image(picture, " · ".join(head)) + table + (_told(run) if has_story else "")


def _told(run: Run) -> str:
    picture = story_picture(run.result, [task.name for task in run.tasks])
    return picture._repr_html_() + lines(run.result.story)
