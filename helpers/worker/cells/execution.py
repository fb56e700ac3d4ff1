"""Runs code of a cell in the namespace of the worker's cells."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import sys
import types
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from helpers.protocol import payload
from helpers.protocol.cell_code import compile_cell
from helpers.worker.cells.display import display
from helpers.worker.cells.interrupts import Interrupts

MAIN = "__main__"
PDB_VARIABLES = "__pdb_convenience_variables"
# A cell may delete or replace built-in functions, which this package uses too.
_BUILTINS = builtins.__dict__
_ORIGINAL = dict(_BUILTINS)


class Namespace:
    """The variables of the cells, which are those of the module `__main__`.

    Args:
      interrupts: raises them while a cell runs.

    Attributes:
      variables: by name.
    """

    def __init__(self, interrupts: Interrupts) -> None:
        module = types.ModuleType(MAIN)
        sys.modules[MAIN] = module  # so that pickle finds the classes of cells
        self._module = module
        self.variables = module.__dict__
        self.variables["display"] = display
        self._own = frozenset([*self.variables, "__builtins__", "_", PDB_VARIABLES])
        self._interrupts = interrupts
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def names(self) -> list[str]:
        """The names that cells have defined, in order."""
        return [name for name in self.variables if isinstance(name, str) and name not in self._own]

    def run(self, code: str, name: str) -> None:
        """Runs a cell and shows its last expression and its figures.

        Raises: the exception of the cell.
        """
        payload.add_sources({name: code})
        sys.modules[MAIN] = self._module
        parts = compile_cell(code, name)
        modules = dict(sys.modules)
        try:
            self._interrupts.begin()
            for part, is_shown in parts:
                value = self._evaluate(part)
                if is_shown and value is not None:
                    self.variables["_"] = value
                    display(value)
            display.figures()
        finally:
            self._interrupts.end()
            _BUILTINS.update(_ORIGINAL)
            if "sys" not in sys.modules:
                sys.modules.update(modules)
            sys.settrace(None)

    def _evaluate(self, part: types.CodeType) -> Any:
        value = eval(part, self.variables)
        if part.co_flags & inspect.CO_COROUTINE:
            return self._await(value)
        return value

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a cell that awaits. Its tasks continue when the next such cell runs."""
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
            raise

    def complete(self, text: str) -> list[str]:
        """The names that begin with `text`, which may contain dots."""
        owner, dot, start = text.rpartition(".")
        names: list[str] = [*self.variables]
        if dot:
            first, *others = owner.split(".")
            value = self.variables[first]
            for name in others:
                value = getattr(value, name)
            names = dir(value)
        hidden = not start.startswith("_")
        return [
            f"{owner}{dot}{name}"
            for name in sorted(names)
            if name.startswith(start) and not (hidden and name.startswith("_"))
        ]
