"""The source of functions, classes and assignments: notebook cells, scripts and modules."""

from __future__ import annotations

import ast
import functools
import linecache
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from helpers.protocol.payload import cell_sources

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """The text of a cell or a file, and its statements."""

    text: str
    tree: ast.Module

    def segment(self, node: ast.stmt) -> str:
        """The text of a statement with its decorators, without its indentation in the source."""
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(one.lineno for one in decorators)])
        lines = self.text.splitlines()[first - 1 : node.end_lineno]
        text = textwrap.dedent("\n".join(lines))
        # With a multi-line string, `dedent` may remove no indentation, or change the string.
        with_same_meaning = _parse(text)
        if with_same_meaning and ast.dump(with_same_meaning.tree.body[0]) == ast.dump(node):
            return text
        return ast.unparse(node)


def of_function(function: FunctionType) -> tuple[Source, Definition] | None:
    """The source that contains a function, and its definition, or None if either is unknown."""
    code = function.__code__
    source = _of_file(code.co_filename)
    if source is None:
        return None
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == code.co_firstlineno:
                return source, node
    return None


def of_class(cls: type) -> tuple[Source, Definition] | None:
    """The source that contains a class, and its definition, or None if either is unknown."""
    for member in vars(cls).values():
        method = getattr(member, "__func__", getattr(member, "fget", member))
        if not isinstance(method, FunctionType) or method.__module__ != cls.__module__:
            continue
        source = _of_file(method.__code__.co_filename)
        for node in ast.walk(source.tree) if source else ():
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                line = method.__code__.co_firstlineno
                if node.lineno <= line <= (node.end_lineno or 0):
                    assert source is not None
                    return source, node
    for source in _of_main():  # a class without methods
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                return source, node
    return None


def assignment(name: str, fits: Callable[[ast.expr], bool]) -> str | None:
    """The last assignment of a notebook or script to `name` whose value fits, or None."""
    for source in _of_main():
        for node in reversed(source.tree.body):
            if not isinstance(node, ast.Assign) or not fits(node.value):
                continue
            if [getattr(one, "id", None) for one in node.targets] == [name]:
                return source.segment(node)
    return None


def import_of(name: str, value: object, globals_: dict[str, Any]) -> list[str]:
    """The import statements that give `value` the name `name`, from the notebook or script.

    Returns: one statement, or several for `import a.b` and `import a.c`, or none.
    """
    dotted = []
    file = globals_.get("__file__")
    for source in [*_of_main(), *filter(None, [_of_file(file)] if file else [])]:
        for node in ast.walk(source.tree):
            for one in getattr(node, "names", ()):
                if isinstance(node, ast.ImportFrom) and (one.asname or one.name) == name:
                    origin = sys.modules.get(node.module or "")
                    if not node.level and getattr(origin, one.name, _MISSING) is value:
                        return [f"from {node.module} import {_renamed(one)}"]
                if isinstance(node, ast.Import):
                    bound = one.asname or one.name.partition(".")[0]
                    if bound != name:
                        continue
                    if sys.modules.get(one.name if one.asname else bound) is value:
                        dotted.append(f"import {_renamed(one)}")
    return list(dict.fromkeys(dotted))


def used_names(text: str) -> set[str]:
    """The names that a statement uses but does not define."""
    return set(_used(symtable.symtable(text, "<export>", "exec")))


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _used(child)


def _renamed(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _of_main() -> Iterator[Source]:
    """The cells of the notebook, last one first, or the script."""
    main: ModuleType = sys.modules["__main__"]
    texts = [*cell_sources().values()]
    if file := getattr(main, "__file__", None):
        texts.append("".join(linecache.getlines(file)))
    yield from filter(None, map(_parse, reversed(texts)))


def _of_file(name: str) -> Source | None:
    return _parse("".join(linecache.getlines(name)))


@functools.lru_cache  # each name of a program is looked up in all cells
def _parse(text: str) -> Source | None:
    try:
        return Source(text, ast.parse(text)) if text else None
    except (SyntaxError, ValueError):
        return None


_MISSING = object()
