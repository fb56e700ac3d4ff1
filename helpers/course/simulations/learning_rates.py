"""The best learning rate for a global batch, from training runs recorded with the course.

`python -m benchmarks.learning_rate` trained the course's network on the same 20,480 images of MNIST
with each batch, each rate and two seeds. It wrote the accuracies into the file next to this module.
Two rules predict the rate for another batch. It is proportional to the batch (Goyal et al., 2017,
"Accurate, Large Minibatch SGD", https://arxiv.org/abs/1706.02677, section 2.1). Or it is
proportional to the square root of the batch (Krizhevsky, 2014, "One weird trick for parallelizing
convolutional neural networks", https://arxiv.org/abs/1404.5997). Goyal et al. also use a warm-up,
which these training runs do not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from helpers.course.charts.plot import BLUE, ORANGE, WIDTH, Key, Plot, Scale, legend
from helpers.course.charts.svg import Drawing, Line, text
from helpers.course.simulations.controls import buttons, format_value, slider
from helpers.course.simulations.number_format import significant
from helpers.course.simulations.simulation import Simulation, View
from helpers.errors import unknown_choice
from helpers.i18n import _, join_sentences, ngettext, number

RECORDING = Path(__file__).with_name("learning_rates.json")
BASE = 32  # the reference batch of the rules
TOP = 1.28  # the end of the accuracy axis, with room for text above 100 %


class Recording(NamedTuple):
    """The training runs: one accuracy per seed, for each batch and each of `rates`."""

    trained: int
    tested: int
    rates: Sequence[float]
    accuracy: dict[int, list[list[float]]]

    def means(self, batch: int) -> list[float]:
        """The mean accuracy over the seeds, from 0 to 1, for each rate.

        Raises:
          ConfigError: no training run had this batch.
        """
        if batch not in self.accuracy:
            raise unknown_choice("batch", batch, self.accuracy)
        return [sum(runs) / len(runs) for runs in self.accuracy[batch]]

    def best(self, batch: int) -> int:
        """The index in `rates` of the rate with the best accuracy."""
        means = self.means(batch)
        return means.index(max(means))

    def between(self, batch: int, rate: float) -> float | None:
        """The accuracy at a rate by linear interpolation, or None outside the measured rates."""
        points = list(zip(self.rates, self.means(batch), strict=True))
        for (low, first), (high, second) in pairwise(points):
            if low <= rate <= high:
                return first + (second - first) * math.log(rate / low) / math.log(high / low)
        return None


@cache
def recording() -> Recording:
    """The recording that is part of the course."""
    content = json.loads(RECORDING.read_text("utf-8"))
    accuracy = {int(batch): runs for batch, runs in content["accuracy"].items()}
    return Recording(content["trained"], content["tested"], content["rates"], accuracy)


def simulation() -> Simulation:
    """The accuracy over the learning rate for each global batch, and two rules' predictions."""
    batches = sorted(recording().accuracy)
    shown = {_("as measured"): False, _("scaled linearly"): True}
    return Simulation(
        _("Which learning rate suits which batch"),
        draw,
        {
            "batch": slider(_("Global batch, examples"), batches, 256),
            "scaled": buttons(_("The curve of batch {batch}").format(batch=BASE), shown),
        },
    )


def predictions(batch: int) -> tuple[float, float]:
    """The rates predicted by the linear and the square-root rule from the best rate of BASE."""
    found = recording()
    first, times = found.rates[found.best(BASE)], batch / BASE
    return first * times, first * math.sqrt(times)


def draw(batch: int, scaled: bool) -> View:
    """The curves of `batch` and of BASE, the predictions of the rules, and a text.

    Args:
      scaled: whether to move the curve of BASE according to the linear rule.
    """
    sentence = _sentence(batch)
    return View(Drawing(WIDTH, 360, _picture(batch, scaled), sentence), sentence)


