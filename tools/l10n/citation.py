"""CITATION.cff: its version, and where the course lives, as pyproject.toml has them."""

from __future__ import annotations

import re

from tools.lessons.project import Project

VERSION = re.compile(r"^version: .*$", re.MULTILINE)
ADDRESS = re.compile(r"^repository-code: .*\n", re.MULTILINE)


def written(text: str, project: Project) -> str:
    """The text of the file with today's version and address; no address, no line."""
    address = f"repository-code: {project.repository}\n" if project.repository else ""
    # In quotes: 1.10 would be a number, and that is 1.1.
    text = VERSION.sub(f'version: "{project.version}"', ADDRESS.sub("", text))
    return text.rstrip("\n") + "\n" + address
