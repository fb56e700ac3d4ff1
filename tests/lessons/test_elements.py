"""What the tutorials teach from which this course is made, and where the course teaches it.

`elements.csv` has a row for each element of the source tutorials. `shown` says whether a code cell
`runs` it, only text has it `told`, or it is `missing`; an element of several parts is shown as its
weakest part is. `needle` is a piece of the cell that must be there for it to be so.
"""

from __future__ import annotations

import csv
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import ROOT

NUMBERS = range(1, 146)
RUNS, API_MENTION = 135, 9  # as many as there were once: let them grow, and none be lost
KINDS = {"runs": "code", "told": "markdown"}  # of cells, for each way in which they show
WRITES = re.compile(r"%%writefile (\S+)\n")


class Element(NamedTuple):
    """A row of `elements.csv`."""

    number: str
    source: str
    element: str
    shown: str
    lesson: str
    cell: str
    needle: str
    reason: str


def read_elements() -> list[Element]:
    with Path(__file__).with_name("elements.csv").open(encoding="utf-8", newline="") as file:
        return [Element(**row) for row in csv.DictReader(file, strict=True)]


ELEMENTS = read_elements()


@cache
def cells(lesson: str) -> dict[str, dict[str, Any]]:
    """The cells of a lesson by their ids; of `exercises/…`, those of the solution; else none."""
    exercise = lesson.startswith("exercises/")
    folder = ROOT / "notebooks" / ("solutions" if exercise else "en")
    path = folder / f"{lesson.removeprefix('exercises/')}.ipynb"
    if not path.is_file():
        return {}
    return {cell["id"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def code(lesson: str) -> list[str]:
    return [source(cell) for cell in cells(lesson).values() if cell["cell_type"] == "code"]


def is_started(lesson: str, text: str) -> bool:
    """Whether a cell is executed where it stands, or writes a file that another cell names."""
    written = WRITES.match(text)
    return not written or any(written[1] in other for other in code(lesson) if other != text)


def problem(element: Element) -> str | None:
    """Why an element is not shown as its row says; None where it is."""
    if element.shown == "missing":
        return "names a cell or a reason" if any(element[4:]) else None
    if element.shown not in KINDS:
        return f"is {element.shown!r}, and not runs, told or missing"
    if (element.shown == "told") != bool(element.reason.strip()):
        return "needs a reason if it is told, and none if it runs"
    return problem_of_cell(element)


def problem_of_cell(element: Element) -> str | None:
    """Why the cell that a row names does not show the element; None where it does."""
    cell = cells(element.lesson).get(element.cell)
    if cell is None:
        return f"has no cell {element.cell!r} in {element.lesson!r}"
    if cell["cell_type"] != KINDS[element.shown]:
        return f"{element.shown} in a {cell['cell_type']} cell"
    if not element.needle.strip() or element.needle not in source(cell):
        return f"is no more in cell {element.cell!r}: {element.needle!r}"
    return None if is_started(element.lesson, source(cell)) else "is written, and never started"


def find(shown: str) -> list[Element]:
    return [element for element in ELEMENTS if element.shown == shown]


def test_every_element_is_listed_once() -> None:
    assert [element.number for element in ELEMENTS] == [str(number) for number in NUMBERS]
    assert all(element.source and element.element for element in ELEMENTS)


def test_every_element_is_shown_where_its_row_says() -> None:
    problems = {f"{e.number} {e.element}": problem(e) for e in ELEMENTS}
    assert {name: why for name, why in problems.items() if why} == {}


def test_no_element_is_lost() -> None:
    runs, told = len(find("runs")), len(find("told"))
    assert runs >= RUNS
    assert runs + told >= RUNS + API_MENTION


FIRST = {shown: find(shown)[0] for shown in ("runs", "told", "missing")}


@pytest.mark.parametrize(
    ("element", "why"),
    [
        (FIRST["runs"]._replace(needle="what nobody wrote"), "is no more in cell"),
        (FIRST["runs"]._replace(needle=""), "is no more in cell"),
        (FIRST["runs"]._replace(cell="no-such-cell"), "has no cell"),
        (FIRST["runs"]._replace(lesson="99_no_such_lesson"), "has no cell"),
        (FIRST["runs"]._replace(shown="told", reason="to be run"), "told in a code cell"),
        (FIRST["told"]._replace(shown="runs", reason=""), "runs in a markdown cell"),
        (FIRST["told"]._replace(reason=""), "needs a reason"),
        (FIRST["told"]._replace(shown="perhaps"), "not runs, told or missing"),
        (FIRST["missing"]._replace(reason="nobody came to it"), "names a cell or a reason"),
    ],
)
def test_a_row_that_is_not_so_is_found(element: Element, why: str) -> None:
    assert why in str(problem(element))


def test_a_program_that_no_cell_starts_does_not_run() -> None:
    assert is_started("07_run_on_a_real_cluster", "%%writefile program.py\nprint()")
    assert not is_started("07_run_on_a_real_cluster", "%%writefile forgotten.py\nprint()")
