"""A figure of a strategy: the location of its variables, and the traffic of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from helpers import labels
from helpers.course.charts.boxes import Point, arrow, box, canvas
from helpers.i18n import _, join_clauses, join_items
from helpers.results.svg_figure import SvgFigure

WIDTH, HEIGHT, GAP = 1.9, 0.95, 1.2  # a device's box, and the space between two, in inches
REPLICA, VARIABLE, ARROW = "#4c78a8", "#e08214", "#666666"


def placement_chart(
    replicas: Sequence[str], variables: Mapping[str, Sequence[str]], *, in_sync: bool = True
) -> SvgFigure:
    """Draws devices as boxes, with the replicas they compute and the variables they hold.

    If every replica has its own copy, an all-reduce of the gradients keeps the copies equal. If the
    variables are stored elsewhere, replicas fetch values and send gradients.

    Args:
      replicas: the device of each replica, such as "CPU:0" or "worker 1".
      variables: for each variable, the devices that hold it or a copy of it.
      in_sync: whether the replicas run each step together. With parameter servers, each worker runs
        its own steps.
    """
    replicas = list(map(labels.task, replicas))
    variables = {name: list(map(labels.task, devices)) for name, devices in variables.items()}
    computing = list(dict.fromkeys(replicas))
    holding = dict.fromkeys(device for devices in variables.values() for device in devices)
    storing = sorted(device for device in holding if device not in computing)
    width = max(len(computing), len(storing)) * (WIDTH + GAP) - GAP
    height = HEIGHT * (3.2 if storing else 1)
    figure, axes = canvas(width + (1.6 if storing else 0), height)  # room for labels next to arrows
    every = [*computing, *storing]
    lines = {device: _lines(device, replicas, variables, in_sync) for device in every}
    lower = _row(axes, {device: lines[device] for device in computing}, width, 0)
    upper = _row(axes, {device: lines[device] for device in storing}, width, 2.2 * HEIGHT)
    if storing:
        _fetch_and_send(axes, lower, upper)
    elif len(lower) > 1:
        _all_reduce(axes, lower)
    return SvgFigure(figure, label=_describe(replicas, variables, in_sync))


def _lines(
    device: str, replicas: Sequence[str], variables: Mapping[str, Sequence[str]], in_sync: bool
) -> list[tuple[str, str]]:
    """The lines in a device's box, with their colors: its name, its replicas, its variables."""
    numbers = join_items(str(k) for k, other in enumerate(replicas) if other == device)
    held = join_items(name for name, places in variables.items() if device in places)
    lines = [(device, "black")]
    part = _("replica {number}").format(number=numbers) if in_sync else _("its own steps")
    lines += [(part, REPLICA)] * bool(numbers)
    return lines + [(held, VARIABLE)] * bool(held)


def _row(
    axes: Any, boxes: Mapping[str, Sequence[tuple[str, str]]], width: float, bottom: float
) -> list[Point]:
    """Draws a row of boxes, centered in `width`, and returns their lower left corners."""
    indent = (width - len(boxes) * (WIDTH + GAP) + GAP) / 2
    corners = [(indent + k * (WIDTH + GAP), bottom) for k in range(len(boxes))]
    for lines, corner in zip(boxes.values(), corners, strict=True):
        box(axes, corner, (WIDTH, HEIGHT), lines)
    return corners


def _all_reduce(axes: Any, corners: Sequence[Point]) -> None:
    for left, low in corners[:-1]:
        start, middle = left + WIDTH, low + HEIGHT / 2
        arrow(axes, (start, middle), (start + GAP, middle), ARROW, "<->")
        axes.text(start + GAP / 2, middle + 0.1, _("all-reduce"), ha="center", color=ARROW, size=10)


def _fetch_and_send(axes: Any, lower: Sequence[Point], upper: Sequence[Point]) -> None:
    for left, low in lower:
        for other, high in upper:
            for shift, style in ((-0.12, "->"), (0.12, "<-")):
                start = (left + WIDTH / 2 + shift, low + HEIGHT)
                arrow(axes, start, (other + WIDTH / 2 + shift, high), ARROW, style)
    x, y = lower[-1][0] + WIDTH / 2, (lower[-1][1] + HEIGHT + upper[-1][1]) / 2
    text = "\n".join([_("↓ values"), _("↑ gradients")])
    axes.text(x + 0.6, y, text, va="center", ha="left", color=ARROW, size=10)


def _describe(
    replicas: Sequence[str], variables: Mapping[str, Sequence[str]], in_sync: bool
) -> str:
    """The alternative text of the figure."""
    part = _("replica {number} on {device}") if in_sync else _("{device} runs its own steps")
    parts = [part.format(number=number, device=device) for number, device in enumerate(replicas)]
    parts += [
        _("{variable} on {devices}").format(variable=name, devices=join_items(devices))
        for name, devices in variables.items()
    ]
    return join_clauses(parts)
