"""Charts of ideas and of results for notebooks."""

from __future__ import annotations

from helpers.course.charts.placement import placement_chart
from helpers.course.charts.roles import roles_chart
from helpers.course.charts.shards import shards_chart
from helpers.results.svg_figure import SvgFigure, image

__all__ = ["SvgFigure", "image", "placement_chart", "roles_chart", "shards_chart"]
