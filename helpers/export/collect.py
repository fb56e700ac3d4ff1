"""Collects the source of functions and of everything that they use."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from types import FunctionType, ModuleType
from typing import Any

from helpers.errors import ConfigError
from helpers.export import bundle, sources
from helpers.export.values import Values
from helpers.i18n import _
from helpers.protocol.readers_modules import INSTALLED, STANDARD

RESERVED = frozenset(
    ["run_task", "make_strategy", "cluster_config", "parameter_servers", "multi_worker_estimator"]
)


class Collector:
    """The parts of an exported program.

    Attributes:
      imports: import statements.
      assignments: values by name, as source.
      definitions: functions, classes and assignments that refer to them, in order of use.
      values: the arrays and datasets of the assignments.
      modules: the files and folders of the reader's modules, by their name in the export.
      bundles: the bundles that the program imports.
    """

    def __init__(self) -> None:
        self.imports: dict[str, None] = {}
        self.assignments: dict[str, str] = {}
        self.definitions: list[str] = []
        self.values = Values()
        self.modules: dict[str, Path] = {}
        self.bundles: set[str] = set()
        self._bound: dict[str, Any] = {}

    def function(self, function: Callable[..., Any]) -> str:
        """Adds a function with everything it uses, and returns the expression that names it.

        Raises:
          ConfigError: its source is unknown, or it uses something that cannot be written.
        """
        if isinstance(function, functools.partial):
            self.imports["import functools"] = None
            inner = self.function(function.func)
            arguments = [self.argument(inner, value) for value in function.args]
            arguments += [f"{k}={self.argument(k, v)}" for k, v in function.keywords.items()]
            return f"functools.partial({', '.join([inner, *arguments])})"
        plain = inspect.unwrap(function)
        if not isinstance(plain, FunctionType) or plain.__name__ == "<lambda>":
            raise _no_name(function)
        self._add(plain.__name__, function, plain.__name__, plain.__globals__)
        return plain.__name__

    def argument(self, name: str, value: Any) -> str:
        """The expression of an argument: a function or a value."""
        if isinstance(inspect.unwrap(value) if callable(value) else value, FunctionType):
            return self.function(value)
        text = self.values.expression(name, value, name)
        self.imports |= {f"import {module}": None for module in sorted(self.values.imports)}
        return text

    def without_helpers(self, text: str, user: str) -> str:
        """Replaces the imports of this package in a source by imports of bundles.

        Raises:
          ConfigError: it imports something that has no replacement.
        """
        tree = ast.parse(text)
        lines = text.splitlines(keepends=True)
        nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        for node in sorted(nodes, key=lambda one: (one.lineno, one.col_offset), reverse=True):
            if new := self._new(node, user):
                last = (node.end_lineno or node.lineno) - 1
                before = lines[node.lineno - 1][: node.col_offset]
                after = lines[last][node.end_col_offset :]
                joined = ("; " if before.strip() else f"\n{before}").join(new)
                lines[node.lineno - 1 : last + 1] = [f"{before}{joined}{after}"]
        for other in ast.walk(tree):
            if isinstance(other, ast.Attribute) and ast.unparse(other.value) == bundle.PACKAGE:
                raise _of_the_course(user, ast.unparse(other))
        return "".join(lines)

    def _new(self, node: ast.Import | ast.ImportFrom, user: str) -> list[str]:
        """The statements that replace an import, or none if it needs no replacement."""
        if isinstance(node, ast.Import):
            ours = [one for one in node.names if _is_ours(one.name)]
            kept = [f"import {ast.unparse(one)}" for one in node.names if one not in ours]
            new = [_as(self._replaced(one.name, None, user), one.asname) for one in ours]
            return [*kept, *(f"import {module}" for module in new)] if ours else []
        if node.level or not _is_ours(node.module or ""):
            return []
        statements = []
        for one in node.names:
            module, name = node.module or "", one.name
            if module == bundle.PACKAGE:
                module = _defining_module(name) or f"{module}.{name}"
            if module == "helpers.either_keras":
                statements.append(f"import tensorflow as {one.asname or name}")
            else:
                replaced = self._replaced(module, name, user)
                statements.append(f"from {replaced} import {ast.unparse(one)}")
        return statements

    def _replaced(self, module: str, name: str | None, user: str) -> str:
        if module == "helpers.estimator":
            return bundle.ESTIMATOR
        found = bundle.replacement(module)
        if found is None:
            raise _of_the_course(user, f"{module}.{name}" if name else module)
        self.bundles.add(found[0])
        return found[1]

    def _add(self, name: str, value: Any, user: str, globals_: dict[str, Any]) -> None:
        """Gives a value its name in the program."""
        if name in self._bound:
            if self._bound[name] is not value:
                message = _(
                    "Two functions use different values under the name {name}, and a program can "
                    "have only one of them. Rename one."
                )
                raise ConfigError(message.format(name=name))
            return
        if name in RESERVED:
            message = _("The exported program itself uses the name {name}. Rename yours.")
            raise ConfigError(message.format(name=name))
        self._bound[name] = value
        plain = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, ModuleType):
            self._import_module(name, value, user, globals_)
        elif isinstance(plain, (FunctionType, type)):
            self._define_or_import(name, value, plain, user, globals_)
        elif isinstance(value, PurePath):  # also the folder of the course's data
            self._assign(name, value, user)
        elif statement := self._alias(name, value, globals_):
            self._statement(statement, name, globals_)
        elif importing := sources.import_of(name, value, globals_):
            self._import(importing, user)
        else:
            self._assign(name, value, user)

    def _assign(self, name: str, value: Any, user: str) -> None:
        self.assignments[name] = self.values.expression(name, value, user)
        self.imports |= {f"import {module}": None for module in sorted(self.values.imports)}

    def _define_or_import(
        self, name: str, value: Any, plain: Any, user: str, globals_: dict[str, Any]
    ) -> None:
        module = plain.__module__
        if _is_ours(module):
            self._import([f"from {module} import {_as(plain.__name__, name)}"], user)
        elif module == "__main__" or "<locals>" in plain.__qualname__:
            self._define(name, value, plain, user, globals_)
        elif importing := sources.import_of(name, value, globals_):
            self._import(importing, user)
        elif getattr(sys.modules.get(module), plain.__name__, None) is value:
            self._import([f"from {module} import {_as(plain.__name__, name)}"], user)
        else:
            raise _unknown_source(name, user)

    def _define(
        self, name: str, value: Any, plain: Any, user: str, globals_: dict[str, Any]
    ) -> None:
        """Adds the definition of a function or class, after the definitions that it uses."""
        if name != plain.__name__ or (value is not plain and not _is_decorated(plain)):
            statement = sources.assignment(name, lambda node: not _is_literal(node))
            if statement is None:
                raise _unknown_source(name, user)
            self._statement(statement, name, globals_)
            return
        of = sources.of_class if isinstance(plain, type) else sources.of_function
        found = of(plain)
        if found is None:
            raise _unknown_source(name, user)
        source, node = found
        inside = globals_ if isinstance(plain, type) else plain.__globals__ | _closure(plain)
        self._statement(source.segment(node), name, inside)

    def _statement(self, text: str, user: str, globals_: Mapping[str, Any]) -> None:
        text = self.without_helpers(text, user)
        for name in sorted(sources.used_names(text)):
            if name in globals_ and not _is_builtin(name, globals_[name]):
                self._add(name, globals_[name], user, dict(globals_))
        self.definitions.append(text.rstrip("\n"))

    def _alias(self, name: str, value: Any, globals_: dict[str, Any]) -> str | None:
        """An assignment such as `AUTOTUNE = tf.data.AUTOTUNE` if the value is not a literal."""
        if type(value).__module__ in ("builtins", "numpy"):
            return None

        def fits(node: ast.expr) -> bool:
            return isinstance(node, ast.Attribute) and _evaluated(node, globals_) is value

        return sources.assignment(name, fits)

    def _import_module(
        self, name: str, module: ModuleType, user: str, globals_: dict[str, Any]
    ) -> None:
        if importing := sources.import_of(name, module, globals_):
            self._import(importing, user)
        elif statement := self._alias(name, module, globals_):
            self._statement(statement, name, globals_)
        else:
            self._import([f"import {_as(module.__name__, name)}"], user)

    def _import(self, statements: list[str], user: str) -> None:
        for statement in statements:
            text = self.without_helpers(statement, user)
            self.imports[text.rstrip("\n")] = None
            for module in imported_modules(ast.parse(text)):
                self._copy_if_local(module)

    def _copy_if_local(self, module: str) -> None:
        """Copies a module of the reader, which is not installed, with the modules it imports."""
        top = module.partition(".")[0]
        file = _file_of(top)
        if file is None or top in self.modules or top in (*bundle.BUNDLES, bundle.ESTIMATOR):
            return
        self.modules[top] = file.parent if file.name == "__init__.py" else file
        for path in module_files(self.modules[top]):
            text = self.without_helpers(path.read_text("utf-8"), path.name)
            for name in imported_modules(ast.parse(text)):
                self._copy_if_local(name)


def module_files(path: Path) -> list[Path]:
    """The Python files of a module or a package."""
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def imported_modules(tree: ast.AST) -> list[str]:
    """The modules that a source imports by absolute names."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
    return found


