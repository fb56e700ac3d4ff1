"""The time of a training step by number of workers: the α–β model of ring all-reduce.

A message of n bytes needs α + n·β seconds: a latency, and a time per byte (Hockney, 1994, "The
communication challenge for MPP", Parallel Computing 20(3), section 2). A ring of N workers sums S
bytes in 2(N−1) rounds. In each round, every worker sends S/N bytes to the next worker. The first
N−1 rounds add up the parts, and the other N−1 rounds distribute the sums.

Sources: Patarasuk and Yuan, 2009, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", Journal of Parallel and Distributed Computing 69(2), section 4. Thakur, Rabenseifner
and Gropp, 2005, "Optimization of collective communication operations in MPICH", International
Journal of High Performance Computing Applications 19(1), section 4.5.

The model assumes that computation and communication do not overlap, that links carry no other
traffic, and that all workers and links are equal. Real clusters violate each of these assumptions,
and they have better algorithms than the ring if latency matters. So use the model only for a first
estimate.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import ConfigError, check_count
from helpers.i18n import _, ngettext, number
from helpers.results.svg_figure import SvgFigure

if TYPE_CHECKING:
    import numpy as np

MAX_WORKERS = 4096


@dataclass(frozen=True)
class Measurement:
    """One measured step.

    Attributes:
      workers: N.
      gradient_bytes: S, the bytes that each worker contributes to the sum.
      bandwidth: bits per second of a link, or of the shared medium.
      seconds: the time of one step.
    """

    workers: int
    gradient_bytes: float
    bandwidth: float
    seconds: float


@dataclass(frozen=True)
class CostModel:
    """Predicts the time of a step with one ring all-reduce of the gradients.

    Attributes:
      compute: seconds of a step without communication.
      latency: α, the seconds of an empty message.
      overhead: the bytes sent per required byte of gradients, which is slightly above 1.0 because
        of protocol headers.
      shared_medium: whether all workers share one medium, like processes on one loopback interface,
        instead of separate links.
    """

    compute: float
    latency: float = 0.0
    overhead: float = 1.0
    shared_medium: bool = False

    def all_reduce_seconds(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """The seconds of one all-reduce over links of `bandwidth` bits per second."""
        seconds = wire_seconds(workers, gradient_bytes, bandwidth, self.shared_medium)
        return rounds(workers) * self.latency + self.overhead * seconds

    def step_seconds(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """The seconds of one step, which is the computation followed by the all-reduce."""
        return self.compute + self.all_reduce_seconds(workers, gradient_bytes, bandwidth)

    def efficiency(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """The share of computation in a step, from 0 to 1, with a constant batch per worker.

        It is the efficiency of weak scaling: the speed of N workers, divided by N times the speed
        of one.
        """
        return self.compute / self.step_seconds(workers, gradient_bytes, bandwidth)

    def weak_speedup(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """The speed-up in examples per second over one worker, with a constant batch per worker."""
        return workers * self.efficiency(workers, gradient_bytes, bandwidth)

    def strong_speedup(self, workers: int, gradient_bytes: float, bandwidth: float) -> float:
        """The speed-up in examples per second over one worker, with a constant global batch.

        Each worker then computes for 1/N of `compute`. The model assumes that the time of a step is
        proportional to its batch, which is too optimistic for small batches.
        """
        exchange = self.all_reduce_seconds(workers, gradient_bytes, bandwidth)
        return self.compute / (self.compute / workers + exchange)


def rounds(workers: int) -> int:
    """The number of consecutive messages in a ring all-reduce: 2(N−1).

    Raises:
      ConfigError: `workers` is not a positive integer.
    """
    check_count("workers", workers)
    return 2 * (workers - 1)


def wire_seconds(
    workers: int, gradient_bytes: float, bandwidth: float, shared_medium: bool = False
) -> float:
    """The seconds in which the bytes of one ring all-reduce are on the wire.

    With separate links, a worker sends 2(N−1)/N·S bytes while it receives the same number from
    another worker. On a shared medium, the bytes of all N workers queue up: 2(N−1)·S.

    Args:
      workers: N.
      gradient_bytes: S.
      bandwidth: bits per second, of a link in each direction, or of the medium.
      shared_medium: whether all workers share one medium.
    """
    sent = rounds(workers) * gradient_bytes / (1 if shared_medium else workers)
    return 8 * sent / bandwidth


def fit(measurements: Sequence[Measurement], *, shared_medium: bool = False) -> CostModel:
    """The model that fits measured steps best, by least squares of the relative errors.

    None of its three parameters is negative. Parameters that the measurements cannot separate are
    merged into the first of compute, overhead and latency. For example, α is part of compute if all
    measurements have two workers.

    Raises:
      ConfigError: there are fewer than two measurements, or all of them last 0 seconds.
    """
    import numpy as np

    if len(measurements) < 2 or min(m.seconds for m in measurements) <= 0:
        message = ngettext(
            "{count} measurement cannot be fitted: pass two or more, on different networks or "
            "numbers of workers, each of more than 0 seconds.",
            "{count} measurements cannot be fitted: pass two or more, on different networks or "
            "numbers of workers, each of more than 0 seconds.",
            len(measurements),
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
    """The x ≥ 0 that minimizes |rows·x − 1|², found by solving for every subset of the columns.

    The optimum solves the problem without the columns in which it is 0, so the search finds it.
    """
    import numpy as np

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

    This extrapolates far beyond the measurements. The module's docstring lists the model's
    assumptions.

    Args:
      networks: the model and S, the bytes of its gradients, of each plot, by its title.
      bandwidths: the bits per second of each line, by its name.
    """
    from matplotlib.figure import Figure

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
