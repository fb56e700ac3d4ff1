"""The course covers the content of its source tutorials: each row of `elements.csv` is true."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.lessons import element_rows
from tests.lessons.element_rows import KINDS, Element, is_started, problem, read_elements

SHOWN, IN_THE_COURSE = 135, 150  # at least
MISSING = {"buttons: view, Colab, source, download"}  # until the course has an address
ELEMENTS = read_elements()


def test_every_element_is_listed_once() -> None:
    numbers = [element.number for element in ELEMENTS]
    assert numbers == [str(number) for number in range(1, len(ELEMENTS) + 1)]
    assert all(element.source and element.element for element in ELEMENTS)
    assert max(Counter(element.element for element in ELEMENTS).values()) == 1


def test_every_element_is_shown_where_its_row_says() -> None:
    problems = {f"{e.number} {e.element}": problem(e) for e in ELEMENTS}
    assert {name: why for name, why in problems.items() if why} == {}


def test_no_element_is_lost() -> None:
    kinds = Counter(element.shown for element in ELEMENTS if not problem(element))
    assert kinds["shown"] >= SHOWN
    assert kinds.total() - kinds["missing"] >= IN_THE_COURSE
    assert {element.element for element in ELEMENTS if element.shown == "missing"} == MISSING


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lesson with a printed value, a picture, a cell without output, and a text."""
    svg = '<img alt="two workers in a ring" src="data:image/svg+xml;base64,">'
    outputs = {
        "first": [{"output_type": "stream", "name": "stdout", "text": ["accuracy 0.98\n"]}],
        "drawn": [{"output_type": "display_data", "data": {"text/html": [svg]}}],
        "defined": [],
    }
    made = [
        {"id": name, "cell_type": "code", "source": [f"{name}()"], "outputs": found}
        for name, found in outputs.items()
    ]
    made.append({"id": "text", "cell_type": "markdown", "source": ["Keras is recommended."]})
    path = tmp_path / "notebooks" / "en" / "99_a_lesson.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"cells": made}), "utf-8")
    (tmp_path / "stand_ins.py").write_text('CELLS = ("first",)', "utf-8")
    monkeypatch.setattr(element_rows, "ROOT", tmp_path)
    element_rows.cells.cache_clear()
    return path.stem


ROW = Element("1", "guide", "a", "shown", "", "first", "first()", "", r"accuracy 0\.9\d", "")
TOLD = ROW._replace(shown="told", cell="text", needle="recommended", output="", reason="advice")
HARDWARE = ROW._replace(shown="hardware", reason="stand_ins.py")


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        ROW._replace(cell="defined", needle="defined()", output_cell="first"),
        ROW._replace(cell="drawn", needle="drawn()", output="image"),
        ROW._replace(cell="drawn", needle="drawn()", output="image:in a ring"),
        TOLD,
        HARDWARE,
        Element("1", "guide", "a", *[""] * 7)._replace(shown="missing"),
    ],
)
def test_a_row_that_is_so_has_no_problem(row: Element, lesson: str) -> None:
    assert problem(row._replace(lesson=lesson if row.shown != "missing" else "")) is None


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (ROW._replace(output=r"accuracy 0\.7"), "prints nothing like"),
        (ROW._replace(output=""), "names no value"),
        (ROW._replace(output=".*"), "names no value"),
        (ROW._replace(output="(accuracy)?"), "names no value"),
        (ROW._replace(cell="defined", needle="defined()"), "prints nothing like"),
        (ROW._replace(output="image"), "shows no picture"),
        (ROW._replace(output_cell="text"), "has no code cell 'text'"),
        (ROW._replace(output_cell="drawn", output="image:server"), "no picture of 'server'"),
        (ROW._replace(needle="another()"), "is no longer in cell"),
        (ROW._replace(needle=""), "is no longer in cell"),
        (ROW._replace(cell="no-such-cell"), "has no cell"),
        (ROW._replace(reason="a reason"), "needs a reason unless it is shown"),
        (HARDWARE._replace(reason=""), "needs a reason"),
        (HARDWARE._replace(reason="no_such_test.py"), "names no test"),
        (HARDWARE._replace(cell="drawn", needle="drawn()"), "does not run the cell 'drawn'"),
        (TOLD._replace(reason=""), "needs a reason"),
        (TOLD._replace(cell="first", needle="first()"), "told in a code cell"),
        (ROW._replace(shown="perhaps"), "not shown, hardware, told or missing"),
        (ROW._replace(shown="missing"), "names a cell or a reason"),
    ],
)
def test_a_row_that_is_not_so_is_found(row: Element, why: str, lesson: str) -> None:
    assert why in str(problem(row._replace(lesson=lesson)))


def test_an_exercise_shows_nothing_because_it_has_no_outputs() -> None:
    assert not element_rows.cells("exercises/01_train_on_two_workers")
    assert set(KINDS) == {"shown", "hardware", "told"}


def test_a_program_that_no_cell_starts_does_not_run() -> None:
    element_rows.cells.cache_clear()
    assert is_started("07_run_on_a_real_cluster", "%%writefile program.py\nprint()")
    assert not is_started("07_run_on_a_real_cluster", "%%writefile forgotten.py\nprint()")
