"""One TensorFlow beside another: the same Estimator on two workers, in turns.

    python -m benchmarks.tensorflow_releases --python .venv-tf215/bin/python \
        --python .venv/bin/python [--repeat 5] [--output FOLDER]

Each interpreter brings its TensorFlow and what this package needs. The workers are ready when the
clock starts. Writes `results/tensorflow_releases.md`.
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
    """What one run showed: examples per second, seconds, seconds, and MB of the largest worker."""

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
    """A line of medians for each interpreter, and one of the second's ratios to the first."""
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
    parser.add_argument("--python", action="append", required=True, help="two of them")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    if len(args.python) != 2:
        parser.error(f"--python names an interpreter, twice; it stands here {len(args.python)}×.")
    names = [run_helper([python, "-c", VERSIONS]).stdout.strip() for python in args.python]
    rows = [row for batch in BATCHES for row in compare(args.python, names, batch, args.repeat)]
    columns = ["batch of each", f"two workers, {EPOCHS} epochs", "examples/s"]
    columns += ["to the first step, s", "to the result, s", "MB of a worker"]
    publish(
        page("One TensorFlow beside another", columns, rows), args.output, "tensorflow_releases.md"
    )


if __name__ == "__main__":
    main()
