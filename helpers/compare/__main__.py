"""Compares the results of a program on groups of different sizes.

    python -m helpers.compare program.py [--workers 1,2,3] [--tolerance 1e-5] [arguments …]

Each worker runs the program as a script. The command prints the table and the likely kind of fault.
Its exit code is 1 if the groups differ.
"""

from __future__ import annotations

import argparse
import functools
import os
import runpy
import sys
from collections.abc import Sequence

from helpers.compare import TIMEOUT_SECONDS, TOLERANCE, WORKERS, compare


def run_program(path: str, arguments: Sequence[str]) -> None:
    """Runs a script in this process, like `python path`."""
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command, and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m helpers.compare")
    parser.add_argument("program", help="a Python file that trains a Keras 3 model")
    parser.add_argument(
        "--workers",
        type=lambda text: [int(count) for count in text.split(",")],
        default=list(WORKERS),
        help="the group sizes, the first of which is the reference (1,2,3)",
    )
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    parser.add_argument("--timeout", type=float, default=TIMEOUT_SECONDS, metavar="SECONDS")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the program")
    args = parser.parse_args(argv)
    function = functools.partial(run_program, os.path.abspath(args.program), args.arguments)
    result = compare(function, args.workers, tolerance=args.tolerance, timeout=args.timeout)
    print(result)
    return 0 if result.equal else 1


if __name__ == "__main__":
    sys.exit(main())
