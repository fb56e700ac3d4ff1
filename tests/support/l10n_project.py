"""A small repository of lessons, for the tests of the builder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.l10n import catalog
from tools.l10n.__main__ import main
from tools.l10n.report import Finding
from tools.lessons.project import Project

LESSON = "01_first"
FOUR = ("ru", "zh", "ko", "es")
PYPROJECT = """\
[project]
version = "1.2"
[tool.lessons]
released = ["ru", "zh", "ko", "es"]
repository = "{repository}"
"""
MESSAGES_MODULE = """\
from helpers.i18n import _, ngettext


def summary(n: int) -> str:
    return _("ready") + ngettext("{n} step", "{n} steps", n)
"""

Cell = dict[str, Any]


def text_cell(name: str, source: str, *tags: str) -> Cell:
    """A Markdown cell."""
    metadata = {"tags": list(tags)} if tags else {}
    lines = source.splitlines(keepends=True)
    return {"cell_type": "markdown", "id": name, "metadata": metadata, "source": lines}


def code_cell(name: str, source: str, *tags: str, output: str = "", count: int | None = 1) -> Cell:
    """A code cell with its output."""
    outputs = [{"name": "stdout", "output_type": "stream", "text": [output]}] if output else []
    return {
        "cell_type": "code",
        "execution_count": count,
        "id": name,
        "metadata": {"tags": list(tags)} if tags else {},
        "outputs": outputs,
        "source": source.splitlines(keepends=True),
    }


def notebook_text(*cells: Cell) -> str:
    """The text of a notebook file in nbformat's format."""
    notebook = {
        "cells": list(cells),
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def make_project(root: Path, *cells: Cell, repository: str = "", messages: bool = False) -> Project:
    """A repository with one lesson of these cells."""
    (root / "pyproject.toml").write_text(PYPROJECT.format(repository=repository), "utf-8")
    path = root / "notebooks" / "en" / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebook_text(*cells), "utf-8")
    if messages:
        (root / "helpers").mkdir()
        (root / "helpers" / "words.py").write_text(MESSAGES_MODULE, "utf-8")
    return Project.load(root)


def move(root: Path, address: str) -> None:
    """Sets the course's address in a repository's pyproject.toml, or removes it if it is empty."""
    path = root / "pyproject.toml"
    text, count = re.subn(
        r'^repository = "[^"]*"', f'repository = "{address}"', path.read_text("utf-8"), flags=re.M
    )
    assert count == 1
    path.write_text(text, "utf-8")


def run(project: Project, *command: str) -> int:
    """Runs `python -m tools.l10n` in this repository and returns the exit code."""
    name, *rest = command
    return main([name, "--root", str(project.root), *rest])


def translate(
    project: Project, lang: str, texts: Mapping[str, str | list[str]], domain: str = LESSON
) -> None:
    """Acts like a translator: writes a text, or each plural form, and removes the word fuzzy."""
    path = project.catalog(domain, lang)
    messages = catalog.read(path, lang)
    for english, text in texts.items():
        message = messages.get(english)
        assert message is not None, f"{path} has no message {english!r}"
        message.string = text
        message.flags.discard("fuzzy")
        message.previous_id = []
    path.write_text(catalog.dumps(messages), "utf-8")


def cell_of(project: Project, lang: str, name: str, domain: str = LESSON) -> Cell:
    """A cell of a notebook on disk."""
    cells = json.loads(project.notebook(domain, lang).read_text("utf-8"))["cells"]
    return next(cell for cell in cells if cell["id"] == name)


def whats(findings: list[Finding]) -> str:
    """The findings as one text to search in."""
    return "\n".join(str(finding) for finding in findings)
