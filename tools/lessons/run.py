"""Executes one lesson from top to bottom, like Run All.

    python -m tools.lessons.run --lesson 01 --lang en

The executed copy is stored in a folder that is printed at the end. The lesson itself is unchanged.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError

from helpers.results.training_result import RESULT_MIME
from tools.lessons.execute import run_cells

LESSONS = Path(__file__).resolve().parents[2] / "notebooks"


def find_lesson(number: str, language: str) -> Path:
    """The notebook whose name begins with `number`.

    Raises:
      SystemExit: there is no such notebook. The message lists the existing ones.
    """
    folder = LESSONS / language
    if not folder.is_dir():
        folders = {path.parent.name for path in LESSONS.glob("*/*.ipynb")} - {"solutions"}
        languages = sorted(folders)
        raise SystemExit(
            f"There are no lessons in {language!r}. Choose LESSON_LANG={'|'.join(languages)}."
        )
    found = sorted(folder.glob(f"{number.zfill(2)}_*.ipynb"))
    if not found:
        numbers = sorted(path.name[:2] for path in folder.glob("[0-9][0-9]_*.ipynb"))
        raise SystemExit(f"There is no lesson {number!r}. Choose LESSON={'|'.join(numbers)}.")
    return found[0]


def execute(path: Path) -> Any:
    """Runs every cell in the lesson's own folder, and returns the notebook with outputs."""
    return run_cells(nbformat.read(path, as_version=4), path.parent)


def best_result(notebook: Any) -> dict[str, Any]:
    """The training result with the highest accuracy among the outputs, or {} without one."""
    found = [
        output["data"][RESULT_MIME]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if RESULT_MIME in output.get("data", {})
    ]
    return max(found, key=lambda result: result["accuracy"] or 0, default={})


def summary(result: dict[str, Any], seconds: float) -> str:
    """One line: steps, accuracy, examples per second, seconds."""
    if not result:
        return f"executed in {seconds:.0f} s"
    return (
        f"{result['steps']} steps on {result['workers']} workers, accuracy "
        f"{result['accuracy']:.4f}, {result['examples_per_second']:,.0f} examples/s, "
        f"{result['seconds']:.1f} s of {seconds:.0f} s for the whole lesson"
    )


def main(argv: list[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.lessons.run", description=__doc__)
    parser.add_argument("--lesson", default="01", help="its number, such as 01")
    parser.add_argument("--lang", default="en", help="en, ru, zh, ko or es")
    args = parser.parse_args(argv)
    path = find_lesson(args.lesson, args.lang)
    print(f"Running {path.relative_to(LESSONS.parent)} ...", flush=True)
    start = time.monotonic()
    try:
        notebook = execute(path)
    except CellExecutionError as error:
        print(f"{path.name} failed.\n{error}", file=sys.stderr)
        return 1
    target = Path(tempfile.mkdtemp(prefix="lesson-")) / path.name
    nbformat.write(notebook, target)
    print(summary(best_result(notebook), time.monotonic() - start))
    print(f"Executed notebook: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
