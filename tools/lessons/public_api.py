"""The names that notebooks import from `helpers`, as a table for docs/API.md.

The table is checked against `helpers.PUBLIC_API`.

python -m tools.lessons.public_api
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import helpers
from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.lessons.project import SOURCE, Project

MAGIC = re.compile(r"^( *)[%!].*$", re.MULTILINE)

API_MENTION = re.compile(r"`(helpers(?:\.[a-z_0-9]+)+)\.([A-Z]\w+)`")

Name = tuple[str, str]
"""A module, and a name imported from it."""


def imports(code: str) -> Iterator[Name]:
    """Every name that a cell, or a program in it, imports from `helpers`."""
    code = MAGIC.sub(r"\1pass", code)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "helpers":
            yield from ((str(node.module), alias.name) for alias in node.names)


def first_uses(project: Project) -> dict[Name, str]:
    """The first lesson, or else exercise or project, that imports or mentions each name."""
    found: dict[Name, str] = {}
    solutions = [
        (path, kind)
        for domains, kind in ((project.exercises, "exercise"), (project.projects, "project"))
        for domain in domains
        if (path := project.solution(domain))
    ]
    lessons = [
        project.notebook(domain)
        for domain in project.notebooks_in(SOURCE)
        if domain not in project.assignments
    ]
    for path, kind in [*((p, "lesson") for p in lessons), *solutions]:
        for name in _names(notebook.read(path)):
            number = path.name[:2]
            found.setdefault(name, f"{kind} {int(number)}" if number.isdigit() else "appendix")
    return found


def _names(lesson: Json) -> Iterator[Name]:
    """The names that a notebook imports, followed by the names that its prose recommends."""
    for cell in notebook.cells(lesson, "code"):
        yield from imports(notebook.source(cell))
    for cell in notebook.prose(lesson):
        yield from ((name[1], name[2]) for name in API_MENTION.finditer(notebook.source(cell)))


def table(face: Mapping[str, tuple[str, ...]], uses: Mapping[Name, str]) -> str:
    """The public API as Markdown: the names of each module, and the first lesson that uses them."""
    rows = ["| from | import | first in |", "|---|---|---|"]
    for module, names in face.items():
        first: dict[str, list[str]] = {}
        for name in names:
            first.setdefault(uses.get((module, name), "–"), []).append(f"`{name}`")
        rows += [f"| `{module}` | {', '.join(names)} | {use} |" for use, names in first.items()]
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(helpers.PUBLIC_API, first_uses(Project.load(Path()))))
