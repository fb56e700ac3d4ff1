"""What a page of the site computes of a simulation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from helpers.course import simulations
from helpers.course.simulations import page
from helpers.i18n import set_language

HEAVY = {"IPython", "ipywidgets", "matplotlib", "numpy", "tensorflow"}


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    yield
    set_language("en")


def test_every_experiment_has_a_simulation() -> None:
    assert sorted(simulations.SIMULATIONS) == simulations.__all__


def test_a_simulation_runs_without_notebook_and_numpy() -> None:
    code = (
        "import sys\n"
        "from helpers.course.simulations import SIMULATIONS, page\n"
        "assert [page.result(name, page.first_positions(name)) for name in SIMULATIONS]\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "helpers" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("name", simulations.__all__)
def test_the_page_shows_the_view_of_the_notebook(name: str) -> None:
    made = getattr(simulations, name)()
    found = page.result(name, page.first_positions(name))
    assert (found["svg"], found["sentence"]) == (made.view.drawing.svg(), made.view.sentence)
    made.close()


def test_a_position_beyond_the_end_of_a_slider_is_its_end() -> None:
    workers = [control.name for control in page.simulation("ring_rounds").controls.values()]
    assert workers == ["Workers", "Rounds done"]
    two = page.result("ring_rounds", [0, 10])
    assert two["last"] == [4, 2]
    assert two == page.result("ring_rounds", [0, 2])
    assert page.result("ring_rounds", [4, 10])["last"] == [4, 10]


def test_a_simulation_speaks_the_language_in_use() -> None:
    english = page.simulation("staleness").title
    set_language("ru")
    russian = page.simulation("staleness")
    assert russian.title != english
    assert "0,2" in russian.controls["rate"].texts
    set_language("en")
    assert page.simulation("staleness").title == english
