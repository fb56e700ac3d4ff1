"""The elements of the source tutorials, and where the course shows them.

`elements.csv` has a row for each element of the source tutorials. `shown` is the way in which a
reader meets it:

- `shown`: the code in `cell` contains `needle`, and the stored English output of `output_cell`, or
  else of `cell`, matches the regular expression `output`. If `output` begins with `image`, the
  output is a picture, and the text after a colon is searched for in its alternative text.
- `hardware`: the same, but the machine lacks the hardware for the code, and `output` is printed
  instead. `reason` names the test that runs the code with stand-ins.
- `told`: only a text mentions it, for a `reason`.
- `missing`.

An element with several parts has the value of its weakest part.

    python -m tests.lessons.element_rows    prints the rows that are wrong
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import ROOT

FILE = Path(__file__).with_name("elements.csv")
KINDS = {"shown": "code", "hardware": "code", "told": "markdown"}  # of cells, for each kind of row
WRITES = re.compile(r"%%writefile (\S+)\n")
IMAGE = re.compile(r'<img [^>]*alt="([^"]+)"|<svg [^>]*aria-label="([^"]+)"')
PICTURE_TYPES = {"image/png", "image/svg+xml"}
TAG = re.compile(r"<[^>]+>")
MIN_OUTPUT = 4  # characters of an expression that names a value


class Element(NamedTuple):
    """A row of `elements.csv`."""

    number: str
    source: str
    element: str
    shown: str
    lesson: str
    cell: str
    needle: str
    output_cell: str
    output: str
    reason: str


def read_elements(path: Path = FILE) -> list[Element]:
    """The rows in their order."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Element(**row) for row in csv.DictReader(file, strict=True)]


def problem(element: Element) -> str | None:
    """Why an element is not shown as in its row, or None if it is."""
    if element.shown == "missing":
        return "names a cell or a reason" if any(element[4:]) else None
    if element.shown not in KINDS:
        return f"is {element.shown!r}, and not shown, hardware, told or missing"
    if (element.shown == "shown") == bool(element.reason.strip()):
        return "needs a reason unless it is shown, and none if it is"
    why = _problem_of_cell(element)
    if why or element.shown == "told":
        return why
    if element.shown == "hardware" and (why := _problem_of_stand_in(element)):
        return why
    return _problem_of_output(element)


def _problem_of_cell(element: Element) -> str | None:
    cell = cells(element.lesson).get(element.cell)
    if cell is None:
        return f"has no cell {element.cell!r} in {element.lesson!r}"
    if cell["cell_type"] != KINDS[element.shown]:
        return f"{element.shown} in a {cell['cell_type']} cell"
    if not element.needle.strip() or element.needle not in source(cell):
        return f"is no longer in cell {element.cell!r}: {element.needle!r}"
    return None if is_started(element.lesson, source(cell)) else "is written, and never started"


def _problem_of_stand_in(element: Element) -> str | None:
    path = ROOT / element.reason.strip()
    if path.suffix != ".py" or not path.is_file():
        return f"names no test with stand-ins: {element.reason!r}"
    if f'"{element.cell}"' not in path.read_text(encoding="utf-8"):
        return f"{element.reason} does not run the cell {element.cell!r}"
    return None


def _problem_of_output(element: Element) -> str | None:
    name = element.output_cell or element.cell
    cell = cells(element.lesson).get(name)
    if cell is None or cell["cell_type"] != "code":
        return f"has no code cell {name!r} that shows it"
    kind, _colon, expression = element.output.partition(":")
    if kind == "image":
        found = [text for text in pictures(cell) if re.search(expression, text)]
        return None if found else f"cell {name!r} shows no picture of {expression!r}"
    if len(element.output) < MIN_OUTPUT or re.search(element.output, ""):
        return f"names no value that cell {name!r} prints"
    if not re.search(element.output, printed(cell), re.MULTILINE):
        return f"cell {name!r} prints nothing like {element.output!r}"
    return None


@cache
def cells(lesson: str) -> dict[str, dict[str, Any]]:
    """The cells of an English lesson by their ids, empty if the lesson does not exist."""
    path = ROOT / "notebooks" / "en" / f"{lesson}.ipynb"
    if not lesson or "/" in lesson or not path.is_file():
        return {}
    return {cell["id"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def printed(cell: dict[str, Any]) -> str:
    """The text output below a code cell."""
    return "\n".join(_texts(cell))


def _texts(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell["outputs"]:
        yield "".join(output.get("text", []))
        data = output.get("data", {})
        yield "".join(data.get("text/plain", data.get("text/markdown", [])))
        yield unescape(TAG.sub(" ", "".join(data.get("text/html", []))))


def pictures(cell: dict[str, Any]) -> list[str]:
    """The alternative texts of the pictures below a code cell."""
    found = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        html = "".join(data.get("text/html", []))
        found += [unescape(one or two) for one, two in IMAGE.findall(html)]
        if PICTURE_TYPES & data.keys():
            found.append("".join(data.get("text/plain", [])))
    return found


def is_started(lesson: str, text: str) -> bool:
    """Whether a cell is executed in place, or writes a file that another cell names."""
    code = [source(cell) for cell in cells(lesson).values() if cell["cell_type"] == "code"]
    written = WRITES.match(text)
    return not written or any(written[1] in other for other in code if other != text)


def main() -> int:
    """Prints the wrong rows, and the number of rows of each kind."""
    elements = read_elements()
    problems = [(element, why) for element in elements if (why := problem(element))]
    for element, why in problems:
        print(f"{element.number} {element.lesson[:2]} {element.element[:40]}: {why}")
    wrong = {element for element, _why in problems}
    print(dict(Counter(element.shown for element in elements if element not in wrong)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
