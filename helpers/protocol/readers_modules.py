"""Makes the workers find the reader's modules as the notebook does."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import cloudpickle

STANDARD = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
INSTALLED = ("site-packages", "dist-packages")


def folders() -> list[str]:
    """Absolute paths of the folders in which this process looks for modules, the current one last.

    A relative entry of `sys.path` means the folder that it meant when Python first looked there,
    even if the current folder has changed.
    """
    found = [_absolute(entry) for entry in sys.path if entry]
    return list(dict.fromkeys([*found, os.getcwd()]))


def _absolute(entry: str) -> str:
    finder = sys.path_importer_cache.get(entry)
    return os.path.abspath(getattr(finder, "path", None) or entry)


def use(wanted: Sequence[str]) -> None:
    """Adds these folders to `sys.path` of this process.

    They follow the standard library, as in IPython, and precede installed packages.
    """
    new = [folder for folder in wanted if folder not in sys.path]
    ahead = [folder for folder in new if not _is_installed(folder)]
    place = next((k for k, entry in enumerate(sys.path) if _is_installed(entry)), len(sys.path))
    sys.path[place:place] = ahead
    sys.path += [folder for folder in new if folder not in ahead]


def _is_installed(folder: str) -> bool:
    return os.path.basename(folder) in INSTALLED


@contextmanager
def sent_by_value() -> Iterator[None]:
    """Makes cloudpickle send the reader's modules with the name of a standard module by value.

    By that name, a worker would find the standard module.
    """
    modules = [m for name, m in list(sys.modules.items()) if _has_a_standard_name(name, m)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _has_a_standard_name(name: str, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if name.partition(".")[0] not in sys.stdlib_module_names or not file or name == "__main__":
        return False
    return not any(Path(file).is_relative_to(folder) for folder in STANDARD)


def find_hidden(searched: Sequence[str], name: str) -> str | None:
    """The reader's file for a module that this process has imported from elsewhere, or None."""
    top = name.partition(".")[0]
    used = getattr(sys.modules.get(top), "__file__", None)
    for folder in searched:
        if _is_installed(folder) or folder in STANDARD:
            continue
        for file in (Path(folder, f"{top}.py"), Path(folder, top, "__init__.py")):
            if used and file.is_file() and not file.samefile(used):
                return str(file)
    return None
