"""A lesson's claims about printed numbers, as expressions in the metadata of cells.

The metadata of a code cell may have `assertions`, a list of Python expressions. In these, `n` is
the list of numbers that the cell printed, in order, and `results` are the numbers of the displayed
results. So a text may state that a larger batch is faster, because no run that contradicts it is
stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from helpers.i18n import WITH_DECIMAL_COMMA
from helpers.results.training_result import RESULT_MIME
from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.lessons.project import SOURCE

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")  # in Python's notation
WITH_COMMA = re.compile(r"(?<![\w,])-?\d+(?:\u00a0\d{3})*(?:,\d+)?")  # in Russian, Spanish


def broken(text: str, path: str) -> Iterator[tuple[str, str]]:
    """The claims that the stored outputs of a notebook contradict, with the ids of their cells.

    Args:
      text: the text of the notebook's file.
      path: the path of the file, for errors.
    """
    parsed = notebook.parse(text, path)
    lang = notebook.language(parsed)
    for cell in notebook.cells(parsed, "code"):
        for claim in cell["metadata"].get("assertions", ()):
            if not _holds(claim, cell["outputs"], lang):
                yield cell["id"], claim


def numbers(outputs: list[Json], lang: str = SOURCE) -> list[float]:
    """The numbers that a cell printed, in the notation of its language."""
    printed = notebook.printed(outputs)
    if lang in WITH_DECIMAL_COMMA:
        found = WITH_COMMA.findall(printed)
        return [float(text.replace("\u00a0", "").replace(",", ".")) for text in found]
    return [float(found.replace(",", "")) for found in NUMBER.findall(printed)]


def _holds(claim: str, outputs: list[Json], lang: str) -> bool:
    """Whether a claim is true. A claim about a missing number is false."""
    results = [data[RESULT_MIME] for o in outputs if RESULT_MIME in (data := o.get("data", {}))]
    names = {"n": numbers(outputs, lang), "results": results, "max": max, "min": min}
    try:
        return bool(eval(claim, {"__builtins__": {}}, names))  # only the course's own notebooks
    except (IndexError, KeyError):
        return False
