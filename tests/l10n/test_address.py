"""The whole course with an address, and without it again: one setting, and no trace remains."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support import ROOT, published
from tools.l10n import install
from tools.lessons import notebook
from tools.lessons.project import Project

PROJECT = Project.load(ROOT)
LINK = re.compile(r"\]\((https://[^)]+)\)")
PLACES = ["colab.research.google.com", "mybinder.org", "codespaces.new", "github.com"]


KEPT = ("01_", "08_", "glossary")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(KEPT, id="two lessons"),
        pytest.param(("",), id="whole", marks=pytest.mark.slow),
    ],
)
def course(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The course with two lessons, their exercises and the glossary, or all of it."""
    folder = published.copy_of_course(tmp_path_factory.mktemp("course"))
    for path in folder.glob("notebooks/*/**/*.ipynb"):
        if not path.name.startswith(request.param):
            path.unlink()
    table = folder / "notebooks" / "course.toml"  # a lesson may only require an existing one
    first, *lessons = table.read_text("utf-8").split("\n\n[")
    kept = [text for text in lessons if text.startswith(request.param)]
    if len(kept) < len(lessons):
        kept = [re.sub(r"needs = \[.*\]", "needs = []", text) for text in kept]
    table.write_text("\n\n[".join([first, *kept]), "utf-8")
    return folder


def contents(course: Path) -> dict[Path, bytes]:
    paths = [*course.rglob("*.ipynb"), *course.rglob("*.md"), course / "CITATION.cff"]
    return {path.relative_to(course): path.read_bytes() for path in sorted(paths)}


def check_badges(text: str, path: str) -> None:
    """They link to a notebook, or for a page to one of the course, in a release."""
    links = LINK.findall(text)
    places = [*PLACES, "raw.githubusercontent.com" if path.endswith(".ipynb") else "github.com"]
    assert [urlsplit(link).hostname for link in links] == places
    assert all(published.NAME in link for link in links)
    assert all(PROJECT.tag in link for link in links if "codespaces" not in link)
    assert all(path in link for link in (links[0], links[1], links[3]))


def check_notebook(course: Path, domain: str, lang: str) -> None:
    path = Project(course).notebook(domain, lang)
    cells = notebook.read(path)["cells"]
    assert notebook.tags(cells[1]) == [notebook.BADGES_TAG]
    check_badges(notebook.source(cells[1]), path.relative_to(course).as_posix())
    code = [notebook.source(cell) for cell in cells if notebook.INSTALL_TAG in notebook.tags(cell)]
    wanted = f'{install.DISTRIBUTION}[course] @ git+{published.ADDRESS}@{PROJECT.tag}"'
    assert [wanted in text for text in code] == [True] * (domain != "glossary")


def check_outputs_stay(course: Path) -> None:
    """Every lesson still has the outputs of its cells, even if the code of a cell has changed."""
    for path in course.glob("notebooks/*/[0-9][0-9]_*.ipynb"):
        kept = [
            {cell["id"]: cell["outputs"] for cell in notebook.cells(notebook.read(each), "code")}
            for each in (path, ROOT / path.relative_to(course))
        ]
        assert kept[0] == kept[1], path


@pytest.mark.release
def test_an_address_is_right_everywhere_and_leaves_no_trace(course: Path) -> None:
    published.give_address(course, "")
    before = contents(course)
    project = Project.load(course)
    published.give_address(course, published.ADDRESS)
    check_outputs_stay(course)
    assert len(project.notebooks) >= 5
    for lang in ["en", *PROJECT.languages]:
        for domain in project.notebooks:
            check_notebook(course, domain, lang)
    for domain in project.assignments:
        solution = Project(course).solution(domain)
        assert solution and f"git+{published.ADDRESS}@" in solution.read_text("utf-8")
    for lang in ["en", *PROJECT.languages]:
        readme = Project(course).document("docs/README", lang)
        check_badges(readme.read_text("utf-8").split("\n\n")[1], f"notebooks/{lang}")
    cited = yaml.safe_load((course / "CITATION.cff").read_text("utf-8"))
    assert cited["repository-code"] == published.ADDRESS
    named = [path for path, text in contents(course).items() if published.NAME.encode() in text]
    assert len(named) == 5 * len(project.notebooks) + len(project.assignments) + 5 + 1
    published.give_address(course, "")
    assert contents(course) == before
