"""Measures the reference solution of project 2 and TensorFlow in turns.

    python -m benchmarks.data_parallel [--quick] [--output FOLDER]

Both train the same network in two processes (`helpers.course.projects.data_parallel_race`). Writes
`results/data_parallel.md`. --quick measures one round of few steps.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.machine import describe, sentence
from helpers.course.projects.data_parallel_race import ROUNDS, STEPS, Sides, measure
from tools.lessons import notebook
from tools.lessons.project import Project

DOMAIN = "projects/02_data_parallel"
MAGIC = "%%writefile "
QUICK_STEPS = 10


def reference(folder: Path) -> Path:
    """Writes the modules of the reference solution into a folder."""
    solution = Project.load(ROOT).solution(DOMAIN)
    assert solution
    for cell in notebook.read(solution)["cells"]:
        first, _newline, rest = notebook.source(cell).partition("\n")
        if first.startswith(MAGIC):
            (folder / first.removeprefix(MAGIC)).write_text(rest, "utf-8")
    return folder / "data_parallel.py"


def table(sides: Sides) -> str:
    """The times of a step in milliseconds, and the differences from one process, as Markdown."""
    lines = [
        "| training of two processes | median of a step, ms | range, ms | difference from one |",
        "|---|---|---|---|",
    ]
    for name, side in zip(("reference solution", "TensorFlow"), sides, strict=True):
        low, middle, high = (
            1e3 * function(side.seconds) for function in (min, statistics.median, max)
        )
        lines.append(f"| {name} | {middle:.2f} | {low:.2f} to {high:.2f} | {side.difference:.1g} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args(argv)
    machine = describe(None)
    rounds, steps = (1, QUICK_STEPS) if args.quick else (ROUNDS, STEPS)
    with tempfile.TemporaryDirectory() as folder:
        sides = measure(reference(Path(folder)), rounds, steps)
    text = f"# Data parallelism by hand\n\n{sentence(machine)}\n\n{table(sides)}\n"
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "data_parallel.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
