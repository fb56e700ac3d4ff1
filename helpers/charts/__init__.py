"""Pictures of ideas and of results, as a notebook shows them."""

from __future__ import annotations

from helpers.charts.picture import Picture, image
from helpers.charts.placement import placement_chart
from helpers.charts.roles import roles_chart
from helpers.charts.shards import shards_chart

__all__ = ["Picture", "image", "placement_chart", "roles_chart", "shards_chart"]
