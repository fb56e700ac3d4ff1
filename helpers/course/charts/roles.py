"""A figure of the connections in a cluster."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from helpers.course.charts.boxes import Point, arrow, box, canvas
from helpers.i18n import _, join_items
from helpers.results.svg_figure import SvgFigure
from helpers.tf_config import EVALUATOR, PS, TFConfig

WIDTH, HEIGHT, GAP = 1.9, 0.7, 0.5  # a box, and the space next to it, in inches
NETWORK, FILES = "tab:blue", "tab:orange"


def roles_chart(configs: Sequence[TFConfig]) -> SvgFigure:
    """Draws the tasks of a cluster, their connections, and their shared folder.

    Network traffic is blue: gradients between neighbors of a ring or, with parameter servers,
    values and gradients. Files are orange: the chief writes checkpoints into `model_dir`, and the
    evaluator reads them.

    Args:
      configs: the `TF_CONFIG` of every process of one cluster, as returned by
        `helpers.tf_config.build_tf_configs`.
    """
    first = configs[0]
    evaluators = [config.task for config in configs if config.task.type == EVALUATOR]
    upper = [task for task in first.tasks if task.type == PS]
    lower = [task for task in first.tasks if task.type != PS]
    columns = max(len(upper), len(lower), 2)
    size = columns * (WIDTH + GAP) - GAP, (2.6 + 1.6 * bool(upper)) * HEIGHT
    figure, axes = canvas(*size)

    places = {task: (k * (WIDTH + GAP), 1.6 * HEIGHT) for k, task in enumerate(lower)}
    places |= {task: (k * (WIDTH + GAP), 3.2 * HEIGHT) for k, task in enumerate(upper)}
    for task, corner in places.items():
        _box(axes, corner, f"{task.label}\n{first.address_of(task)}")
    _box(axes, (0, 0), "model_dir", FILES)
    for server in upper:
        for task in lower:
            arrow(axes, _top(places[task]), _bottom(places[server]), NETWORK, "<->")
    if not upper:
        for left, right in itertools.pairwise(lower):
            arrow(axes, _right(places[left]), _left(places[right]), NETWORK, "<->")
    arrow(axes, _bottom(places[first.chief]), _top((0, 0)), FILES, "->")
    for task in evaluators:
        _box(axes, (WIDTH + GAP, 0), task.label)
        arrow(axes, _right((0, 0)), _left((WIDTH + GAP, 0)), FILES, "->")
    place = _("{task} ({address})")
    names = [place.format(task=one.label, address=first.address_of(one)) for one in first.tasks]
    names += ["model_dir", *(task.label for task in evaluators)]
    return SvgFigure(figure, join_items(names))


def _box(axes: Any, corner: Point, text: str, color: str = "black") -> None:
    box(axes, corner, (WIDTH, HEIGHT), [(text, color)], color)


def _top(corner: Point) -> Point:
    return corner[0] + WIDTH / 2, corner[1] + HEIGHT


def _bottom(corner: Point) -> Point:
    return corner[0] + WIDTH / 2, corner[1]


def _left(corner: Point) -> Point:
    return corner[0], corner[1] + HEIGHT / 2


def _right(corner: Point) -> Point:
    return corner[0] + WIDTH, corner[1] + HEIGHT / 2
