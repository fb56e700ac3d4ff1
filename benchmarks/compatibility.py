"""Estimator capabilities by TensorFlow version. Every cell of the table is a run.

    python -m benchmarks.compatibility --python .venv-tf215/bin/python --python .venv/bin/python

Each interpreter has its own TensorFlow. One of them must have 2.15, whose numbers are the
reference.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import RESULTS, ROOT
from helpers.system.ports import free_ports, without_proxies

CAPABILITIES = (
    "one_worker",
    "two_workers",
    "chief_and_evaluator",
    "predict",
    "canned_estimators",
    "model_to_estimator",
    "export_and_reload",
    "resume",
)
JOBS = {  # capabilities that need several processes
    "two_workers": ("worker", "worker"),
    "chief_and_evaluator": ("chief", "worker", "evaluator"),
}
REFERENCE = "2.15."
TOLERANCE = 1e-5
TIMEOUT_SECONDS = 240.0
POLL_INTERVAL = 0.1

Numbers = dict[str, list[float]]  # by task


@dataclass(frozen=True)
class Cell:
    """One capability under one TensorFlow.

    Attributes:
      tensorflow, python: the versions.
      numbers: the numbers of the run, task by task, or None if it failed.
      reason: the last line of a run that failed.
      difference: the largest difference from the reference, relative for numbers above 1.
    """

    tensorflow: str
    python: str
    capability: str
    numbers: Numbers | None
    reason: str = ""
    difference: float | None = None

    @property
    def passed(self) -> bool:
        """Whether it ran and its numbers equal the reference."""
        return self.difference is not None and self.difference <= TOLERANCE

    def show(self) -> str:
        """Formats the cell for the table."""
        if self.numbers is None:
            return f"failed: {self.reason}"
        if self.difference is None:
            return "another count of numbers"
        if self.difference == 0:
            return "equal"
        return f"{'equal to' if self.passed else 'differs by'} {self.difference:.0e}"


def run(python: str, capability: str, folder: Path) -> Numbers:
    """Runs a capability in all the processes that it needs.

    Raises:
      RuntimeError: a process failed or did not end. The message is its last line.
    """
    started: list[subprocess.Popen[bytes]] = []
    command = [python, "-m", "benchmarks.capabilities", capability, str(folder)]
    try:
        for number, environ in enumerate(_environments(capability)):
            started.append(_start(command, environ, folder / f"log-{number}.txt"))
        _wait(started, folder)
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def difference(numbers: Numbers, reference: Numbers) -> float | None:
    """Returns the largest difference between two runs, or None if their shapes differ."""
    if {task: len(n) for task, n in numbers.items()} != {t: len(n) for t, n in reference.items()}:
        return None
    pairs = [pair for task in numbers for pair in zip(numbers[task], reference[task], strict=True)]
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in pairs)


def measure(python: str, capabilities: Sequence[str]) -> Iterator[Cell]:
    """Measures one row of the table, without the comparison."""
    versions = _versions(python)
    for capability in capabilities:
        with tempfile.TemporaryDirectory(prefix="compatibility-") as folder:
            try:
                yield Cell(*versions, capability, run(python, capability, Path(folder)))
            except RuntimeError as error:
                yield Cell(*versions, capability, None, str(error))


def compare(cells: Sequence[Cell]) -> list[Cell]:
    """Returns the cells with their differences from TensorFlow 2.15."""
    known = {c.capability: c.numbers for c in cells if c.tensorflow.startswith(REFERENCE)}
    return [
        replace(cell, difference=difference(cell.numbers, reference))
        if cell.numbers and (reference := known.get(cell.capability))
        else cell
        for cell in cells
    ]


def table(cells: Sequence[Cell]) -> str:
    """Formats a row for each TensorFlow as Markdown."""
    capabilities = list(dict.fromkeys(cell.capability for cell in cells))
    rows = [["TensorFlow", "Python", *(name.replace("_", " ") for name in capabilities)]]
    rows.append(["---"] * len(rows[0]))
    for versions in dict.fromkeys((cell.tensorflow, cell.python) for cell in cells):
        row = [cell.show() for cell in cells if (cell.tensorflow, cell.python) == versions]
        rows.append([*versions, *row])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write(cells: Sequence[Cell], folder: Path) -> None:
    """Writes compatibility.md and compatibility.csv."""
    note = (
        "Estimator by TensorFlow version, written by `python -m benchmarks.compatibility`. Every "
        "cell is a run whose losses and predictions are compared with TensorFlow "
        f"{REFERENCE}1. If they are not equal bit for bit, the table shows the largest difference. "
        f"A difference of up to {TOLERANCE:g} counts as equal.\n\n"
    )
    (folder / "compatibility.md").write_text(note + table(cells))
    columns = ("tensorflow", "python", "capability", "passed", "difference", "reason")
    with (folder / "compatibility.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([getattr(cell, name) for name in columns] for cell in cells)


def main(argv: list[str] | None = None) -> int:
    """Runs the program. Returns 1 if a cell failed or differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", required=True, help="one for each row")
    parser.add_argument("--only", action="append", choices=CAPABILITIES, help="these capabilities")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args(argv)
    if not any(_versions(python)[0].startswith(REFERENCE) for python in args.python):
        parser.error(f"one --python must have TensorFlow {REFERENCE}1, which is the reference")
    cells: list[Cell] = []
    for python in args.python:
        for cell in measure(python, args.only or CAPABILITIES):
            print(cell.tensorflow, cell.capability, cell.reason or "ran", flush=True)
            cells.append(cell)
    cells = compare(cells)
    args.output.mkdir(parents=True, exist_ok=True)
    write(cells, args.output)
    print(table(cells))
    return 0 if all(cell.passed for cell in cells) else 1


