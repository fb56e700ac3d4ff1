"""What a training step costs on how many workers: the α–β model of ring all-reduce.

A message of n bytes takes α + n·β seconds: a latency, and a time for each byte (Hockney, 1994, "The
communication challenge for MPP", Parallel Computing 20(3), section 2). A ring of N workers sums S
bytes in 2(N−1) rounds, in each of which every worker sends S/N bytes to the next: N−1 rounds in
which parts are added up, N−1 in which sums go round (Patarasuk and Yuan, 2009, "Bandwidth optimal
all-reduce algorithms for clusters of workstations", Journal of Parallel and Distributed Computing
69(2), section 4; Thakur, Rabenseifner and Gropp, 2005, "Optimization of collective communication
operations in MPICH", International Journal of High Performance Computing Applications 19(1),
section 4.5).

The model's limits: computation and exchange do not overlap, links carry nothing else, and all
workers and links are alike. Real clusters break each of these, and have better algorithms than the
ring where latency counts; so take it for a first estimate.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from helpers.errors import ConfigError, check_count
from helpers.i18n import _, number
from helpers.results.svg_figure import SvgFigure

MAX_WORKERS = 4096


@dataclass(frozen=True)
class Measurement:
    """One measured step.

    Attributes:
      workers: N.
      gradient_bytes: S, what each worker contributes to the sum.
      bandwidth: bits per second of a link, or of the shared medium.
      seconds: of one step.
    """

    workers: int
    gradient_bytes: float
    bandwidth: float
    seconds: float


@dataclass(frozen=True)
class CostModel:
    """Predicts the time of a step in which gradients are summed once, by a ring.

    Attributes:
      compute: seconds of a step without its exchange.
      latency: α, seconds of a message of no bytes.
      overhead: how many bytes cross the network for each byte of gradients that has to: 1.0 and a
        little for the headers of protocols.
      shared_medium: whether all workers share one medium, as processes with one loopback do,
        instead of having a link each.
    """

    compute: float
    latency: float = 0.0
    overhead: float = 1.0
    shared_medium: bool = False

    def all_reduce_seconds(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """Seconds of one all-reduce over links of `bandwidth` bits per second."""
        seconds = wire_seconds(workers, gradient_bytes, bandwidth, self.shared_medium)
        return rounds(workers) * self.latency + self.overhead * seconds

    def step_seconds(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """Seconds of one step: the computation, and after it the all-reduce."""
        return self.compute + self.all_reduce_seconds(workers, gradient_bytes, bandwidth)

    def efficiency(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """The part of a step in which a worker computes, from 0 to 1; the batch per worker stays.

        It is that of weak scaling: the speed of N workers, divided by N times the speed of one.
        """
        return self.compute / self.step_seconds(workers, gradient_bytes, bandwidth)

    def weak_speedup(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """How many times as many examples a second as one worker; the batch per worker stays."""
        return workers * self.efficiency(workers, gradient_bytes, bandwidth)

    def strong_speedup(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """How many times as many examples a second as one worker; the global batch stays.

        Each worker then computes for 1/N of `compute`: the model takes the time of a step to be
        proportional to its batch, which small batches do not reach.
        """
        exchange = self.all_reduce_seconds(workers, gradient_bytes, bandwidth)
        return self.compute / (self.compute / workers + exchange)


def rounds(workers: int) -> int:
    """Messages one after the other in a ring all-reduce: 2(N−1)."""
    check_count("workers", workers)
    return 2 * (workers - 1)


def wire_seconds(
    workers: int, gradient_bytes: float, bandwidth: float, shared_medium: bool = False
) -> float:
    """Seconds that the bytes of one ring all-reduce spend on the wire.

    With a link each, a worker sends 2(N−1)/N·S bytes while it receives as many from another. On a
    shared medium the bytes of all N workers queue up: 2(N−1)·S.

    Args:
      workers: N.
      gradient_bytes: S.
      bandwidth: bits per second, of a link in each direction, or of the medium.
    """
    sent = rounds(workers) * gradient_bytes / (1 if shared_medium else workers)
    return 8 * sent / bandwidth


def fit(measurements: Sequence[Measurement], *, shared_medium: bool = False) -> CostModel:
    """The model that fits measured steps best: least squares of the relative errors.

    None of its three numbers is negative. What the measurements cannot tell apart goes to the first
    of compute, overhead, latency: all on two workers, for instance, say nothing about α, which then
    is a part of compute.

    Raises:
      ConfigError: fewer than two measurements, or none that took any time.
    """
    if len(measurements) < 2 or min(m.seconds for m in measurements) <= 0:
        message = _(
            "{count} measurements cannot be fitted: pass two or more, on different networks or "
            "numbers of workers, each of more than 0 seconds."
        )
        raise ConfigError(message.format(count=len(measurements)))
    rows = [
        (
            1.0,
            wire_seconds(m.workers, m.gradient_bytes, m.bandwidth, shared_medium),
            rounds(m.workers),
        )
        for m in measurements
    ]
    seconds = np.array([m.seconds for m in measurements])
    compute, overhead, latency = _non_negative(np.array(rows) / seconds[:, None])
    return CostModel(compute, latency, overhead, shared_medium)


def _non_negative(rows: np.ndarray[Any, Any]) -> list[float]:
    """x ≥ 0 with the least |rows·x − 1|²: the best among the solutions in each choice of columns.

    The optimum solves the problem without the columns in which it is 0, so it is among them.
    """
    best, least = np.zeros(rows.shape[1]), float(len(rows))
    columns = range(rows.shape[1])
    for size in range(1, rows.shape[1] + 1):
        for chosen in itertools.combinations(columns, size):
            part = rows[:, chosen]
            values, _residuals, rank, _singular = np.linalg.lstsq(
                part, np.ones(len(rows)), rcond=None
            )
            error = float(np.sum((part @ values - 1) ** 2))
            if rank == size and np.all(values >= 0) and error < least - 1e-12:
                best, least = np.zeros(rows.shape[1]), error
                best[list(chosen)] = values
    return [float(value) for value in best]


def efficiency_chart(
    networks: Mapping[str, tuple[CostModel, float]],
    bandwidths: Mapping[str, float],
    workers: int = MAX_WORKERS,
) -> SvgFigure:
    """The predicted efficiency of weak scaling from 1 to `workers` workers.

    Far beyond what was measured: see this module's text for what the model leaves out.

    Args:
      networks: a picture for each, by its title: the model, and S, the bytes of its gradients.
      bandwidths: a line for each, by its name: bits per second.
    """
    counts = [2**power for power in range(workers.bit_length())]
    figure = Figure(figsize=(1.5 + 3.2 * len(networks), 3), layout="constrained")
    pictures = figure.subplots(1, len(networks), squeeze=False)[0]
    for axes, (title, (model, gradient_bytes)) in zip(pictures, networks.items(), strict=True):
        for name, bandwidth in bandwidths.items():
            points = [model.efficiency(n, gradient_bytes, bandwidth) for n in counts]
            axes.semilogx(counts, points, base=2, label=name)
        axes.set(title=title, xlabel=_("workers"), ylabel=_("efficiency"), ylim=(0, 1.05))
        axes.xaxis.set_major_formatter(lambda value, _position: number(value, ",.7g"))
        axes.yaxis.set_major_formatter(lambda value, _position: number(value, ".0%"))
    figure.legend(*pictures[0].get_legend_handles_labels(), loc="outside right upper")
    return SvgFigure(figure, _("predicted efficiency over the number of workers"))
