"""The values that are sent with a function, because it uses them without arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

DEPTH = 4  # of functions that call functions


def captured(function: Callable[..., Any]) -> Iterator[tuple[str, Any, FunctionType]]:
    """The outside names and values that a function and its callees use, with the user of each.

    Functions of installed modules are sent by name, without values.
    """
    seen: set[int] = set()
    left = [(function, 0)]
    while left:
        one, depth = left.pop()
        if isinstance(one, functools.partial):
            arguments = [*enumerate(one.args, 1), *one.keywords.items()]
            plain = one.func if isinstance(one.func, FunctionType) else None
            if plain:
                yield from ((str(name), value, plain) for name, value in arguments)
            left += [(value, depth) for value in [one.func, *one.args] if callable(value)]
            continue
        one = getattr(one, "__func__", one)
        if not isinstance(one, FunctionType) or id(one) in seen or depth > DEPTH:
            continue
        seen.add(id(one))
        for name, value in _outside(one):
            yield name, value, one
            if isinstance(value, (FunctionType, functools.partial)):
                left.append((value, depth + 1))


def _outside(function: FunctionType) -> Iterator[tuple[str, Any]]:
    names = set(_names(function.__code__))
    yield from ((n, v) for n, v in function.__globals__.items() if n in names)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # not set yet
            continue


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
