"""Compiles the code of a cell for a worker."""

from __future__ import annotations

import ast
from types import CodeType

FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def compile_cell(code: str, name: str) -> list[tuple[CodeType, bool]]:
    """Compiles a cell into its statements and, if the cell ends with one, its last expression.

    Args:
      name: the name of the file in tracebacks.

    Returns: each part, and whether it is the expression whose value is shown. Like in a notebook, a
      semicolon at the end of the cell hides it.

    Raises:
      SyntaxError, ValueError, RecursionError, MemoryError: the code is not valid Python.
    """
    tree = ast.parse(code, name)
    last = tree.body[-1] if tree.body else None
    shown = isinstance(last, ast.Expr) and not code.rstrip().endswith(";")
    parts: list[tuple[CodeType, bool]] = []
    statements = tree.body[:-1] if shown else tree.body
    if statements:
        module = ast.Module(statements, tree.type_ignores)
        parts.append((compile(module, name, "exec", FLAGS, dont_inherit=True), False))
    if shown:
        assert isinstance(last, ast.Expr)
        expression = ast.Expression(last.value)
        parts.append((compile(expression, name, "eval", FLAGS, dont_inherit=True), True))
    return parts
