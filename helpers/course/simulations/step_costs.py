"""The parts of a step's time and the gain of more workers, by the α–β model of `cost_model`."""

from __future__ import annotations

from typing import NamedTuple

from helpers import labels
from helpers.course.charts.plot import (
    BLUE,
    GREEN,
    ORANGE,
    WIDTH,
    Key,
    Plot,
    Scale,
    band,
    legend,
)
from helpers.course.charts.svg import Drawing, Line, text
from helpers.course.cost_model import CostModel
from helpers.course.simulations.controls import format_value, slider
from helpers.course.simulations.number_format import duration, percent
from helpers.course.simulations.simulation import Simulation, View
from helpers.i18n import _, join_phrases, join_sentences, labeled, ngettext, number

WORKERS = tuple(2**power for power in range(9))  # 1 … 256
MEGABYTES = 0.3, 1.4, 5, 10, 25, 50, 100, 250, 500, 1000  # the first two are the course's networks
GIGABITS = 0.1, 0.25, 1, 2.5, 10, 25, 50, 100, 200, 400
MICROSECONDS = 0, 1, 5, 10, 25, 50, 100, 250, 1000, 2500
MILLISECONDS = 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000


class StepCost(NamedTuple):
    """A step for a number of workers: the seconds of its parts, and its efficiency from 0 to 1."""

    compute: float
    bytes: float
    latency: float
    efficiency: float

    @property
    def seconds(self) -> float:
        """The seconds of the whole step."""
        return self.compute + self.bytes + self.latency


def simulation() -> Simulation:
    """The time of a step by workers, size of the gradients, network and computation."""
    return Simulation(
        _("Cost of a step by number of workers"),
        draw,
        {
            "workers": slider(_("Workers"), WORKERS, 8),
            "megabytes": slider(_("Gradients, MB"), MEGABYTES, 25),
            "gigabits": slider(_("Bandwidth of a link, Gbit/s"), GIGABITS, 10),
            "microseconds": slider(_("Latency of a message, µs"), MICROSECONDS, 100),
            "milliseconds": slider(_("Computation of a step, ms"), MILLISECONDS, 100),
        },
    )


def cost(
    workers: int, megabytes: float, gigabits: float, microseconds: float, milliseconds: float
) -> StepCost:
    """A step by `CostModel`, with separate links and a constant batch per worker.

    Raises:
      ConfigError: `workers` is not a positive integer.
    """
    size, bandwidth = megabytes * 1e6, gigabits * 1e9
    model = CostModel(compute=milliseconds / 1e3, latency=microseconds / 1e6)
    wire = CostModel(compute=0).all_reduce_seconds(workers, size, bandwidth)
    latency = model.all_reduce_seconds(workers, size, bandwidth) - wire
    return StepCost(model.compute, wire, latency, model.efficiency(workers, size, bandwidth))


def draw(workers: int, **network: float) -> View:
    """The parts of the step, the efficiency over workers, and a text about both.

    Args:
      network: arguments of `cost`: megabytes, gigabits, microseconds, milliseconds.
    """
    chosen = cost(workers, **network)
    parts = [
        (_("computation"), chosen.compute, BLUE),
        (_("bytes on the wire"), chosen.bytes, ORANGE),
        (_("latency"), chosen.latency, GREEN),
    ]
    body = _bar(parts, chosen.seconds) + _efficiency(workers, **network)
    label = _("A step by its parts: {parts}. Efficiency: {efficiency}").format(
        parts=join_phrases(f"{name} {duration(seconds)}" for name, seconds, _color in parts),
        efficiency=percent(chosen.efficiency),
    )
    return View(Drawing(WIDTH, 354, body, label), _sentence(workers, chosen))


def _sentence(workers: int, chosen: StepCost) -> str:
    step = ngettext(
        "{count} worker: a step takes {seconds}, of which {compute} are computation.",
        "{count} workers: a step takes {seconds}, of which {compute} are computation.",
        workers,
    )
    each = _("There is no other worker, so there is no all-reduce.")
    if workers > 1:
        each = _(
            "Each worker does {share} of the work it would do alone, and all of them together do "
            "{times} times the work of one."
        )
    return join_sentences([step, each]).format(
        count=workers,
        seconds=duration(chosen.seconds),
        compute=duration(chosen.compute),
        share=percent(chosen.efficiency),
        times=number(workers * chosen.efficiency, ",.1f"),
    )


def _bar(parts: list[tuple[str, float, str]], seconds: float) -> str:
    """The whole step as a bar with the width of the drawing, and its parts as text below."""
    title = _("One step: {seconds}").format(seconds=duration(seconds))
    found, x = [text(0, 14, title, weight=600)], 0.0
    for kind, (_name, part, color) in enumerate(parts):
        width = WIDTH * part / seconds
        if part:
            found.append(band(x, 24, width, 30, color, kind=kind))
        x += width
    keys = [
        Key(join_phrases([name, duration(part), percent(part / seconds)]), color, kind=kind)
        for kind, (name, part, color) in enumerate(parts)
    ]
    return "".join(found) + legend(keys, 0, 74)


def _efficiency(workers: int, **network: float) -> str:
    x = Scale(_("workers"), 1, WORKERS[-1], {n: format_value(n) for n in WORKERS}, log=True)
    ticks = {level: percent(level) for level in (0.0, 0.25, 0.5, 0.75, 1.0)}
    y = Scale(_("efficiency: work of a worker, as % of its work alone"), 0, 1, ticks)
    plot = Plot(46, 124, WIDTH - 46 - 14, 166, x, y)
    costs = {n: cost(n, **network) for n in WORKERS}
    bound = {n: cost(n, **{**network, "microseconds": 0}) for n in WORKERS}
    whole = Line(
        _("computation, bytes and latency"),
        BLUE,
        [[(n, c.efficiency) for n, c in costs.items()]],
        2.5,
    )
    without = Line(
        _("without latency"), ORANGE, [[(n, c.efficiency) for n, c in bound.items()]], 1.8, "6 4"
    )
    here = costs[workers].efficiency
    label = labeled(labels.workers(workers), percent(here))
    return "".join(
        [
            plot.frame(),
            plot.curve(without),
            plot.curve(whole),
            # If the curve is high, there is room below it, and vice versa.
            plot.upright(workers, label, low=here > 0.4),
            plot.dot(workers, here, BLUE),
            legend([Key(line.name, line.color, line.dash) for line in (whole, without)], 46, 344),
        ]
    )
