"""The time until lesson 1 trains when its reader presses "Run All" in a new kernel.

    python -m benchmarks.run_all [--repeat 5] [--output FOLDER]

The lesson is executed up to the cell that trains for the first time, without pauses between cells.
For comparison, another kernel waits before that cell until the workers are ready, as for a reader
who reads the text first. The two ways take turns. Writes `results/run_all.md`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import nbformat

from benchmarks import RESULTS
from benchmarks.report import page, publish
from tools.lessons.execute import run_cells
from tools.lessons.project import Project

LESSON, CELL = "01_train_on_two_workers", "first"
SHOW = f"print({CELL}.seconds_to_first_step)"
WAIT = """
import time
from helpers.cluster.prewarm import is_prewarming
while is_prewarming():
    time.sleep(0.01)
"""


def seconds_to_first_step(*, reads: bool) -> float:
    """Returns the time from the call of `train` to the end of the first step, as in its result."""
    path = Project.load(Path()).notebook(LESSON)
    notebook = nbformat.read(path, as_version=4)
    number = next(i for i, cell in enumerate(notebook.cells) if cell["id"] == CELL)
    before = [nbformat.v4.new_code_cell(WAIT)] if reads else []
    last = nbformat.v4.new_code_cell(SHOW)
    notebook.cells = [*notebook.cells[:number], *before, notebook.cells[number], last]
    with tempfile.TemporaryDirectory() as folder:
        done = run_cells(notebook, Path(folder))
    return float(done.cells[-1].outputs[0]["text"])


def main() -> None:
    """Measures, prints, and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    ways = {"presses Run All": False, "reads, and presses Run": True}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _round in range(args.repeat):
        for way, reads in ways.items():
            found[way].append(seconds_to_first_step(reads=reads))
    rows = [
        f"| {way} | {median(times):.1f} | {min(times):.1f}–{max(times):.1f} |"
        for way, times in found.items()
    ]
    columns = ("the reader", "first step after, s", "range")
    publish(page("The first training run of lesson 1", columns, rows), args.output, "run_all.md")


if __name__ == "__main__":
    main()
