"""Hooks on the future import of a module, after it or around it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def call_after_import(name: str, action: Callable[[], None]) -> None:
    """Calls `action` right after the import of the top-level module `name`, or now if it is over.

    The import waits for `action`, and raises its exceptions.
    """
    if name in sys.modules:
        action()
        return

    @contextmanager
    def then_act() -> Iterator[None]:
        yield
        action()

    sys.meta_path.insert(0, _Finder(name, then_act))


def import_within(name: str, context: Callable[[], AbstractContextManager[None]]) -> None:
    """Runs a future import of the top-level module `name` within `context`."""
    if name not in sys.modules:
        sys.meta_path.insert(0, _Finder(name, context))


class _Finder(MetaPathFinder):
    """Finds one module as Python does, and makes its loader execute it within a context."""

    def __init__(self, name: str, context: Callable[[], AbstractContextManager[None]]) -> None:
        self._name = name
        self._context = context

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`.

        A caller may not load the module, so the finder stays active until one is loaded.
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
            is_first = self in sys.meta_path
            with self._context() if is_first else nullcontext():
                load(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
