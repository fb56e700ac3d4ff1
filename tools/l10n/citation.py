"""CITATION.cff, with the version and the repository's address from pyproject.toml."""

from __future__ import annotations

import re

from tools.lessons.project import Project

VERSION = re.compile(r"^version: .*$", re.MULTILINE)
ADDRESS = re.compile(r"^repository-code: .*\n", re.MULTILINE)


def written(text: str, project: Project) -> str:
    """The text of the file with the current version, and the address if there is one."""
    address = f"repository-code: {project.repository}\n" if project.repository else ""
    # In quotes, because 1.10 would be the number 1.1.
    text = VERSION.sub(f'version: "{project.version}"', ADDRESS.sub("", text))
    return text.rstrip("\n") + "\n" + address
