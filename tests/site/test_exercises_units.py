"""The fields for answers on the pages of exercises, without a browser."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from functools import cache
from html import escape

import pytest

from helpers.course.check import check, find_task
from tests.support import ROOT
from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.site import browser_check, exercises

MEASURED = {"speed_up"}  # on real workers, if the machine can limit a bandwidth
TASKS = sorted(set(browser_check.TASKS) - MEASURED)


@cache
def answers(folder: str) -> dict[str, tuple[str, str]]:
    """The code of each answer's cell, after the code that it uses, by its task."""
    found = {}
    for path in sorted((ROOT / "notebooks" / folder).glob("*.ipynb")):
        for cell, before in exercises.answer_cells(notebook.read(path)):
            found[exercises.task_of(cell)] = before, notebook.source(cell)
    return found


def test_every_task_has_a_cell_and_a_solution() -> None:
    assert set(answers("en/exercises")) == set(answers("solutions")) == set(browser_check.TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_solution_earns_all_points_with_the_text_of_the_notebook(task: str) -> None:
    before, code = answers("solutions")[task]
    found = browser_check.check_answer(task, before, code)
    assert found["points"] == find_task(task).points
    names: dict[str, object] = {"json": json}
    with redirect_stdout(io.StringIO()):
        exec(f"import math\n{before}\n{code}", names)
    with redirect_stdout(io.StringIO()) as printed:
        check(task, names)
    assert found["text"] == printed.getvalue()


@pytest.mark.parametrize("task", browser_check.TASKS)
def test_the_cell_without_an_answer_earns_nothing(task: str) -> None:
    found = browser_check.check_answer(task, *answers("en/exercises")[task])
    assert found["points"] == 0 and "hint: " in found["text"]


def test_an_error_of_the_answer_is_shown_after_its_output() -> None:
    found = browser_check.check_answer("to_keep", "", "print('here')\n1 / 0")
    assert found == {"points": 0.0, "text": "here\nZeroDivisionError: division by zero\n"}
    found = browser_check.check_answer("to_keep", "", "def to_keep(")
    assert found["text"].startswith("SyntaxError: ")


def test_a_page_has_a_field_for_each_answer_and_leaves_other_cells() -> None:
    path = ROOT / "notebooks" / "en" / "exercises" / "01_train_on_two_workers.ipynb"
    parsed = notebook.read(path)
    exercises.place(parsed, "en")
    shown: dict[str, Json] = {
        cell["id"]: cell for cell in notebook.cells(parsed, "code") if cell["outputs"]
    }
    assert sorted(shown) == ["mended", "third-worker"]
    html = shown["mended"]["outputs"][0]["data"]["text/html"]
    assert escape(notebook.source(shown["mended"])) in html
    assert "broken = {" in html.partition("data-before")[2] and "hidden><p>" in html