def _versions(python: str) -> tuple[str, str]:
    code = (
        "import platform; from importlib.metadata import version; "
        "print(version('tensorflow'), platform.python_version())"
    )
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    tensorflow, version = answer.stdout.split()
    return tensorflow, version


def _environments(capability: str) -> list[dict[str, str]]:
    """Returns one environment for each process that a capability needs."""
    base = without_proxies(os.environ)
    for name in ("TF_CONFIG", "TF_USE_LEGACY_KERAS"):
        base.pop(name, None)
    base |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}  # the package is not installed
    return [base | {"TF_CONFIG": text} for text in _tf_configs(capability)] or [base]


def _tf_configs(capability: str) -> Iterator[str]:
    """Returns `TF_CONFIG` for each task. The strategy requires the evaluator in the cluster."""
    jobs = JOBS.get(capability, ())
    cluster: dict[str, list[str]] = {}
    for job, port in zip(jobs, free_ports(len(jobs)), strict=True):
        cluster.setdefault(job, []).append(f"127.0.0.1:{port}")
    for job, addresses in cluster.items():
        for index in range(len(addresses)):
            yield json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


def _start(command: list[str], environ: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its child processes can be killed with it
        )


def _wait(processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while any(process.poll() is None for process in processes):
        for number, process in enumerate(processes):
            if process.poll():
                raise RuntimeError(_last_line(folder, number))
        if time.monotonic() > deadline:
            late = next(n for n, process in enumerate(processes) if process.poll() is None)
            last = _last_line(folder, late)
            raise RuntimeError(f"process {late} did not end in {TIMEOUT_SECONDS:g} s; {last}")
        time.sleep(POLL_INTERVAL)
    for number, process in enumerate(processes):
        if process.returncode:
            raise RuntimeError(_last_line(folder, number))


def _last_line(folder: Path, number: int) -> str:
    lines = (folder / f"log-{number}.txt").read_text("utf-8", "replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "no word")


if __name__ == "__main__":
    sys.exit(main())
