"""Calls a function once a module has been imported, without importing it first."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def call_after_import(name: str, action: Callable[[], None]) -> None:
    """Calls `action` right after the top-level module `name` is imported: now, if it has been.

    The import waits for `action`, and fails with what `action` raises.
    """
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder(MetaPathFinder):
    """Finds one module as Python does, and has its loader call a function afterwards."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As that of `MetaPathFinder`. Whoever asks may not load the module, so it keeps looking
        until one is loaded.
        """
        if fullname != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._action()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
