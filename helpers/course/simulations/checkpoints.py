"""The optimal checkpoint interval: the share of time lost to failures and to writing.

Machines fail independently, each after M seconds on average, so N machines fail after M/N seconds.
A checkpoint needs δ seconds and a restart R seconds, and both can fail as well. The mean time for τ
seconds of finished and saved work is M·e^(R/M)·(e^((τ+δ)/M) − 1) seconds. This is the complete cost
function of Daly, 2006, "A higher order estimate of the optimum checkpoint interval for restart
dumps", Future Generation Computer Systems 22(3). `losses` returns the shares of its parts.

The best interval of Young (1974, "A first order approximation to the optimum checkpoint interval",
Communications of the ACM 17(9)) is √(2δM). Daly adds terms that matter if failures are frequent.
Neither formula depends on R.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from helpers.course.charts.plot import (
    BLUE,
    GREEN,
    ORANGE,
    WIDTH,
    Key,
    Plot,
    Scale,
    area,
    legend,
)
from helpers.course.charts.svg import Drawing
from helpers.course.simulations.controls import format_value, slider
from helpers.course.simulations.number_format import duration, percent
from helpers.course.simulations.simulation import Simulation, View
from helpers.errors import check_count, check_seconds
from helpers.i18n import _, join_sentences, ngettext, number

WRITE_SECONDS = 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600  # seconds
MTBF_DAYS = 0.25, 0.5, 1, 2, 7, 30, 90, 365, 1095, 3650  # days between failures of one machine
MACHINES = tuple(2**power for power in range(13))  # 1 … 4096
RESTART_SECONDS = 1, 5, 10, 30, 60, 120, 300, 600, 1800  # seconds
DAY = 86_400.0
MIN_INTERVAL, MAX_INTERVAL = 1.0, 7 * DAY  # the range of the interval's axis, in seconds
POINTS = 131
MAX_EXPONENT = 709  # of a finite power of e
# Possible ends of the axis of shares, with the number of its parts.
Y_MAXIMA = {0.01: 5, 0.02: 4, 0.05: 5, 0.1: 5, 0.2: 4, 0.5: 5, 1.0: 5}
MAX_TIME_LOST = 0.99  # of all time; shares of a larger loss are meaningless


class Losses(NamedTuple):
    """The shares of all time, from 0 to 1, that do not contribute to the result."""

    writing: float
    rework: float
    restart: float

    @property
    def total(self) -> float:
        """The total share of lost time."""
        return self.writing + self.rework + self.restart


def simulation() -> Simulation:
    """The lost time over the interval between checkpoints, and the best interval."""
    return Simulation(
        _("How often to write a checkpoint"),
        draw,
        {
            "write": slider(_("Writing a checkpoint, seconds"), WRITE_SECONDS, 30),
            "days": slider(_("Days between failures of one machine"), MTBF_DAYS, 365),
            "machines": slider(_("Machines"), MACHINES, 64),
            "restart": slider(_("Restart, seconds"), RESTART_SECONDS, 120),
        },
    )


def young(write: float, mtbf: float) -> float:
    """The first-order best interval in seconds: √(2δM)."""
    _check(write, mtbf)
    return math.sqrt(2 * write * mtbf)


def daly(write: float, mtbf: float) -> float:
    """The higher-order best interval in seconds.

    It is √(2δM)·(1 + ⅓·√(δ/2M) + ⅑·δ/2M) − δ if δ < 2M, and M otherwise.
    """
    _check(write, mtbf)
    if write >= 2 * mtbf:
        return mtbf
    ratio = write / (2 * mtbf)
    first = math.sqrt(2 * write * mtbf)
    return first * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write


def losses(interval: float, write: float, mtbf: float, restart: float) -> Losses:
    """The shares of lost time with `interval` seconds of work between two checkpoints.

    Args:
      write: δ, seconds.
      mtbf: M, the mean seconds between failures of the group.
      restart: R, seconds.

    Raises:
      ConfigError: one of the numbers is not above 0.
    """
    check_seconds("interval", interval)
    _check(write, mtbf)
    check_seconds("restart", restart)
    exponent = (interval + write) / mtbf
    grown = math.expm1(exponent) if exponent < MAX_EXPONENT else math.inf
    started = math.exp(-restart / mtbf)  # the share of time without restarts
    return Losses(
        started * write / mtbf / grown,
        started * (1 - (interval + write) / mtbf / grown),
        1 - started,
    )


def draw(write: float, days: float, machines: int, restart: float) -> View:
    """The losses over the interval, the best intervals of Young and Daly, and a text."""
    check_count("machines", machines)
    between = days * DAY / machines
    best = daly(write, between)
    least = losses(best, write, between, restart)
    sentence = _sentence(best, write, between, restart, machines)
    top = next(top for top in Y_MAXIMA if top >= min(3 * least.total, 1.0))
    body = _picture(write, between, restart, top)
    return View(Drawing(WIDTH, 350, body, sentence), sentence)


def _check(write: float, mtbf: float) -> None:
    check_seconds("write", write)
    check_seconds("mtbf", mtbf)


def _sentence(best: float, write: float, between: float, restart: float, machines: int) -> str:
    least = losses(best, write, between, restart)
    many = ngettext(
        "{machines} machine: a failure every {between}.",
        "{machines} machines: one of them fails every {between}.",
        machines,
    )
    advice = _("The best interval is {best} of work (Daly) or {first} (Young).")
    lost = _(
        "Then {total} of the time is lost: {writing} writing, {again} repeating work, {restart} "
        "restarting. With an interval four times as long, {longer} is lost."
    )
    if least.total > MAX_TIME_LOST:
        lost = _("Even then {total} of the time is lost, so there is hardly any progress.")
    return join_sentences([many, advice, lost]).format(
        machines=format_value(machines),
        between=duration(between),
        best=duration(best),
        first=duration(young(write, between)),
        total=percent(least.total),
        writing=percent(least.writing),
        again=percent(least.rework),
        restart=percent(least.restart),
        longer=percent(losses(4 * best, write, between, restart).total),
    )


def _picture(write: float, between: float, restart: float, top: float) -> str:
    ratio = MAX_INTERVAL / MIN_INTERVAL
    intervals = [MIN_INTERVAL * ratio ** (k / (POINTS - 1)) for k in range(POINTS)]
    found = [losses(one, write, between, restart) for one in intervals]
    moments = 1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, DAY, 7 * DAY
    x = Scale(
        _("interval between checkpoints, seconds to days"),
        MIN_INTERVAL,
        MAX_INTERVAL,
        {moment: duration(moment) for moment in moments},
        log=True,
    )
    parts_of_top = Y_MAXIMA[top]
    ticks = {top * k / parts_of_top: _tick(top * k / parts_of_top) for k in range(parts_of_top + 1)}
    y = Scale(_("time lost, % of all time"), 0, top, ticks)
    plot = Plot(54, 34, WIDTH - 54 - 30, 230, x, y)
    layers = [
        (_("restarting"), GREEN, 0, [one.restart for one in found]),
        (_("repeating work"), BLUE, 1, [one.rework for one in found]),
        (_("writing checkpoints"), ORANGE, 2, [one.writing for one in found]),
    ]
    parts, lower = [], [0.0] * len(intervals)
    for _name, color, kind, heights in layers:
        upper = [low + height for low, height in zip(lower, heights, strict=True)]
        parts.append(area(plot, _over(intervals, lower), _over(intervals, upper), color, kind=kind))
        lower = upper
    # Drawn above the areas, which would hide it.
    parts.append(plot.frame())
    best, first = daly(write, between), young(write, between)
    total = losses(best, write, between, restart).total
    words = _("Daly: {interval}").format(interval=duration(best))
    parts.append(plot.upright(best, words, before=True))
    words = _("Young: {interval}").format(interval=duration(first))
    parts.append(plot.upright(first, words, row=1, dash="1 3"))
    parts.append(plot.dot(best, total, BLUE))
    keys = [Key(name, color, kind=kind) for name, color, kind, _heights in reversed(layers)]
    return "".join(parts) + legend(keys, 54, 330)


def _tick(level: float) -> str:
    return number(level, ".0%" if round(100 * level, 6).is_integer() else ".1%")


def _over(intervals: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(intervals, heights, strict=True))