def _file_of(top: str) -> Path | None:
    """The file of a module that is neither installed nor part of Python, or None."""
    file = getattr(sys.modules.get(top), "__file__", None)
    if top not in sys.modules:
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return None
        file = spec.origin if spec and spec.has_location else None
    if not file or _is_ours(top) or Path(file).suffix != ".py":
        return None
    path = Path(file).resolve()
    if set(path.parts) & set(INSTALLED) or any(path.is_relative_to(one) for one in STANDARD):
        return None
    return path


def _closure(function: FunctionType) -> dict[str, Any]:
    return dict(inspect.getclosurevars(function).nonlocals)


def _evaluated(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of a chain of attributes, or None."""
    if isinstance(node, ast.Attribute):
        return getattr(_evaluated(node.value, names), node.attr, None)
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _is_decorated(plain: Any) -> bool:
    found = sources.of_function(plain) if isinstance(plain, FunctionType) else None
    return bool(found and found[1].decorator_list)


def _is_builtin(name: str, value: Any) -> bool:
    return name.startswith("__") or getattr(builtins, name, _is_builtin) is value


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == bundle.PACKAGE


def _defining_module(name: str) -> str | None:
    import helpers

    return helpers._LAZY_IMPORTS.get(name)


def _as(name: str, alias: str | None) -> str:
    return name if alias in (None, name) else f"{name} as {alias}"


def _no_name(function: Any) -> ConfigError:
    message = _(
        "{function!r:.60} has no name or no source, so it cannot be written into a program. Define "
        "the function in a cell with def."
    )
    return ConfigError(message.format(function=function))


def _unknown_source(name: str, user: str) -> ConfigError:
    message = _(
        "The source of {name} (used by {function}) is unknown, because it was defined with exec, "
        "with a magic such as %%time, or in a file that has changed. Define it in a plain cell."
    )
    return ConfigError(message.format(name=name, function=user))


def _of_the_course(user: str, name: str) -> ConfigError:
    message = _(
        "{function} uses {name}, which belongs to the course's package and has no replacement in "
        "an exported program. Replace it: print instead of print_tr, TFConfigClusterResolver "
        "instead of the context, your own model or data instead of the course's."
    )
    return ConfigError(message.format(function=user, name=name))
