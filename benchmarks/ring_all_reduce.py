"""Measures the reference solution of project 1 and TensorFlow's RING in turns.

    python -m benchmarks.ring_all_reduce [--module FILE] [--output FOLDER]

Both sum 1.4 MB in two processes (`helpers.course.projects.ring_all_reduce_race`). Writes
`results/ring_all_reduce.md`. With --module, another module is measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.machine import describe, sentence
from helpers.course.projects.ring_all_reduce_race import Times, measure
from tools.lessons import notebook
from tools.lessons.project import Project

DOMAIN, CELL = "projects/01_ring_all_reduce", "module"


def reference(folder: Path) -> Path:
    """Writes the module of the reference solution into a folder."""
    solution = Project.load(ROOT).solution(DOMAIN)
    assert solution
    [cell] = [cell for cell in notebook.read(solution)["cells"] if cell["id"] == CELL]
    path = folder / "ring_all_reduce.py"
    path.write_text(notebook.source(cell).partition("\n")[2], "utf-8")  # without the magic
    return path


def table(times: Times) -> str:
    """The quartiles of both in milliseconds, as Markdown."""
    lines = ["| all-reduce of 1.4 MB | median, ms | quartiles, ms |", "|---|---|---|"]
    for name, values in (
        ("reference solution", times.own),
        ("TensorFlow's RING", times.tensorflow),
    ):
        low, middle, high = (1e3 * value for value in statistics.quantiles(values, n=4))
        lines.append(f"| {name} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--module", type=Path)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args(argv)
    machine = describe(None)
    with tempfile.TemporaryDirectory() as folder:
        times = measure(args.module or reference(Path(folder)))
    text = f"# Ring all-reduce by hand\n\n{sentence(machine)}\n\n{table(times)}\n"
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "ring_all_reduce.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
