"""Which tests are units: tests that neither start a process nor import TensorFlow.

This is derived from the text of a test and of all functions, fixtures and constants that it uses,
directly or indirectly, including other modules of `tests`. `--lane unit` imports only modules that
have units and do not import TensorFlow, and `Guard` checks the tests for violations.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import ROOT

TENSORFLOW = re.compile(
    r"\b(import|from) (tensorflow|helpers\.estimator|helpers\.keras_3|helpers\.in_process)\b"
    r"|\bhelpers\.course\.(data|model|exercises)\b"
    r"|\bhelpers\.(keras_callbacks|worker\.(checkpoints|hooks|devices|training))\b"
    r"|\bfrom helpers import .*\b(input_fn|model_fn)\b|\btensorflow_datasets\b"
)
PROCESSES = re.compile(
    r"\bsubprocess\b|\bmultiprocessing\b|\bos\.fork\b|\bplaywright\b|\bsys\.executable\b"
    r"|\b(Local|Ray)Cluster\b|\b(Panel|PanelState|Course|Sandbox\w+|NotebookClient)\b"
    r"|\bTaskProcess\(|\bFakeWorkerProcess\(|\bForkServer\b|\bVirtualHosts\b|\bNetwork\b"
    r"|\bexecut|from tools\.l10n import (checks|documents)\b|\"check\"|\borphans\b"
    r"|\bpanel\.app\b|\bpublic_api\b|from tools import (release|checkout|test_latest_deps)\b"
    r"|\bProcessGroup\b|\bsupervisor_runs\.observe\b|from helpers\.course\.check import check\b"
    r"|from helpers\.course\.projects\.report import report\b"
    r"|\bKernelManager\b|\btools\.release\b|\bbenchmarks\b|\bimport platform\b"
)
START_EVENTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")
Definitions = dict[str, tuple[str, frozenset[str]]]  # by name: the text, and the names in it


@cache
def definitions(path: Path) -> Definitions:
    """The names that a module defines or imports at its top level."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    found: Definitions = {}
    for node in ast.parse(text).body:
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        names |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        source = "\n".join(lines[first - 1 : node.end_lineno])
        for name in _defined(node):
            if isinstance(node, ast.ImportFrom):  # without the other names of the statement
                source = f"from {node.module} import {name}"
            found[name] = source, frozenset(names)
    return found


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (one.asname or one.name.partition(".")[0] for one in node.names)
    else:
        yield from (
            one.id
            for one in ast.walk(node)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        )


def module_of(source: str, name: str) -> Path | None:
    """The module of `tests` that defines a name of an import statement."""
    found = re.match(r"from (tests[\w.]*) import", source)
    if not found:
        return None
    folder = ROOT.joinpath(*found[1].split("."))
    return next(
        (p for p in (folder.with_suffix(".py"), folder / f"{name}.py") if p.is_file()), None
    )


@cache
def text_of(path: Path, name: str) -> frozenset[str]:
    """The texts of all definitions that a name of a module needs."""
    seen: set[tuple[Path, str]] = set()
    left, texts = [(path, name)], set()
    while left:
        place, wanted = one = left.pop()
        known = definitions(place)
        if one in seen or wanted not in known:
            continue
        seen.add(one)
        source, names = known[wanted]
        texts.add(source)
        if module := module_of(source, wanted):
            whole = module.stem == wanted  # `from tests.support import browser`
            left += [(module, each) for each in (definitions(module) if whole else [wanted])]
        left += [(place, each) for each in names]
    return frozenset(texts)


@cache
def imports_tensorflow(path: Path) -> bool:
    """Whether a module imports TensorFlow when it is imported."""
    sources = {
        (name, source)
        for name, (source, _names) in definitions(path).items()
        if source.startswith(("import ", "from ")) and path.is_relative_to(ROOT / "tests")
    }
    if any(TENSORFLOW.search(source) for _name, source in sources):
        return True
    modules = {module for name, source in sources if (module := module_of(source, name))}
    return any(imports_tensorflow(module) for module in modules if module != path)


@cache
def is_unit(path: Path, name: str) -> bool:
    """Whether a test of a module is a unit."""
    if imports_tensorflow(path):
        return False
    texts = text_of(path, name) | text_of(path, "pytestmark")
    return not any(PROCESSES.search(text) or TENSORFLOW.search(text) for text in texts)


def has_units(path: Path) -> bool:
    """Whether a module has a unit."""
    return any(is_unit(path, name) for name in definitions(path) if name.startswith("test_"))


class Guard:
    """Records whether a process was started or TensorFlow imported while it is armed."""

    def __init__(self) -> None:
        self.armed = False
        self.found = ""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event in START_EVENTS:
            self.found = f"it starts a process: {event}"
        elif event == "import" and arguments[0] == "tensorflow":
            self.found = "it imports TensorFlow"
