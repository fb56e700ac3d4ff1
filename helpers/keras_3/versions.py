"""The releases of Keras 3 to which `helpers.keras_3` is applied.

A tested release is accepted. A later release is accepted with a warning if the source of each
function in `REPLACED` is unchanged since a tested release. Otherwise it is rejected, because a
replacement depends on the source of the original. `tested_sources.py` has a hash of each source by
release, and `python -m tools.keras_sources` writes that file.
"""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
from collections.abc import Iterable, Mapping
from importlib import metadata, util
from pathlib import Path

from helpers.errors import PackageError
from helpers.i18n import _, join_items
from helpers.keras_3.tested_sources import TESTED_SOURCES

MIN_KERAS, MAX_KERAS = (3, 10), (3, 15)  # the tested releases of Keras
DISTRIBUTIONS = ("keras", "keras-nightly")
HASH_DIGITS = 12

REPLACED = tuple(TESTED_SOURCES)
"""The Keras functions that are replaced, by the place of their definition. If an inherited method
is replaced for a class, it is listed under the class that defines it."""

Release = tuple[int, int]


def installed() -> str | None:
    """The version of Keras, or None."""
    for distribution in DISTRIBUTIONS:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def check_release() -> str | None:
    """A sentence about the installed Keras that the user should know, or None.

    Raises:
      PackageError: there is no Keras 3, it is too old, or it is later than the tested releases and
        a replaced function has changed.
    """
    found = installed()
    release = parse(found) if found else None
    if found is None or release is None or release < MIN_KERAS:
        raise _not_tested(found or _("no Keras"))
    if release <= MAX_KERAS:
        return None
    spec = util.find_spec("keras")
    folders = spec.submodule_search_locations if spec else None
    if not folders or (changed := changed_functions(Path(folders[0]).parent)):
        raise _changed(found, changed if folders else REPLACED)
    message = _(
        "Keras {found} was not tested with helpers.keras_3 (tested: {oldest} to {newest}). The "
        "functions that it replaces are the same as in a tested release, so the replacements "
        "were applied. Check your program with "
        "helpers.compare, or install a tested release: {command}"
    )
    return message.format(found=found, command=_command(), **_tested())


def parse(version: str) -> Release | None:
    """The first two numbers of a version, also for a pre-release such as "4.0rc1"."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def changed_functions(root: Path) -> list[str]:
    """The functions of `REPLACED` whose source is not tested.

    Args:
      root: the parent folder of the package.
    """
    found = hashes(root)
    return [name for name in REPLACED if found[name] not in TESTED_SOURCES.get(name, {}).values()]


def hashes(root: Path, names: Iterable[str] = ()) -> Mapping[str, str | None]:
    """The hash of each function's source, or None if Keras has no such function.

    Args:
      root: the folder that contains `keras`.
      names: the functions (default: `REPLACED`).
    """
    return {name: _hash(root, name) for name in names or REPLACED}


def normalized(source: str) -> str:
    """A function's source without comment lines, blank lines and docstring."""
    indent = len(source) - len(source.lstrip())
    block = ast.parse(f"if True:\n{textwrap.indent(source, ' ')}").body[0]
    assert isinstance(block, ast.If)
    function = block.body[0]
    assert isinstance(function, ast.FunctionDef)
    lines = source.splitlines()
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        assert docstring.end_lineno is not None
        del lines[docstring.lineno - 2 : docstring.end_lineno - 1]
    code = (line[indent:].rstrip() for line in lines if not line.lstrip().startswith("#"))
    return "\n".join(line for line in code if line)


def _hash(root: Path, name: str) -> str | None:
    source = _source(root, name)
    if source is None:
        return None
    return hashlib.sha256(normalized(source).encode()).hexdigest()[:HASH_DIGITS]


def _source(root: Path, name: str) -> str | None:
    """The source of a function from its file, because importing Keras may have replaced it."""
    *parts, _function = name.split(".")
    while parts:
        file = root.joinpath(*parts).with_suffix(".py")
        if file.is_file():
            text = file.read_text("utf-8")
            scope: ast.AST | None = ast.parse(text)
            for part in name.split(".")[len(parts) :]:
                scope = _child(scope, part)
            return None if scope is None else _segment(text, scope)
        parts.pop()
    return None


def _child(scope: ast.AST | None, name: str) -> ast.AST | None:
    """The last function or class of this name in the body of a module or class."""
    found = None
    for node in getattr(scope, "body", ()):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            found = node
    return found


def _segment(text: str, node: ast.AST) -> str:
    assert isinstance(node, ast.FunctionDef) and node.end_lineno is not None
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def _tested() -> dict[str, str]:
    oldest, newest = (".".join(map(str, numbers)) for numbers in (MIN_KERAS, MAX_KERAS))
    return {"oldest": oldest, "newest": newest}


def _command() -> str:
    return f'pip install "keras>={_tested()["oldest"]},<{MAX_KERAS[0]}.{MAX_KERAS[1] + 1}"'


def _not_tested(found: str) -> PackageError:
    message = _(
        "helpers.keras_3 was tested with Keras {oldest} to {newest} (found: {found}). Install a "
        "tested release: {command}"
    )
    return PackageError(message.format(found=found, command=_command(), **_tested()))


def _changed(found: str, changed: Iterable[str]) -> PackageError:
    message = _(
        "Keras {found} is later than the releases that helpers.keras_3 was tested with ({oldest} "
        "to {newest}), and functions that it replaces have changed: {functions}. Install a tested "
        "release: {command}"
    )
    functions = join_items(name.removeprefix("keras.src.") for name in changed)
    return PackageError(
        message.format(found=found, functions=functions, command=_command(), **_tested())
    )
