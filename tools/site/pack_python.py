"""Packs the modules that a page needs, compiled. It runs in Pyodide (pack_python.mjs)."""

from __future__ import annotations

import importlib
import marshal
import sys
import zipfile
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import PurePosixPath
from types import CodeType

DATA = ("helpers/course/simulations/learning_rates.json",)
PYODIDE = ("_pyodide", "pyodide")  # read their own docstrings
FROZEN = ("importlib/_bootstrap.py", "importlib/_bootstrap_external.py")  # part of the program
EXTRA = ("encodings.ascii", "encodings.cp437", "encodings.latin_1")  # the second one: zipfile
UNCHECKED = (1).to_bytes(4, "little") + bytes(8)  # a header without the time of a source file
TIME = (1980, 1, 1, 0, 0, 0)  # so that equal modules yield equal files


def pack(root: str, output: str) -> None:
    """Writes python_stdlib.zip and course.zip into a folder.

    Args:
      root: the folder of the package helpers.
    """
    sys.dont_write_bytecode = True
    sys.path.insert(0, root)
    page = importlib.import_module("helpers.course.simulations.page")
    for name in importlib.import_module("helpers.course.simulations").SIMULATIONS:
        page.result(name, page.first_positions(name))
    exercises = importlib.import_module("tools.site.browser_check")
    for task in exercises.TASKS:
        exercises.check_answer(task, "", f"{task} = None")
        importlib.import_module("helpers.course.check").find_task(task)
    for name in EXTRA:
        importlib.import_module(name)
    loaded = dict(sys.modules)
    library = f"/lib/python{sys.version_info[0]}{sys.version_info[1]}.zip"
    with (
        zipfile.ZipFile(library) as archive,
        zipfile.ZipFile(f"{output}/python_stdlib.zip", "w") as zipped,
    ):
        for name in _files(loaded, library):
            optimize = 0 if name.startswith(PYODIDE) else 2
            _add(zipped, name, archive.read(name), optimize, lines=False)
    with zipfile.ZipFile(f"{output}/course.zip", "w") as zipped:
        for name in [*_files(loaded, root), *DATA]:
            with open(f"{root}/{name}", "rb") as file:
                _add(zipped, name, file.read(), optimize=2)


def _files(loaded: Mapping[str, object], folder: str) -> list[str]:
    """The paths of the loaded modules in a folder."""
    files = {str(getattr(module, "__file__", None)) for module in loaded.values()}
    within = (file.removeprefix(f"{folder}/") for file in files if file.startswith(f"{folder}/"))
    return sorted(name for name in within if name.endswith(".py") and name not in FROZEN)


def _add(
    archive: zipfile.ZipFile, name: str, content: bytes, optimize: int = 0, *, lines: bool = True
) -> None:
    """Adds a file uncompressed, because the archive is compressed as a whole. Code is compiled.

    Args:
      optimize: as for `compile`.
      lines: whether tracebacks will have line numbers.
    """
    if PurePosixPath(name).suffix == ".py":
        code = compile(content, name, "exec", dont_inherit=True, optimize=optimize)
        code = code if lines else _without_lines(code)
        content, name = MAGIC_NUMBER + UNCHECKED + marshal.dumps(code), f"{name}c"
    archive.writestr(zipfile.ZipInfo(name, TIME), content)


def _without_lines(code: CodeType) -> CodeType:
    """Code without line numbers, which are a third of a compressed module.

    The table of locations then has one byte for each eight instructions, "no location"
    (InternalDocs/code_objects.md of Python).
    """
    parts = (_without_lines(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    whole, rest = divmod(len(code.co_code) // 2, 8)
    table = b"\xff" * whole + (bytes([0xF8 + rest - 1]) if rest else b"")
    return code.replace(co_linetable=table, co_consts=tuple(parts))
