"""The staleness of gradients and its effect on training, simulated by `async_sgd`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from helpers.course.charts.plot import (
    BLUE,
    ORANGE,
    WIDTH,
    Key,
    Plot,
    Scale,
    band,
    circle,
    legend,
)
from helpers.course.charts.svg import Drawing, Line, nice_ceiling, text
from helpers.course.simulations.async_sgd import UPDATES, Training, largest_rate, simulate
from helpers.course.simulations.controls import format_value, slider
from helpers.course.simulations.number_format import percent, significant
from helpers.course.simulations.simulation import Simulation, View
from helpers.i18n import _, join_sentences, ngettext, number

WORKERS = tuple(range(1, 17))
SLOWDOWNS = 1, 1.5, 2, 3, 4, 6, 8, 10
RATES = 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5
MAX_BARS = 24
MIN_LOSS, LARGEST_LOSS = 1e-5, 1e2  # the range of the loss axis


def simulation() -> Simulation:
    """Asynchronous training by number of workers, slowness of one worker, and learning rate."""
    return Simulation(
        _("Staleness of gradients, and its effect"),
        draw,
        {
            "workers": slider(_("Workers"), WORKERS, 4),
            "slowness": slider(_("One worker is slower by a factor of"), SLOWDOWNS, 1),
            "rate": slider(_("Learning rate"), RATES, 0.2),
        },
    )


def draw(workers: int, slowness: float, rate: float) -> View:
    """A histogram of staleness, the losses with and without waiting, and a text."""
    training = simulate(workers, slowness, rate)
    sentence = _sentence(workers, rate, training)
    body = _histogram(training) + _losses(training)
    return View(Drawing(WIDTH, 326, body, sentence), sentence)


def _sentence(workers: int, rate: float, training: Training) -> str:
    stale = ngettext(
        "{workers} worker: a gradient is stale by {mean} updates on average, by {most} at most.",
        "{workers} workers: a gradient is stale by {mean} updates on average, by {most} at most.",
        workers,
    )
    if workers == 1:
        stale = _("1 worker: there are no other updates in between, so no gradient is stale.")
    if training.losses[-1] > 1:
        end = _("At a learning rate of {rate} the loss grows, and training diverges.")
    else:
        end = _("At a learning rate of {rate} the loss falls to {part} of its initial value.")
    parts = [stale, end]
    if workers > 1:
        steps = ngettext(
            "Synchronous training would run {steps} step in the same time and reach {other}.",
            "Synchronous training would run {steps} steps in the same time and reach {other}.",
            training.same_time,
        )
        limit = _(
            "If every gradient were stale by {usual}, training would diverge at learning rates of "
            "{limit} and above."
        )
        parts += [steps, limit]
    return join_sentences(parts).format(
        workers=workers,
        mean=number(training.mean, ".1f"),
        most=max(training.staleness),
        rate=format_value(rate),
        part=percent(training.losses[-1]),
        steps=training.same_time,
        other=percent(training.synchronous[training.same_time]),
        usual=workers - 1,
        limit=significant(largest_rate(workers - 1)),
    )


def _histogram(training: Training) -> str:
    """The number of gradients by staleness. Gradients of the slow worker are hatched."""
    most = max(training.staleness)
    wide = math.ceil((most + 1) / MAX_BARS)  # the range of staleness of one bar
    bars = [Counter[int](), Counter[int]()]
    for one, slow in zip(training.staleness, training.by_slow, strict=True):
        bars[slow][one // wide] += 1
    total = bars[0] + bars[1]
    last = max(most // wide, 7)
    top = min(nice_ceiling(max(total.values()) / UPDATES), 1.0)
    step = max(1, round(last / 6)) * wide
    x = Scale(
        _("staleness, updates"),
        -0.6 * wide,
        (last + 1) * wide,
        {k: format_value(k) for k in range(0, (last + 1) * wide, step)},
    )
    y = Scale(_("gradients, %"), 0, top, {top * k / 2: percent(top * k / 2) for k in range(3)})
    plot = Plot(46, 34, 270, 200, x, y)
    parts = [plot.frame()]
    for bar, height in total.items():
        # A bar covers `wide` values of staleness, from bar · wide.
        left, right = (plot.x(bar * wide + (wide - 1) / 2 + side * wide) for side in (-0.4, 0.4))
        between = plot.y(bars[0][bar] / UPDATES)
        end = plot.y(height / UPDATES)
        parts.append(band(left, between, right - left, plot.bottom - between, ORANGE, kind=0))
        if end < between:
            parts.append(band(left, end, right - left, between - end, ORANGE, kind=1))
    keys = [Key(_("of equal workers"), ORANGE), Key(_("of the slow one"), ORANGE, kind=1)]
    slow = any(training.by_slow)
    parts.append(legend(keys if slow else [], 6, 294, 330))
    return "".join(parts)


def _losses(training: Training) -> str:
    """The loss over the updates, and over the steps of synchronous training."""
    x = Scale(
        _("updates (synchronous: steps)"),
        0,
        UPDATES,
        {k: format_value(k) for k in range(0, UPDATES + 1, 60)},
    )
    ticks = {10.0**power: format_value(10.0**power) for power in range(-4, 3, 2)}
    y = Scale(_("loss, relative to the first one"), MIN_LOSS, LARGEST_LOSS, ticks, log=True)
    plot = Plot(400, 34, 346, 200, x, y)
    asynchronous = Line(_("asynchronous"), ORANGE, _shown(training.losses), 2.2)
    synchronous = Line(_("synchronous"), BLUE, _shown(training.synchronous), 2.0, "6 4")
    here = training.same_time
    marks = [plot.dot(here, training.synchronous[here], BLUE)]
    if training.losses[-1] > 1:
        marks.append(text(plot.right - 4, plot.top + 16, _("diverges"), anchor="end", weight=600))
    keys = [Key(line.name, line.color, line.dash) for line in (asynchronous, synchronous)]
    dot = circle(371, 314, BLUE)
    words = text(388, 318, _("synchronous, after the same time"))
    curves = plot.curve(synchronous) + plot.curve(asynchronous)
    return plot.frame() + curves + "".join(marks) + legend(keys, 360, 294, 400) + dot + words


def _shown(losses: Sequence[float]) -> list[list[tuple[float, float]]]:
    """The pieces of the curve inside the plot, extended by the step that leaves it on each side."""
    pieces: list[list[tuple[float, float]]] = []
    for (k, loss), (after, next_loss) in pairwise(enumerate(losses)):
        if min(loss, next_loss) > LARGEST_LOSS:
            continue
        if not pieces or pieces[-1][-1][0] != k:
            pieces.append([(k, loss)])
        pieces[-1].append((after, next_loss))
    return pieces
