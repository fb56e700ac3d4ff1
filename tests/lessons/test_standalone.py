"""Independent cells: figures, experiments and questions, stored as the package shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import ROOT
from tools.lessons import execute, notebook
from tools.lessons.notebook import Json
from tools.lessons.project import SOURCE, Project

PROJECT = Project.load(ROOT)
LESSONS = [domain for domain in PROJECT.notebooks if re.match(r"\d\d_", domain)]
MAX_BYTES = 400_000
PANELS = ["09"]


def lessons(lang: str) -> dict[str, Json]:
    return {domain: notebook.read(PROJECT.notebook(domain, lang)) for domain in LESSONS}


def without_counts(outputs: list[Json]) -> list[Json]:
    return [{k: v for k, v in output.items() if k != "execution_count"} for output in outputs]


def test_each_lesson_has_such_cells_and_they_name_all_that_they_use() -> None:
    for domain, lesson in lessons(SOURCE).items():
        alone = notebook.standalone(lesson)
        assert "questions" in [cell["id"] for cell in alone], domain
        assert all(re.match(r"(from|import) ", notebook.source(cell)) for cell in alone), domain


def test_lessons_with_a_panel_can_run_it_alone_and_store_its_picture() -> None:
    """`tools.l10n build --refresh` records them, because their output differs from run to run."""
    found = {domain: notebook.fresh(lesson) for domain, lesson in lessons(SOURCE).items()}
    assert [domain[:2] for domain, cells in found.items() if cells] == PANELS
    for domain, cells in found.items():
        for cell in cells:
            assert notebook.source(cell).startswith("from helpers.course.panel import Panel\n"), (
                domain
            )
            assert "nbval-ignore-output" in notebook.tags(cell), domain
            [output] = cell["outputs"]
            assert "done" in "".join(output["data"]["text/plain"]), domain
            assert "<img alt=" in "".join(output["data"]["text/html"]), domain


@pytest.mark.parametrize(
    "lang", [SOURCE, *(pytest.param(each, marks=pytest.mark.lessons) for each in PROJECT.languages)]
)
def test_what_is_stored_is_what_the_package_shows(lang: str, tmp_path: Path) -> None:
    """If it fails, a figure or a translation has changed: python -m tools.l10n build --refresh."""
    cells = [
        (f"{domain}: {cell['id']}", cell)
        for domain, lesson in lessons(lang).items()
        for cell in notebook.standalone(lesson)
    ]
    sources = [notebook.source(cell) for _name, cell in cells]
    shown = execute.standalone_outputs(sources, lang, tmp_path / "all.ipynb")
    stale = [
        name
        for (name, cell), outputs in zip(cells, shown, strict=True)
        if without_counts(cell["outputs"]) != without_counts(outputs)
    ]
    assert not stale


@pytest.mark.parametrize("lang", [SOURCE, *PROJECT.languages])
def test_pictures_have_words_and_a_lesson_is_small(lang: str) -> None:
    for domain, lesson in lessons(lang).items():
        assert len(PROJECT.notebook(domain, lang).read_bytes()) <= MAX_BYTES, domain
        shown = [
            "".join(output.get("data", {}).get("text/html", ""))
            for cell in notebook.cells(lesson, "code")
            for output in cell["outputs"]
        ]
        images = [tag for html in shown for tag in re.findall(r"<img [^>]*>", html)]
        assert images
        assert all(re.search(r'alt="[^"]+"', tag) for tag in images), domain
