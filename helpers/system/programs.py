"""Starts a module of this package as a program, undisturbed by files in the reader's folder.

`python -m` and `python -c` put the current folder first on `sys.path`, so a file next to the
notebook named like a module, such as ``random.py`` or ``helpers.py``, would be imported instead. In
a notebook it is not, because IPython looks into that folder after the standard library. Therefore
the folder is omitted here, and the program always uses the package of this process.
`helpers.protocol.payload` adds the reader's folders later, at a position at which they cannot hide
a standard module.
"""

from __future__ import annotations

import sys
from pathlib import Path

import helpers

START = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
package, module = sys.argv.pop(1), sys.argv.pop(1)
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location(
    "helpers", package + "/__init__.py", submodule_search_locations=[package]
)
sys.modules["helpers"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["helpers"])
from runpy import run_module
run_module(module, run_name="__main__", alter_sys=True)
"""


def command(module: str, *arguments: str) -> list[str]:
    """The command for `subprocess` that runs a module of this package."""
    assert helpers.__file__
    package = str(Path(helpers.__file__).parent)
    return [sys.executable, "-u", "-c", START, package, module, *arguments]
