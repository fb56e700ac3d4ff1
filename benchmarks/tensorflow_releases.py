"""Compares two TensorFlow versions: the same Estimator on two workers, in turns.

    python -m benchmarks.tensorflow_releases --python .venv-tf215/bin/python \
        --python .venv/bin/python [--repeat 5] [--output FOLDER]

Each interpreter has its own TensorFlow and the packages that this one needs. The workers are ready
when the clock starts. Writes `results/tensorflow_releases.md`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks import RESULTS
from benchmarks.report import page, publish
from benchmarks.stats import median_ratios, medians
from benchmarks.throughput.launch import arguments, run, run_helper
from benchmarks.throughput.lineup import ready
from benchmarks.throughput.measure import throughput

WORKERS, BATCHES, EPOCHS, FROM_STEP = 2, (64, 256), 2, 100
VERSIONS = (
    "import platform; from importlib.metadata import version; "
    "print('TensorFlow', version('tensorflow') + ', Python', platform.python_version())"
)


class Measured(NamedTuple):
    """The result of one run: examples/s, seconds to two events, and MB of the largest worker."""

    throughput: float
    first_step: float
    result: float
    memory: float


def measure(python: str, batch: int) -> Measured:
    """Trains and evaluates with one interpreter."""
    with tempfile.TemporaryDirectory(prefix="releases-") as folder:
        args = arguments(Path(folder), WORKERS, batch, EPOCHS, ready=True)
        [report] = run(python, ready(WORKERS), args)
    speed = throughput([report], FROM_STEP)
    assert speed and report.pressed and report.evaluated
    first, result = (moment - report.pressed for moment in (report.marks[0][1], report.evaluated))
    return Measured(speed, first, result, max(report.peaks))


def compare(pythons: list[str], names: list[str], batch: int, rounds: int) -> list[str]:
    """Formats a line of medians for each interpreter, and the ratios of the second to the first."""
    runs: list[list[Measured]] = [[] for _python in pythons]
    for _round in range(rounds):
        for python, found in zip(pythons, runs, strict=True):
            found.append(measure(python, batch))
    lines = []
    for name, found in zip(names, runs, strict=True):
        speed, first, result, memory = medians(found)
        lines.append(
            f"| {batch} | {name} | {speed:,.0f} | {first:.1f} | {result:.1f} | {memory:.0f} |"
        )
    shown = " | ".join(f"{ratio:.2f}" for ratio in median_ratios(runs[1], runs[0]))
    return [*lines, f"| {batch} | the second / the first, median of {rounds} rounds | {shown} |"]


def main() -> None:
    """Measures, prints, and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", required=True, help="to be passed twice")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    if len(args.python) != 2:
        parser.error(f"--python must be passed twice, not {len(args.python)} times.")
    names = [run_helper([python, "-c", VERSIONS]).stdout.strip() for python in args.python]
    rows = [row for batch in BATCHES for row in compare(args.python, names, batch, args.repeat)]
    columns = ["batch per worker", f"two workers, {EPOCHS} epochs", "examples/s"]
    columns += ["to the first step, s", "to the result, s", "MB of a worker"]
    publish(page("Two TensorFlow versions", columns, rows), args.output, "tensorflow_releases.md")


if __name__ == "__main__":
    main()
