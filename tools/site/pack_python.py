"""Packs the modules that a page needs, compiled. It runs in Pyodide (pack_python.mjs)."""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import marshal
import sys
import traceback
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from importlib.util import MAGIC_NUMBER
from pathlib import PurePosixPath
from types import CodeType

COMMON = "tools/site/common_python.txt"
CODECS = tuple(f"_codecs_{name}" for name in ("cn", "hk", "iso2022", "jp", "kr", "tw"))
MAPS, CAPSULE = "__map_", b"multibytecodec.map"  # as Modules/cjkcodecs/cjkcodecs.h names them
DATA = ("helpers/course/simulations/learning_rates.json",)
PYODIDE = ("_pyodide", "pyodide")  # read their own docstrings
FROZEN = ("importlib/_bootstrap.py", "importlib/_bootstrap_external.py")  # part of the program
EXTRA = ("encodings.ascii", "encodings.cp437", "encodings.latin_1")  # the second one: zipfile
UNCHECKED = (1).to_bytes(4, "little") + bytes(8)  # a header without the time of a source file
TIME = (1980, 1, 1, 0, 0, 0)  # so that equal modules yield equal files


def pack(root: str, output: str, answers: str) -> None:
    """Writes python_stdlib.zip and course.zip into a folder.

    Args:
      root: the folder of the package helpers.
      answers: a JSON file with arguments of `check_answer`.
    """
    sys.dont_write_bytecode = True
    sys.path.insert(0, root)
    page = importlib.import_module("helpers.course.simulations.page")
    for name in importlib.import_module("helpers.course.simulations").SIMULATIONS:
        page.result(name, page.first_positions(name))
    check_answer = importlib.import_module("tools.site.browser_check").check_answer
    with open(answers, encoding="utf-8") as file:
        for task, before, code in json.load(file):
            check_answer(task, before, code)
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
    with open(f"{root}/{COMMON}", encoding="utf-8") as file:
        _run_statements(file.read().split("\n\n"))


def codec_tables() -> list[tuple[int, int]]:
    """The addresses and sizes of the tables of CJK codecs that `pack` did not use.

    An entry has 2 bytes.
    """
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = []
    unused = [name for name in CODECS if name not in sys.modules]
    for codec in map(importlib.import_module, unused):
        for name in (one for one in dir(codec) if one.startswith(MAPS)):
            table = _Map.from_address(get(getattr(codec, name), CAPSULE))
            for index in (table.encoding, table.decoding):
                rows = index.contents if index else ()
                found += [(one.row, 2 * (one.last - one.first + 1)) for one in rows if one.row]
    return found


class _Row(ctypes.Structure):
    """`dbcs_index` and `unim_index` in C: the entries for one first byte."""

    _fields_ = (("row", ctypes.c_uint32), ("first", ctypes.c_uint8), ("last", ctypes.c_uint8))


class _Map(ctypes.Structure):
    """`dbcs_map` in C."""

    _fields_ = (
        ("charset", ctypes.c_char_p),
        ("encoding", ctypes.POINTER(_Row * 256)),
        ("decoding", ctypes.POINTER(_Row * 256)),
    )


def _run_statements(statements: Iterable[str]) -> None:
    """Runs what answers commonly contain, right or wrong, so that their functions are called."""
    names: dict[str, object] = {}
    for code in statements:
        with redirect_stdout(io.StringIO()):
            try:
                exec(compile(code, "<answer>", "exec"), names)
            except Exception:
                traceback.print_exc(file=sys.stdout)


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
