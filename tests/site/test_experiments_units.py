"""The experiments of the site's pages, without a browser and without building the site."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.course import simulations
from helpers.course.simulations import page
from helpers.i18n import set_language
from tests.support import ROOT
from tests.support.l10n_project import code_cell
from tools.lessons import notebook
from tools.lessons.project import Project, ToolError
from tools.site import browser_python, experiments

PROJECT = Project.load(ROOT)
LANGUAGES = ["en", *PROJECT.released]


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    yield
    set_language("en")


class Inputs(HTMLParser):
    """The attributes of the inputs of an HTML text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "input":
            self.found.append({name: value or "" for name, value in attrs})


def packed(path: Path) -> bytes:
    return gzip.decompress(path.with_name(path.name + browser_python.PACKED).read_bytes())


def test_every_experiment_of_the_lessons_is_placed(tmp_path: Path) -> None:
    placed = []
    for domain in PROJECT.notebooks:
        for cell in notebook.cells(notebook.read(PROJECT.notebook(domain)), "code"):
            before = json.dumps(cell)
            experiments.place(cell, "en", tmp_path)
            if json.dumps(cell) != before:
                placed.append(notebook.source(cell).split()[-1].removesuffix("()"))
                [output] = cell["outputs"]
                assert experiments.CLASS in output["data"]["text/html"]
    assert sorted(placed) == simulations.__all__


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", simulations.__all__)
def test_a_page_shows_an_experiment_without_javascript(name: str, lang: str) -> None:
    assert set_language(lang) == lang
    html = experiments.html(name, lang)
    simulation = page.simulation(name)
    view = simulation.draw(**simulation.initial)
    assert view.drawing.svg() in html
    for text in (simulation.title, simulation.settings_text(simulation.initial), view.sentence):
        assert escape(text) in html


@pytest.mark.parametrize("name", simulations.__all__)
def test_every_control_is_an_input_with_a_name(name: str) -> None:
    inputs = Inputs(experiments.html(name, "en")).found
    controls = page.simulation(name).controls.values()
    sliders = [one for one in inputs if one["type"] == "range"]
    assert len(sliders) == sum(one.kind != "buttons" for one in controls)
    for one in sliders:
        texts = json.loads(one["data-texts"])
        assert one["aria-label"] and one["aria-valuetext"] == texts[int(one["value"])]
        assert int(one["max"]) < len(texts)
    groups = {one["name"] for one in inputs if one["type"] == "radio"}
    assert len(groups) == len(controls) - len(sliders)
    assert sum("checked" in one for one in inputs) == len(groups)


@pytest.mark.parametrize("name", simulations.__all__)
def test_the_table_has_each_first_move(name: str) -> None:
    table = json.loads(experiments.table(name))
    first = page.first_positions(name)
    for k, control in enumerate(page.simulation(name).controls.values()):
        for position in range(len(control.values)):
            moved = [*first[:k], position, *first[k + 1 :]]
            assert table[",".join(map(str, moved))] == page.result(name, moved)
    assert len(table) < 70


def test_a_table_is_stored_in_the_language_of_the_page(tmp_path: Path) -> None:
    cell = code_cell("ring", "from helpers.course.simulations import ring_rounds\n\nring_rounds()")
    experiments.place(cell, "es", tmp_path)
    table = json.loads(packed(tmp_path / "python" / "tables" / "es" / "ring_rounds.json"))
    set_language("es")
    assert table["2,0"] == page.result("ring_rounds", [2, 0])


def test_a_cell_with_other_arguments_keeps_its_output(tmp_path: Path) -> None:
    cell = code_cell("ring", "from helpers.course.simulations import ring_rounds\n\nring_rounds(6)")
    before = json.dumps(cell)
    experiments.place(cell, "en", tmp_path)
    assert json.dumps(cell) == before and not list(tmp_path.iterdir())


def test_a_site_without_node_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None)
    monkeypatch.setattr(browser_python, "PREFIX", tmp_path)
    with pytest.raises(ToolError, match="npm is missing"):
        browser_python.install()


def test_packages_that_are_installed_are_not_installed_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(browser_python, "PREFIX", tmp_path)
    monkeypatch.setattr(browser_python, "_run", commands.append)
    for count, (name, version) in enumerate(browser_python.VERSIONS.items()):
        assert browser_python.install() == tmp_path / "node_modules"
        assert len(commands) == count + 1
        package = tmp_path / "node_modules" / name
        package.mkdir(parents=True)
        (package / "package.json").write_text(json.dumps({"version": version}))
    browser_python.install()
    assert len(commands) == len(browser_python.VERSIONS)
    assert {"pyodide@314.0.7", "xz-decompress@0.2.3"} <= set(commands[0])
