"""Collects the predictions of a class from its notebooks, and draws a histogram of each question.

    python -m tools.teaching.predictions SUBMISSIONS --output predictions.html

A submission is SUBMISSIONS/student/01_….ipynb, a lesson in any language. Nothing in it is executed:
only the source of its cells is parsed. The numbers also go to predictions.csv, next to the page.
The page contains no names, so it can be shown in class.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.course.predictions import QUESTIONS, record_prediction, to_prediction
from tools.teaching import prediction_report, submissions
from tools.teaching.submissions import SubmissionError, spreadsheet_cell

FUNCTION = record_prediction.__name__
CALL = re.compile(FUNCTION + r"""\(\s*["'](\w{1,40})["']""", re.ASCII)
MAX_CELL = 10_000  # characters; a longer cell is not parsed
NOT_ALL_READ = 3  # exit code


@dataclass(frozen=True)
class Prediction:
    """What a student entered for a question.

    Attributes:
      student: the name of the student's folder.
      question: a name in `QUESTIONS`.
      number: the prediction, or None.
      problem: why there is no number, or an empty string.
    """

    student: str
    question: str
    number: float | None
    problem: str = ""


def collect(folder: Path) -> tuple[list[Prediction], list[str]]:
    """The predictions in a folder of submissions, and a sentence for each file that was not read.

    Raises:
      OSError: the folder cannot be read.
    """
    lessons = sorted({question.lesson for question in QUESTIONS.values()})
    found, ignored = submissions.find(folder, lessons)
    predictions: list[Prediction] = []
    for submission in found:
        try:
            sources = list(_sources(json.loads(submission.read())["cells"]))
        except SubmissionError as error:
            path = submissions.printable(str(submission.path))
            ignored.append(f"{path} is ignored: {error}")
            continue
        numbers = read_predictions(sources)
        for name, question in QUESTIONS.items():
            if question.lesson == submission.assignment:
                number, problem = numbers.get(name, (None, "no call"))
                predictions.append(Prediction(submission.name, name, number, problem))
    return predictions, ignored


def read_predictions(sources: Sequence[str]) -> dict[str, tuple[float | None, str]]:
    """The number of each question in the source of cells, or the problem. The last call counts.

    Args:
      sources: Python code, which may be anything, because it is someone else's.
    """
    found: dict[str, tuple[float | None, str]] = {}
    for source in sources:
        if FUNCTION not in source:
            continue
        calls = _parse(source)
        if calls is None:
            names = CALL.findall(source[:MAX_CELL])
            calls = {name: (None, "cell with a syntax error") for name in names}
        found |= {name: entry for name, entry in calls.items() if name in QUESTIONS}
    return found


def _sources(cells: list[Any]) -> Iterator[str]:
    """The source of each code cell. Anything else in a notebook is skipped."""
    for cell in cells:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source")
            if isinstance(source, list):
                source = "".join(line for line in source if isinstance(line, str))
            if isinstance(source, str):
                yield source


def _parse(source: str) -> dict[str, tuple[float | None, str]] | None:
    """The predictions in a cell, or None if it cannot be parsed."""
    if len(source) > MAX_CELL:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of code that is valid but suspicious
            nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: dict[str, tuple[float | None, str]] = {}
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name),
                args=[ast.Constant(value=str(question)), *values],
            ) if name == FUNCTION:
                found[question] = _number(values)
    return found


def _number(values: list[ast.expr]) -> tuple[float | None, str]:
    """The number that a call passes, or the problem."""
    match values:
        case [] | [ast.Constant(value=None)]:
            return None, "no number"
        case [value]:
            try:
                number = to_prediction(_evaluate(value))
            except (ArithmeticError, RecursionError):
                number = None
            return number, "" if number is not None else "not a number"
    return None, "not a number"


def _evaluate(node: ast.expr) -> object:
    """The value of a number or of arithmetic with floats, or None for any other expression.

    Integers become floats first, because arithmetic with large ones could take forever.
    """
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            value = _evaluate(operand)
            if isinstance(value, float):
                return -value if isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _evaluate(left), _evaluate(right)
            if isinstance(a, float) and isinstance(b, float):
                return _calculate(a, operator, b)
    return None


def _calculate(a: float, operator: ast.operator, b: float) -> object:
    match operator:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div():
            return a / b
        case ast.Pow():
            return a**b
    return None


def write_csv(predictions: Sequence[Prediction], path: Path) -> None:
    """Writes one row per student and question."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("lesson", "question", "student", "prediction", "problem"))
        for one in predictions:
            row = (QUESTIONS[one.question].lesson, one.question, one.student, one.number)
            writer.writerow([*map(spreadsheet_cell, row), one.problem])


def main(argv: list[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.teaching.predictions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("submissions", type=Path, help="contains student/01_….ipynb")
    parser.add_argument("--output", type=Path, default=Path("predictions.html"))
    args = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    table = args.output.with_suffix(".csv")
    if table == args.output:
        parser.error("--output is the page. Choose another suffix than .csv, which the table uses.")
    try:
        predictions, ignored = collect(args.submissions)
        for sentence in ignored:
            print(sentence)
        if not predictions:
            lesson = next(iter(QUESTIONS.values())).lesson
            print(
                f"No predictions: {args.submissions} needs folders named after students, with "
                f"lessons such as {lesson}.ipynb in them.",
                file=sys.stderr,
            )
            return 1
        summaries = prediction_report.summarize(
            [(one.question, one.number, one.problem) for one in predictions]
        )
        for summary in summaries:
            print(summary)
        args.output.write_text(prediction_report.page(summaries), "utf-8")
        write_csv(predictions, table)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{args.output}: the histograms. {table}: all numbers, with names.")
    return NOT_ALL_READ if ignored else 0


if __name__ == "__main__":
    sys.exit(main())
