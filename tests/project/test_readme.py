"""The content that the READMEs describe exists."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.support import ROOT
from tools.lessons.project import SOURCE
from tools.lessons.run import best_result
from tools.screenshots import IN_EACH_LANGUAGE, SCREENSHOTS

LANGUAGES = ["ru", "zh", "ko", "es"]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "locales/*.md", "docs/*/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^)#:\s]+)\)")


def test_the_pages_are_there() -> None:
    names = {path.name for path in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md", "TRANSLATING.md", "FAULTS.md"} <= names
    assert len(PAGES) >= 14


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = LINK.findall(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("language", ["en", *LANGUAGES])
def test_the_readme_lists_every_lesson_with_its_title(language: str) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    paths = sorted((ROOT / "notebooks" / language).glob("[0-9][0-9]_*.ipynb"))
    assert paths
    for path in paths:
        title = nbformat.read(path, as_version=4).cells[0]["source"].splitlines()[0].lstrip("# ")
        assert f"[{title}]({path.relative_to(ROOT)})" in readme


def test_the_numbers_of_the_readme_are_those_of_the_stored_lesson() -> None:
    """Within a factor of two, because machines differ. The accuracy is within half a percent."""
    stored = best_result(nbformat.read(ROOT / "notebooks/en/01_train_on_two_workers.ipynb", 4))
    readme = (ROOT / "README.md").read_text("utf-8")
    seconds = [float(value) for value in re.findall(r"([\d.]+) s(?: of|, …)", readme)]
    speeds = [int(found.replace(",", "")) for found in re.findall(r"([\d,]+) examples/s", readme)]
    accuracies = [float(found) for found in re.findall(r"accuracy (0\.\d{4})", readme)]
    assert len(seconds) >= 2 and len(speeds) >= 1 and len(accuracies) >= 2
    assert all(0.5 < value / stored["seconds"] < 2 for value in seconds)
    assert all(0.5 < value / stored["examples_per_second"] < 2 for value in speeds)
    assert all(abs(value - stored["accuracy"]) < 0.005 for value in accuracies)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_a_readme_that_lists_its_lessons(language: str) -> None:
    text = (ROOT / "docs" / language / "README.md").read_text("utf-8")
    for path in sorted((ROOT / "notebooks" / language).glob("[0-9][0-9]_*.ipynb")):
        assert f"notebooks/{language}/{path.name}" in text


def test_the_pictures_of_the_readme_are_those_that_are_taken() -> None:
    picture = re.compile(r"!\[[^\]]+\]\((?P<folder>[\w./]*)pictures/(?P<name>\w+)\.png\)")
    expected = {(SOURCE, name) for name in SCREENSHOTS}
    expected |= {(lang, name) for lang in LANGUAGES for name in IN_EACH_LANGUAGE}
    there = {(path.parts[-3], path.stem) for path in (ROOT / "docs").glob("*/pictures/*.png")}
    there |= {(SOURCE, path.stem) for path in (ROOT / "docs" / "pictures").iterdir()}
    assert there == expected
    shown = set()
    for lang in (SOURCE, *LANGUAGES):
        path = ROOT / "README.md" if lang == SOURCE else ROOT / "docs" / lang / "README.md"
        for found in picture.finditer(path.read_text("utf-8")):
            own = lang if found["folder"] == "" else SOURCE
            shown.add((own, found["name"]))
    assert shown == expected


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


def test_the_first_screen_of_the_readme_has_the_two_commands_and_the_paths() -> None:
    first = (ROOT / "README.md").read_text("utf-8").partition("\n## Lessons\n")[0]
    assert "\n    make run\n    make test\n" in first
    assert "docs/pictures/panel.png" in first
    assert len(first.split()) <= 260
    paths = re.findall(r"^- \*\*You .*?(?=^- |\Z)", first, re.M | re.S)
    numbers = [re.findall(r"\b\d+\b(?!_)", path) for path in paths]
    assert numbers == [
        ["3", "4", "5", "6", "8", "10", "7", "12", "13"],
        ["1", "9", "11", "7", "3", "12", "13"],
        [],
    ]


def test_the_documented_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    lanes = (ROOT / "tests" / "README.md").read_text("utf-8")  # see tests/project/test_lanes.py
    pages = [ROOT / "README.md", ROOT / "docs" / "COMMANDS.md"]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    commands = set(re.findall(r"(?:`|^    )make ([a-z0-9-]+)", text, re.MULTILINE))
    assert {"run", "test", "jupyterlab", "app", "site", "serve", "offline", "quick"} <= commands
    assert [
        name
        for name in commands
        if not re.search(rf"^{name}:|\b{name}\b.*:", makefile, re.M)
        and f"| `make {name}" not in lanes
    ] == []


def test_every_fault_that_is_described_has_its_test() -> None:
    """The names in the tables are names of test functions."""
    page = (ROOT / "docs" / "FAULTS.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    files = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = {
        name for text in files for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)
    }
    assert len(named) >= 20
    assert named - there == set()
