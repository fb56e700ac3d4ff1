"""Grades a cell, whose answers run in the submission's kernel and are judged in this process.

No part of a submission is executed in this process. It only uses the calls of `check` with literal
arguments in a graded cell. The value of the cell is the least points of these calls. A submission
may replace `check`, `helpers` or NumPy in its own kernel, but not in this process.
"""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import nbformat
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbgrader.utils import is_grade, is_solution

from helpers import i18n
from helpers.course.check import TASKS, answer_runner, check
from helpers.course.exercises import sandbox_protocol
from helpers.protocol import results

Calls = list[tuple[str, dict[str, Any]]]


def check_calls(cell: Any) -> Calls:
    """The calls of `check` in a graded cell, in order, as names of tasks with their cases.

    The list is empty if the cell is not graded, or calls `check` with arguments that are not
    literals.
    """
    if not is_grade(cell) or is_solution(cell):
        return []
    try:
        tree = ast.parse(cell["source"])
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_check(node)]
        found = [(ast.literal_eval(node.args[0]), _case(node)) for node in sorted(calls, key=_line)]
    except (SyntaxError, ValueError, IndexError):
        return []
    return found if all(name in TASKS for name, _case in found) else []


def grade_cell(calls: Calls, execute: Callable[[Any], Any]) -> list[Any]:
    """The outputs of a graded cell.

    Args:
      calls: the result of `check_calls` for the cell.
      execute: executes a cell in the submission's kernel, and returns it.
    """
    printed = io.StringIO()
    errors: list[Any] = []
    earned: list[float] = []
    with contextlib.redirect_stdout(printed), _running_answers(execute, errors):
        for name, case in calls:
            earned.append(_points(name, case))
            if not earned[-1]:
                break
    value = {
        "text/plain": repr(float(min(earned)))
    }  # never None, for which nbgrader awards all points
    return [
        *errors,
        nbformat.v4.new_output("stream", text=printed.getvalue()),
        nbformat.v4.new_output("execute_result", value, execution_count=None),
    ]


def _points(name: str, case: Mapping[str, Any]) -> float:
    """The points of `check`, or 0 if it fails for an invalid observation."""
    try:
        return check(name, **case)
    except (DeadKernelError, CellTimeoutError):
        raise
    except Exception as error:
        print(f"{name}: {type(error).__name__}")
        return 0.0


@contextmanager
def _running_answers(execute: Callable[[Any], Any], errors: list[Any]) -> Iterator[None]:
    """Makes `check` run answers in the submission's kernel, and use the submission's language.

    Errors from that kernel are added to `errors`. Meanwhile, this process does not unpickle
    results of workers. A criterion that starts workers itself uses only plain values.
    """

    def run_answer(name: str, case: Mapping[str, Any]) -> Any:
        cell = execute(nbformat.v4.new_code_cell(sandbox_protocol.run_cell_source(name, case)))
        errors.extend(output for output in cell.outputs if output.output_type == "error")
        values = [output for output in cell.outputs if output.output_type == "execute_result"]
        return sandbox_protocol.parse_result(
            values[-1]["data"].get("text/plain", "") if values else ""
        )

    token, own = answer_runner.set(run_answer), i18n.language()
    unpickling = results.may_unpickle.set(False)
    try:
        yield
    finally:
        results.may_unpickle.reset(unpickling)
        answer_runner.reset(token)
        i18n.set_language(own)


def _is_check(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "check"


def _line(node: ast.Call) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _case(node: ast.Call) -> dict[str, Any]:
    return {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
