"""Whether a stored output still says what the messages of its cell say in the language."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from string import Formatter

from tools.lessons import notebook
from tools.lessons.notebook import Json

PRINT = "print_tr"


def outdated(text: Json, translate: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """The printed messages that a cell's stored output lacks, with the ids of the cells.

    Args:
      text: a notebook.
      translate: an English message into the language of the notebook.
    """
    for cell in notebook.cells(text, "code"):
        printed = notebook.printed(cell["outputs"])
        for message in _printed_messages(notebook.python_code(cell)) if printed else ():
            if not re.search(_pattern(translate(message)), printed):
                yield cell["id"], message


def _printed_messages(source: str) -> Iterator[str]:
    """The texts of `print_tr` in statements that a run of the cell always reaches."""
    statements: list[ast.stmt] = ast.parse(source).body
    while statements:
        statement = statements.pop(0)
        if isinstance(statement, (ast.For, ast.With)):
            statements[:0] = statement.body
        match statement:
            case ast.Expr(ast.Call(ast.Name(id=called), [ast.Constant(str(message)), *_])):
                if called == PRINT:
                    yield message
            case _:
                pass


def _pattern(message: str) -> str:
    """A regular expression for a message with any values; spaces may have been added."""
    parts = []
    for literal, name, *_ in Formatter().parse(message):
        parts += [re.escape(literal), "" if name is None else ".*"]
    return "".join(parts)
