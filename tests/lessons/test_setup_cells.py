"""The beginning of each lesson: a cell that finds the package, a sentence, a cell of imports.

Cells that only assert are folded, so that a lesson's text and its results are next to each other.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support import ROOT
from tools.lessons import notebook
from tools.lessons.notebook import Json

LESSONS = sorted(
    path for path in (ROOT / "notebooks" / "en").glob("*.ipynb") if path.stem != "glossary"
)
SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
ESTIMATOR = "import helpers.estimator"
FIRST_IMPORT = re.compile(r"^(?:import|from) (helpers|keras|tensorflow\w*)\b", re.MULTILINE)
LAST_LINE = 'init(lang="en")'


def setup_problems(lesson: Json) -> list[str]:
    """Lists the errors in the set-up of a lesson."""
    found = {cell["id"]: cell for cell in lesson["cells"]}
    ids = list(found)
    if "imports" in ids:
        return ["has a second cell of imports"]
    if "setup-text" not in ids:
        return ["has no cell setup-text"]
    start = ids.index("setup-text")
    if ids[start + 1 : start + 3] != ["install", "language"]:
        return ["setup-text is not followed by install and language"]
    language = found["language"]
    code = notebook.source(language)
    problems = []
    if notebook.LANGUAGE_TAG not in notebook.tags(language):
        problems.append(f"language lacks the tag {notebook.LANGUAGE_TAG}")
    if not code.rstrip().endswith(LAST_LINE):
        problems.append(f"language does not end with {LAST_LINE}")
    if ESTIMATOR not in code and "import keras" not in code:
        problems.append("language imports neither keras nor helpers.estimator")
    elif FIRST_IMPORT.findall(code)[:1] != ["helpers"]:  # helpers prepares the import of TensorFlow
        problems.append("language imports helpers after keras or tensorflow")
    text = re.sub(r"^#.*$", "", notebook.source(found["setup-text"]), flags=re.MULTILINE).strip()
    allowed = 2 if ESTIMATOR in code else 1  # the second sentence names the resulting Keras
    if not 1 <= len(SENTENCE_END.findall(text)) <= allowed:
        problems.append(f"setup-text has not {allowed} sentence(s): {text}")
    return problems


def only_asserts(cell: Json) -> bool:
    """Whether a code cell shows nothing to a reader, but checks the results above."""
    code = notebook.source(cell)
    if code.lstrip().startswith("%") or "assert " not in code:
        return False
    return cell["id"].endswith("-check") or all(
        isinstance(statement, ast.Assert) for statement in ast.parse(code).body
    )


def unfolded(lesson: Json) -> list[str]:
    """The cells that only assert, but are not folded."""
    code = notebook.cells(lesson, "code")
    return [cell["id"] for cell in code if only_asserts(cell) and not notebook.is_folded(cell)]


def problems(path: Path) -> list[str]:
    lesson = notebook.read(path)
    return setup_problems(lesson) + [f"{name} is not folded" for name in unfolded(lesson)]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_one_setup_cell_and_folded_assertions(path: Path) -> None:
    assert problems(path) == []


def lesson(text: str, code: str, *more: Json) -> Json:
    def cell(kind: str, name: str, source: str, *tags: str) -> Json:
        return {"cell_type": kind, "id": name, "source": source, "metadata": {"tags": [*tags]}}

    setup = [
        cell("markdown", "setup-text", f"## Set up\n\n{text}"),
        cell("code", "install", "1", "install"),
        cell("code", "language", code, "l10n-lang"),
    ]
    return {"cells": [*setup, *more], "metadata": {}}


GOOD = f"from helpers import init\nimport keras\n\n{LAST_LINE}"
ONE = "Run these cells first."


@pytest.mark.parametrize(
    ("text", "code", "problem"),
    [
        (ONE, GOOD, ""),
        (ONE, f"{GOOD}\nprint()", "does not end"),
        (ONE, LAST_LINE, "imports neither"),
        (ONE, f"import keras\n{GOOD}", "after keras"),
        (f"{ONE} Then read on.", GOOD, "has not 1 sentence"),
        (f"{ONE} This gives Keras 2.", f"{ESTIMATOR}\n{GOOD}", ""),
        ("", GOOD, "has not 1 sentence"),
    ],
)
def test_a_setup_that_is_longer_or_lacks_something_is_found(
    text: str, code: str, problem: str
) -> None:
    found = setup_problems(lesson(text, code))
    assert (problem in found[0]) if problem else not found


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("a", "assert x == 1\nassert y", True),
        ("a-check", "z = x + 1\nassert z", True),
        ("a", "x = 1\nassert x\nx", False),
        ("a", "%pip list\nassert 1", False),
    ],
)
def test_a_cell_that_only_asserts_has_to_be_folded(name: str, code: str, expected: bool) -> None:
    cell = {"cell_type": "code", "id": name, "source": code, "metadata": {}}
    assert unfolded(lesson(ONE, GOOD, cell)) == [name] * expected
    notebook.fold(cell)
    assert unfolded(lesson(ONE, GOOD, cell)) == []
