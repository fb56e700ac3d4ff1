"""Measures the reference solutions of the projects and TensorFlow in turns.

    python -m benchmarks.projects PROJECT [--quick] [--output FOLDER]

Both do the same, in two processes or with two workers and a server. Writes `results/PROJECT.md`.
--quick measures one round.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    RESULTS,
    ROOT,
    model_parallel_race,
    parameter_server_race,
    sharded_adam_race,
)
from benchmarks.machine import describe, sentence
from helpers.course.projects import data_parallel_race, ring_all_reduce_race
from tools.lessons import notebook
from tools.lessons.project import Project

MAGIC = "%%writefile "
QUICK_STEPS = 10
QUICK_UPDATES = 40


def write_modules(domain: str, folder: Path) -> None:
    """Writes the modules of a project's reference solution into a folder."""
    solution = Project.load(ROOT).solution(domain)
    assert solution
    for cell in notebook.read(solution)["cells"]:
        first, _newline, rest = notebook.source(cell).partition("\n")
        if first.startswith(MAGIC):
            (folder / first.removeprefix(MAGIC)).write_text(rest, "utf-8")


def ring_all_reduce(module: Path, quick: bool) -> str:
    """The quartiles of an all-reduce in milliseconds, as Markdown."""
    rounds = 1 if quick else ring_all_reduce_race.ROUNDS
    times = ring_all_reduce_race.measure(module, rounds)
    lines = ["| all-reduce of 1.4 MB | median, ms | quartiles, ms |", "|---|---|---|"]
    for name, values in (
        ("reference solution", times.own),
        ("TensorFlow's RING", times.tensorflow),
    ):
        low, middle, high = (1e3 * value for value in statistics.quantiles(values, n=4))
        lines.append(f"| {name} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return "\n".join(lines)


def data_parallel(module: Path, quick: bool) -> str:
    """The times of a step in milliseconds, and the differences from one process, as Markdown."""
    race = data_parallel_race
    rounds, steps = (1, QUICK_STEPS) if quick else (race.ROUNDS, race.STEPS)
    sides = race.measure(module, rounds, steps)
    lines = [
        "| training of two processes | median of a step, ms | range, ms | difference from one |",
        "|---|---|---|---|",
    ]
    return "\n".join(lines + side_lines(sides, "TensorFlow"))


def side_lines(sides: data_parallel_race.Sides, other: str) -> list[str]:
    """The rows of both, of which TensorFlow's has this name."""
    lines = []
    for name, side in zip(("reference solution", other), sides, strict=True):
        low, middle, high = (
            1e3 * function(side.seconds) for function in (min, statistics.median, max)
        )
        lines.append(f"| {name} | {middle:.2f} | {low:.2f} to {high:.2f} | {side.difference:.1g} |")
    return lines


def model_parallel(module: Path, quick: bool) -> str:
    """The times of a step of the block, and the differences from one process, as Markdown."""
    race = model_parallel_race
    rounds, steps = (1, QUICK_STEPS) if quick else (race.ROUNDS, race.STEPS)
    sides = race.measure(module, rounds, steps)
    lines = [
        "| two layers in two processes | median of a step, ms | range, ms | difference from one |",
        "|---|---|---|---|",
    ]
    return "\n".join(lines + side_lines(sides, "TensorFlow's DTensor"))


def sharded_adam(module: Path, quick: bool) -> str:
    """The moments, the times of a step and the differences from one process, as Markdown."""
    race = sharded_adam_race
    rounds, steps = (1, QUICK_STEPS) if quick else (race.ROUNDS, race.STEPS)
    sides = race.measure(module, rounds, steps)
    lines = [
        "| Adam in two processes | moments of a process, MB | median of a step, ms | "
        "quartiles, ms | difference from one |",
        "|---|---|---|---|---|",
    ]
    for name, side in zip(("reference solution", "TensorFlow"), sides, strict=True):
        low, middle, high = (1e3 * value for value in statistics.quantiles(side.seconds, n=4))
        lines.append(
            f"| {name} | {side.state / 1e6:.2f} | {middle:.2f} | {low:.2f} to {high:.2f} | "
            f"{side.difference:.1g} |"
        )
    return "\n".join(lines)


def parameter_server(module: Path, quick: bool) -> str:
    """The updates per second and their staleness, with and without a slow worker, as Markdown."""
    race = parameter_server_race
    rounds, updates = (1, QUICK_UPDATES) if quick else (race.ROUNDS, race.UPDATES)
    sides: dict[str, Callable[[float], parameter_server_race.Result]] = {
        f"reference solution, bound {race.BOUND}": lambda delay: race.measure_own(
            module, updates, delay
        ),
        "TensorFlow": lambda delay: race.measure_tensorflow(updates, delay),
    }
    lines = [
        "| two workers and a server | slow worker | updates per second | range | "
        "mean staleness | largest |",
        "|---|---|---|---|---|---|",
    ]
    for slow, delay in (("none", 0.0), (f"{1e3 * race.DELAY:.0f} ms per step", race.DELAY)):
        found = [{name: side(delay) for name, side in sides.items()} for _round in range(rounds)]
        for name in sides:
            results = [turn[name] for turn in found]
            rates = [result.rate for result in results]
            staleness = [value for result in results for value in result.staleness]
            lines.append(
                f"| {name} | {slow} | {statistics.median(rates):.0f} | {min(rates):.0f} to "
                f"{max(rates):.0f} | {statistics.mean(staleness):.1f} | {max(staleness)} |"
            )
    return "\n".join(lines)


Table = Callable[[Path, bool], str]
PROJECTS: dict[str, tuple[str, str, Table]] = {
    "ring_all_reduce": ("projects/01_ring_all_reduce", "Ring all-reduce by hand", ring_all_reduce),
    "data_parallel": ("projects/02_data_parallel", "Data parallelism by hand", data_parallel),
    "model_parallel": ("projects/04_model_parallel", "Tensor parallelism by hand", model_parallel),
    "sharded_adam": ("projects/03_sharded_adam", "Sharded Adam by hand", sharded_adam),
    "parameter_server": (
        "projects/05_parameter_server",
        "Parameter server by hand",
        parameter_server,
    ),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("project", choices=PROJECTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args(argv)
    (domain, title, table), machine = PROJECTS[args.project], describe(None)
    with tempfile.TemporaryDirectory() as folder:
        write_modules(domain, Path(folder))
        figures = table(Path(folder) / f"{args.project}.py", args.quick)
    text = f"# {title}\n\n{sentence(machine)}\n\n{figures}\n"
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / f"{args.project}.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
