"""Examples per second and time to 97 %, of this package and of the other contenders.

    python -m benchmarks.throughput [--quick] [--repeat N] [--only TEXT] [--torch-python PYTHON]

README.md, one folder up, describes the measurements and how to read them.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import RESULTS
from benchmarks.machine import describe, find_torch, sentence
from benchmarks.throughput.course import Course, Plan
from benchmarks.throughput.launch import BenchmarkError
from benchmarks.throughput.lineup import FULL, SHORT, Contender
from benchmarks.throughput.measure import Row, write_csv
from benchmarks.throughput.picture import draw
from benchmarks.throughput.table import ratios, table

FULL_EPOCHS = 3
FROM_STEP = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark. Returns 1 if a contender failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `finally` is executed
    args = _parse(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    torch_version = None if args.quick else find_torch(args.torch_python)
    machine = describe(torch_version)
    (args.output / "machine.json").write_text(json.dumps(machine, indent=2) + "\n", "utf-8")
    print(sentence(machine), flush=True)

    contenders: Sequence[Contender] = SHORT if args.quick else FULL
    if not args.quick and torch_version is None:
        print(
            f"PyTorch DDP is skipped: {args.torch_python} has no PyTorch with NumPy. "
            "Name an interpreter that has them with --torch-python."
        )
        contenders = tuple(contender for contender in FULL if not contender.needs_torch)
    contenders = [c for c in contenders if not args.only or any(o in str(c) for o in args.only)]
    epochs = args.epochs or (1 if args.quick else FULL_EPOCHS)
    plan = Plan(epochs, args.steps, args.from_step, args.torch_python)
    rows, failures = measure_all(contenders, plan, args.repeat, args.output / "throughput.csv")
    if rows:
        draw(rows, sentence(machine), args.output / "throughput.svg")
        print(f"\n{table(rows)}\n\n{ratios(rows)}\n\nWritten to {args.output}.")
    return 1 if failures else 0


def measure_all(
    contenders: Sequence[Contender], plan: Plan, repeats: int, output: Path
) -> tuple[list[Row], int]:
    """Measures every contender once per round, so that a slow minute affects all contenders alike.

    Every second round has the reverse order, so that no contender always follows the same one.

    Returns the rows and the number of failed measurements. The rows are written to the CSV file
    `output` as soon as they are known.
    """
    rows: list[Row] = []
    failures = 0
    with tempfile.TemporaryDirectory(prefix="throughput-") as folder:
        course = Course(plan, Path(folder))
        for repeat in range(1, repeats + 1):
            for contender in contenders if repeat % 2 else contenders[::-1]:
                print(f"[{repeat}/{repeats}] {contender}: ", end="", flush=True)
                try:
                    rows.append(course.measure(contender, repeat))
                except BenchmarkError as error:
                    failures += 1
                    print(f"failed\n{error}", flush=True)
                else:
                    print(f"{rows[-1].examples_per_second:,.0f} examples/s", flush=True)
                    write_csv(rows, output)
    return rows, failures


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput")
    parser.add_argument("--quick", action="store_true", help="a few contenders, one epoch")
    parser.add_argument("--repeat", type=_count, default=1, help="rounds through all contenders")
    parser.add_argument(
        "--torch-python", default=sys.executable, help="the interpreter that has PyTorch"
    )
    parser.add_argument("--epochs", type=_count, help="of each training run; default: 3")
    parser.add_argument("--steps", type=_count, help="stop every training run at this step")
    parser.add_argument(
        "--from-step", type=_count, default=FROM_STEP, help="measure from this step on"
    )
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="contenders with this text; repeatable"
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
