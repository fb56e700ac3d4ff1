"""What the designs of all projects share: the reference solution, and modules with a fault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import ROOT
from tools.lessons import notebook
from tools.lessons.project import Project


class Wrong(NamedTuple):
    """A module with a fault.

    Attributes:
      points: what it earns.
      says: a part of the message of each goal that it misses.
    """

    code: str
    points: float
    says: tuple[str, ...]


class Designs(NamedTuple):
    """The modules that students could write for a project, by a name for each.

    Attributes:
      project: the name of the project.
      right: modules that earn all points, and first the reference solution.
      empty: a module without an answer.
      short: numbers with which grading takes two or three seconds, for `make test`.
      circles: in the chart of a right module, with that of its legend.
      label: parts of the text of the chart.
      files: the code of other modules in the same folder.
      case: numbers for the wrong modules, in place of the task's own numbers.
      races: the wrong modules that may lose more points than for certain.
    """

    project: str
    right: Mapping[str, str]
    wrong: Mapping[str, Wrong]
    empty: str
    short: Mapping[str, Any]
    circles: int
    label: tuple[str, ...]
    files: Mapping[str, str] = {}
    case: Mapping[str, Any] = {}
    races: tuple[str, ...] = ()


def source(name: str, cell: str) -> str:
    """The text of a cell of a project's solution."""
    path = Project.load(ROOT).solution(f"projects/{name}")
    assert path
    [found] = [one for one in notebook.read(path)["cells"] if one["id"] == cell]
    return notebook.source(found)


def solution(name: str, cell: str = "module") -> str:
    """A module of a project's solution, without its magic and the marks of nbgrader."""
    lines = source(name, cell).splitlines()
    return "\n".join(line for line in lines[1:] if not line.strip().startswith("### "))


def replace(code: str, *pairs: tuple[str, str]) -> str:
    """Code with some texts replaced, each of which must occur."""
    for old, new in pairs:
        assert old in code, old
        code = code.replace(old, new)
    return code


def write(project: str, code: str) -> Path:
    """Writes the module of a project into the current folder."""
    path = Path(f"{project}.py")
    path.write_text(code, "utf-8")
    return path
