"""Compares the results of a Keras 3 program on groups of different sizes.

    import helpers

    result = helpers.compare(train, workers=(1, 2, 3))
    print(result)          # losses, metrics and weights, and the likely kind of fault
    result.plot()

For a program in a file, run `python -m helpers.compare program.py`. docs/KERAS_3.md describes the
kinds of fault. The first group is the reference. Each group runs in a `LocalCluster`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from helpers.cluster.local import LocalCluster
from helpers.compare.causes import Cause, Diagnosis
from helpers.compare.comparison import Comparison, Row
from helpers.compare.runs import Run
from helpers.errors import ClusterError, ConfigError, DataError, UserCodeError, check_count
from helpers.i18n import _
from helpers.system.keras_version import check_keras_3
from helpers.worker.keras_recorder import Recorded

__all__ = ["Cause", "Comparison", "Diagnosis", "Row", "Run", "compare"]

WORKERS = (1, 2, 3)
TOLERANCE = 1e-5
TIMEOUT_SECONDS = 120.0


def compare(
    function: Callable[..., Any],
    workers: Sequence[int] = WORKERS,
    *,
    tolerance: float = TOLERANCE,
    timeout: float = TIMEOUT_SECONDS,
    **options: Any,
) -> Comparison:
    """Runs a function on groups of different sizes, and compares the results of Keras 3 in it.

    The function creates its own strategy, as for `LocalCluster.run`, and builds, compiles and fits
    a model. It needs no change and may return nothing. Python's and NumPy's random numbers are
    seeded, so that initial weights are equal. A callback records the results of `fit`.

    Args:
      function: the function that each worker calls.
      workers: the group sizes, of which the first is the reference.
      tolerance: the largest difference of equal numbers: absolute for numbers up to 1, relative
        above.
      timeout: seconds for the function with one group size.
      options: keyword arguments of `LocalCluster`.

    Raises:
      ConfigError, DataError: there are fewer than two group sizes, this machine cannot run the
        selected options, or the function raised this error in the first group.
      PackageError: TensorFlow does not use Keras 3.
    """
    for count in workers:
        check_count("workers", count)
    if len(set(workers)) < 2:
        message = _(
            "workers={workers} compares nothing. Pass two group sizes, such as workers=(1, 2)."
        )
        raise ConfigError(message.format(workers=tuple(workers)))
    check_keras_3()
    options = {"max_restarts": 0, **options}
    runs: list[Run] = []
    for count in dict.fromkeys(workers):
        try:
            runs.append(_run(function, count, timeout, options))
        except (ConfigError, DataError) as error:
            if not runs:
                raise
            runs.append(Run(count, error=str(error), raised=type(error).__name__))
    return Comparison(runs, tolerance)


def _run(
    function: Callable[..., Any], workers: int, timeout: float, options: dict[str, Any]
) -> Run:
    with LocalCluster(workers, **options) as cluster:
        try:
            return Run(workers, cluster.run(Recorded(function), keras=3, timeout=timeout))
        except UserCodeError as error:
            lines = str(error).strip().splitlines()
            return Run(workers, error=lines[-1], raised=error.exception_type)
        except ClusterError as error:
            reason = error.reason.partition("\n")[0]  # without the last lines of the log
            return Run(workers, error=reason, raised=type(error).__name__)


class _Callable(ModuleType):
    """The class of this module, which makes `helpers.compare(…)` work after an import, too."""

    def __call__(self, *args: Any, **options: Any) -> Comparison:
        """Calls `compare`."""
        return compare(*args, **options)


sys.modules[__name__].__class__ = _Callable
