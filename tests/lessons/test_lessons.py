"""Every lesson and appendix, executed and compared by nbval, and rules for each of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest

from helpers.system.keras_version import LEGACY_KERAS
from tests.support import ROOT
from tests.support.faults import needs_keras_3
from tools.l10n import lesson_header
from tools.lessons.project import Project
from tools.lessons.run import best_result, summary

# Lesson 10 compares speeds. Its claims are only true on a machine that is otherwise idle.
TRIES = {"10": 3}
MEASURED = {"gpus", "speed"}  # the reader's own machine, about which there are no claims
TRAINS = re.compile(r"cluster\.(train|run)\(|\bfit\(|panel\.run\(")
LESSONS = sorted(
    path
    for path in ROOT.glob("notebooks/*/[0-9][0-9]_*.ipynb")
    if path.parent.name != "solutions"  # tested in tests/exercises
)
ENGLISH = [path for path in LESSONS if path.parent.name == "en"]
APPENDICES = sorted(
    path
    for domain in lesson_header.appendices(Project.load(ROOT))
    for path in ROOT.glob(f"notebooks/*/{domain}.ipynb")
)
ENGLISH_APPENDICES = [path for path in APPENDICES if path.parent.name == "en"]
TRANSLATED = {2: "ru", 4: "es", 5: "ko", 7: "zh"}  # lessons that a run executes in this language
FIRST = "01"  # the lesson that `make test` executes
KERAS_3 = ("02", "05", "06", "08", "10", "12", "13")  # lessons that Keras 2 cannot run
SHORT = ("01", "05")  # the lessons that the short lanes with other versions execute


def in_its_language(path: Path) -> bool:
    """Whether this is the language in which the lesson is executed outside the slow tests.

    The code is the same in all languages, which `python -m tools.l10n check` enforces. So each
    lesson runs in one language, and each language has a lesson. The slow tests run every lesson in
    every language, and the lanes with other versions of TensorFlow run all English lessons.
    """
    if path in APPENDICES:
        return path in ENGLISH_APPENDICES
    lesson, language = int(path.stem[:2]), path.parent.name
    return language == TRANSLATED.get(lesson, "en")


def marks(path: Path) -> list[pytest.MarkDecorator]:
    number, english = path.stem[:2], path.parent.name == "en"
    found = [pytest.mark.english] * english
    found += [pytest.mark.smoke] * (english and number in SHORT)
    found += [needs_keras_3] * (number in KERAS_3)
    if not in_its_language(path):
        return [*found, pytest.mark.slow]
    return found + [pytest.mark.lessons] * (number != FIRST)


def name(path: Path) -> str:
    """The language and the number, as en-01, or for an appendix the whole name."""
    return f"{path.parent.name}-{path.stem if path in APPENDICES else path.stem[:2]}"


def test_the_lessons_are_there() -> None:
    assert [path.stem[:2] for path in ENGLISH] == [f"{k:02}" for k in range(1, len(ENGLISH) + 1)]
    assert len(ENGLISH) >= 13
    assert len(LESSONS) == 5 * len(ENGLISH)
    assert [path.stem for path in ENGLISH_APPENDICES] == ["published_program"]
    always = [path for path in LESSONS if in_its_language(path)]
    assert [path.stem for path in ENGLISH] == sorted(path.stem for path in always)
    assert {path.parent.name for path in LESSONS} == {path.parent.name for path in always}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=name(path), marks=marks(path)) for path in [*LESSONS, *APPENDICES]],
)
def test_the_lesson_runs_and_prints_what_is_stored(path: Path) -> None:
    for _again in range(TRIES.get(path.stem[:2], 1)):
        done = compare(path)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout[-6000:]
    assert f"{len(code_cells(path))} passed" in done.stdout


def compare(path: Path) -> subprocess.CompletedProcess[str]:
    """Runs nbval on one lesson."""
    return subprocess.run(
        [
            *[sys.executable, "-m", "pytest", "--nbval", "--nbval-cell-timeout", "900"],
            *["--nbval-sanitize-with", str(Path(__file__).with_name("nbval.cfg"))],
            *["-p", "no:cacheprovider", "-q", "--rootdir", str(path.parent), str(path)],
        ],
        cwd=path.parent,
        env=reader_env(),
        capture_output=True,
        text=True,
        timeout=1500,  # only a hang takes longer, even on a slow machine
        check=False,
    )


def reader_env() -> dict[str, str]:
    """The environment of a reader's kernel, in which each notebook chooses its own Keras."""
    return {name: value for name, value in os.environ.items() if name != LEGACY_KERAS}


@pytest.mark.parametrize("path", [*ENGLISH, *ENGLISH_APPENDICES], ids=name)
def test_cells_have_readable_names_and_stored_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    ids = [cell["id"] for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert all(part.isalnum() for cell_id in ids for part in cell_id.split("-"))
    counts = [cell["execution_count"] for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1)), "store the lesson as one run from the top"
    outputs = [output for cell in code_cells(path) for output in cell["outputs"]]
    assert not [output for output in outputs if "ename" in output]
    assert not [output for output in outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("path", ENGLISH, ids=name)
def test_a_cell_that_trains_and_is_not_compared_is_followed_by_a_claim(path: Path) -> None:
    cells = code_cells(path)
    trains = [i for i, cell in enumerate(cells) if TRAINS.search(cell["source"])]
    assert trains
    ignored = [i for i in trains if "nbval-ignore-output" in tags(cells[i])]
    unproved = [
        cells[i]["id"]
        for i in ignored
        if not any("assert " in cell["source"] for cell in cells[i : i + 3])
    ]
    assert set(unproved) <= MEASURED


@pytest.mark.parametrize("path", [*ENGLISH, *ENGLISH_APPENDICES], ids=name)
def test_the_lesson_has_a_picture(path: Path) -> None:
    outputs = [output for cell in code_cells(path) for output in cell["outputs"]]
    assert any("<img" in str(output.get("data", {}).get("text/html", "")) for output in outputs)


@pytest.mark.parametrize("path", [*ENGLISH, *ENGLISH_APPENDICES], ids=name)
def test_the_lesson_opens_and_closes_with_the_same_three_points(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    texts = {cell["id"]: cell["source"] for cell in notebook.cells}
    first, last = texts["title"], texts["summary"]
    assert "you will" in first
    assert "You have" in last
    assert first.count("\n- ") == last.count("\n- ") == 3


@pytest.mark.parametrize("path", ENGLISH_APPENDICES, ids=name)
def test_what_an_appendix_does_not_compare_is_followed_by_a_claim(path: Path) -> None:
    cells = code_cells(path)
    unproved = [
        cell["id"]
        for cell, following in pairwise([*cells, {"source": ""}])
        if "nbval-ignore-output" in tags(cell) and "assert " not in following["source"]
    ]
    versions, warnings = "language", "warnings"  # which depend on this installation
    assert set(unproved) <= {versions, warnings}


def test_the_stored_lesson_reached_97_percent_on_two_workers() -> None:
    result = best_result(nbformat.read(ENGLISH[0], as_version=4))
    assert result["accuracy"] >= 0.97
    assert result["workers"] == 2
    assert "1404 steps on 2 workers, accuracy 0.98" in summary(result, 30)


def code_cells(path: Path) -> list[Any]:
    cells: list[Any] = nbformat.read(path, as_version=4).cells
    return [cell for cell in cells if cell["cell_type"] == "code"]


def tags(cell: Any) -> list[str]:
    return cell["metadata"].get("tags", [])