def _sentence(batch: int) -> str:
    found = recording()
    best = found.best(batch)
    linear, root = predictions(batch)
    runs, steps = found.accuracy[batch][best], found.trained // batch
    parts = [
        ngettext(
            "Batch {batch}, {steps} without a warm-up: the best learning rate was {rate}, "
            "with an accuracy of {low} to {high} in {runs} run.",
            "Batch {batch}, {steps} without a warm-up: the best learning rate was {rate}, "
            "with an accuracy of {low} to {high} in {runs} runs.",
            len(runs),
        )
    ]
    if batch == BASE:
        parts.append(_("From here, two rules predict the learning rate of other batches."))
    else:
        parts.append(_("The linear rule predicts {linear}: {linearly}."))
        parts.append(_("The square-root rule predicts {root}: {rooted}."))
    return join_sentences(parts).format(
        batch=format_value(batch),
        steps=ngettext("{count} step", "{count} steps", steps).format(count=format_value(steps)),
        rate=format_value(found.rates[best]),
        low=number(min(runs), ".1%"),
        high=number(max(runs), ".1%"),
        runs=len(runs),
        linear=significant(linear),
        root=significant(root),
        linearly=_accuracy(found.between(batch, linear)),
        rooted=_accuracy(found.between(batch, root)),
    )


def _accuracy(found: float | None) -> str:
    if found is None:
        return _("not measured")
    return _("accuracy about {accuracy}").format(accuracy=number(found, ".0%"))


def _axis_name(images: int) -> str:
    name = ngettext(
        "accuracy on {count} image of the test set, %",
        "accuracy on {count} images of the test set, %",
        images,
    )
    return name.format(count=format_value(images))


def _picture(batch: int, scaled: bool) -> str:
    found = recording()
    rates = found.rates
    x = Scale(
        _("learning rate"), rates[0], rates[-1], {r: format_value(r) for r in rates}, log=True
    )
    ticks = {level: number(level, ".0%") for level in (0, 0.25, 0.5, 0.75, 1)}
    y = Scale(_axis_name(found.tested), 0, TOP, ticks)
    plot = Plot(50, 34, WIDTH - 50 - 24, 240, x, y)
    times = batch / BASE if scaled else 1
    base = [(rate * times, mean) for rate, mean in zip(rates, found.means(BASE), strict=True)]
    base = [(rate, mean) for rate, mean in base if rate <= rates[-1]]
    own = list(zip(rates, found.means(batch), strict=True))
    other = _("batch {batch}, moved by the linear rule") if scaled else _("batch {batch}")
    faint = Line(other.format(batch=BASE), ORANGE, [base], 2.0, "6 4")
    chosen = Line(_("batch {batch}").format(batch=format_value(batch)), BLUE, [own], 2.6)
    parts = [plot.frame(), plot.curve(faint, opacity=0.75), plot.curve(chosen)]
    parts += [
        _runs(plot, rate, runs) for rate, runs in zip(rates, found.accuracy[batch], strict=True)
    ]
    if batch != BASE:
        linear, root = predictions(batch)
        parts.append(
            plot.upright(linear, _("linear rule: {rate}").format(rate=significant(linear)))
        )
        words = _("square-root rule: {rate}").format(rate=significant(root))
        parts.append(plot.upright(root, words, row=1, before=True, dash="1 3"))
    best = found.best(batch)
    top = found.means(batch)[best]
    parts.append(plot.dot(rates[best], top, BLUE, radius=5.5))
    label = _("best: {accuracy}").format(accuracy=number(top, ".1%"))
    parts.append(text(plot.x(rates[best]) + 9, plot.y(top) - 9, label, weight=600))
    lines = [chosen] if batch == BASE and not scaled else [chosen, faint]
    return "".join(parts) + legend(
        [Key(line.name, line.color, line.dash) for line in lines], 50, 342
    )


def _runs(plot: Plot, rate: float, runs: Sequence[float]) -> str:
    """A line from the worst run to the best."""
    x, low, high = plot.x(rate), plot.y(min(runs)), plot.y(max(runs))
    return (
        f'<path d="M{x:.1f} {low:.1f}V{high:.1f}m-4 0h8M{x - 4:.1f} {low:.1f}h8" fill="none" '
        f'stroke="{BLUE}" stroke-width="1.5"/>'
    )
