"""A notebook as JSON, in which every byte outside of translated messages is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.lessons.project import SOURCE, ToolError, read_text

Json = dict[str, Any]  # a notebook, or one of its cells

LANGUAGE_TAG = "l10n-lang"  # the code cell that sets the notebook's language
NAMED_LANGUAGE = re.compile(
    r"""(\b(?:lang|language)\s*=\s*|\bset_language\(\s*)(["'])([a-z]+)\2""", re.IGNORECASE
)
# A code cell with all its imports whose output depends only on the language, such as a figure of
# the package. It can be executed again without running the whole lesson.
STANDALONE_TAG = "self-contained"
# A code cell with all its imports that trains, so its output differs from run to run. It is
# executed alone only if it has no outputs yet, and its outputs are never compared.
FRESH_TAG = "volatile"
STANDALONE_TAGS = frozenset({STANDALONE_TAG, FRESH_TAG})
# Magics of IPython. A cell with one of these is Python code, while another cell magic, such as
# %%writefile, makes a cell the text of something else.
PYTHON_MAGIC = re.compile(r"%%(?:workers|chief|time)\b")
MAGIC_LINE = re.compile(r"^([ \t]*)[%!].*", re.MULTILINE)
# A code cell whose output nbval does not compare.
IGNORED_TAG = "nbval-ignore-output"
PRINTS_VERSIONS = re.compile(r"\binit\(\s*lang\s*=")  # helpers.init, which the tagged cell calls
# Markdown cells that the builder writes: links to open the notebook, and its head and foot.
BADGES_TAG, HEAD_TAG, FOOT_TAG = "badges", "head", "foot"
# A code cell that the builder writes, which finds or installs the course's package.
INSTALL_TAG = "install"
WRITTEN = frozenset({BADGES_TAG, HEAD_TAG, FOOT_TAG, INSTALL_TAG})
OUTPUT_INDEPENDENT_TAGS = STANDALONE_TAGS | {INSTALL_TAG}  # independent of other cells


def parse(text: str, name: str) -> Json:
    """Reads a notebook's JSON. `name` is its name in the error message.

    Raises:
      ToolError: it is not a notebook, or has cells without ids.
    """
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_notebook(name, str(error)) from None
    match notebook:
        case {"cells": [*cells], "metadata": {**metadata}} if isinstance(
            metadata.get("language_info", {}), dict
        ):
            pass
        case _:
            raise _no_notebook(name, "it has no list of cells, or wrong metadata")
    for number, cell in enumerate(cells, 1):
        if not _is_cell(cell):
            raise _no_notebook(name, f"cell {number} lacks a field, or has a wrong one")
        if not cell.get("id"):
            raise ToolError(
                f"{name}: cell {number} has no id, by which translations are "
                "stored. Add a readable id (nbformat 4.5)."
            )
    return notebook


def _no_notebook(name: str, why: str) -> ToolError:
    return ToolError(
        f"{name} is not a notebook: {why}. Restore it from git, or save it with Jupyter."
    )


def _is_cell(cell: Any) -> bool:
    """Whether it has all required fields, in the types of nbformat 4.5."""
    match cell:
        case {"cell_type": "code", "outputs": list(), "execution_count": int() | None}:
            pass
        case {"cell_type": "markdown" | "raw"}:
            pass
        case _:
            return False
    lines = cell.get("source")
    tagged = cell.get("metadata", {})
    return (
        isinstance(cell.get("id", ""), str)
        and (isinstance(lines, str) or _are_strings(lines))
        and isinstance(tagged, dict)
        and _are_strings(tagged.get("tags", []))
    )


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def read(path: Path) -> Json:
    """Reads a notebook file."""
    return parse(read_text(path), str(path))


def dumps(notebook: Json) -> str:
    """The text of a notebook file in nbformat's format, with the order of keys kept."""
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def source(cell: Json) -> str:
    """A cell's text."""
    return "".join(cell["source"])


def printed(outputs: list[Json]) -> str:
    """The text that a code cell wrote to standard output, from its outputs."""
    return "".join(
        "".join(output["text"])
        for output in outputs
        if output["output_type"] == "stream" and output["name"] == "stdout"
    )


def python_code(cell: Json) -> str:
    """A code cell's text without magics, empty if it is not code that runs here or in workers."""
    text = source(cell)
    if text.startswith("%%") and not PYTHON_MAGIC.match(text):
        return ""
    return MAGIC_LINE.sub(r"\1pass", text)


def set_source(cell: Json, text: str) -> None:
    """Sets a cell's text, as lines if it was a list of lines. Equal text changes nothing."""
    if text == source(cell):
        return
    cell["source"] = text if isinstance(cell["source"], str) else text.splitlines(keepends=True)


def tags(cell: Json) -> list[str]:
    """A cell's tags."""
    return cell.get("metadata", {}).get("tags", [])


def is_folded(cell: Json) -> bool:
    """Whether JupyterLab shows a code cell folded."""
    jupyter = cell.get("metadata", {}).get("jupyter")
    return isinstance(jupyter, dict) and jupyter.get("source_hidden") is True


def fold(cell: Json) -> None:
    """Folds the source of a code cell, in JupyterLab and in Colab."""
    metadata = cell.setdefault("metadata", {})
    added = {"cellView": "form", "jupyter": {**metadata.get("jupyter", {}), "source_hidden": True}}
    cell["metadata"] = dict(sorted({**metadata, **added}.items()))


def add_tag(cell: Json, tag: str) -> None:
    """Adds a tag to a cell unless it has the tag."""
    if tag not in tags(cell):
        cell.setdefault("metadata", {})["tags"] = [*tags(cell), tag]


def cells(notebook: Json, kind: str) -> Iterator[Json]:
    """The cells of one kind, ``markdown`` or ``code``."""
    return (cell for cell in notebook["cells"] if cell["cell_type"] == kind)


def prose(notebook: Json) -> Iterator[Json]:
    """The Markdown cells that are translated, which are all cells except generated ones."""
    return (cell for cell in cells(notebook, "markdown") if not WRITTEN & {*tags(cell)})


def language(notebook: Json) -> str:
    """The code of the language that the tagged cell sets, or English without such a cell."""
    for cell in cells(notebook, "code"):
        named = NAMED_LANGUAGE.search(source(cell)) if LANGUAGE_TAG in tags(cell) else None
        if named:
            return named[3]
    return SOURCE


def code(notebook: Json) -> list[tuple[str, str]]:
    """The id and text of every code cell that needs other cells, on which outputs depend."""
    trained = (
        cell for cell in cells(notebook, "code") if not OUTPUT_INDEPENDENT_TAGS & {*tags(cell)}
    )
    return [(cell["id"], source(cell)) for cell in trained]


def standalone(notebook: Json) -> list[Json]:
    """The code cells that need no other cell and always have the same output."""
    return [cell for cell in cells(notebook, "code") if STANDALONE_TAG in tags(cell)]


def fresh(notebook: Json) -> list[Json]:
    """The code cells that need no other cell and have different outputs in each run."""
    return [cell for cell in cells(notebook, "code") if FRESH_TAG in tags(cell)]


def clear_outputs(notebook: Json) -> None:
    """Removes the results of an execution."""
    for cell in cells(notebook, "code"):
        cell["outputs"], cell["execution_count"] = [], None


def copy_outputs(giver: Json, taker: Json) -> None:
    """Copies the outputs of code cells in `giver` to the same cells of `taker`.

    A cell that needs no other cell gets none if its code is new or changed.
    """
    given = {cell["id"]: cell for cell in cells(giver, "code")}
    for new in cells(taker, "code"):
        old = given.get(new["id"])
        if old and (not STANDALONE_TAGS & {*tags(new)} or source(old) == source(new)):
            new["outputs"], new["execution_count"] = old["outputs"], old["execution_count"]


def number(notebook: Json) -> None:
    """Numbers the executed cells as in one run from the top."""
    filled = (cell for cell in cells(notebook, "code") if source(cell).strip())
    for count, cell in enumerate(filled, 1):
        if not executed(cell):
            continue
        for counted in (cell, *cell["outputs"]):
            if "execution_count" in counted:
                counted["execution_count"] = count


def executed(cell: Json) -> bool:
    """Whether a code cell has been executed. An empty one never counts as executed."""
    return cell.get("execution_count") is not None


def strip_volatile(notebook: Json) -> None:
    """Removes data that differs from run to run: times, Python's version, widgets' state."""
    metadata = notebook.get("metadata", {})
    metadata.pop("widgets", None)
    metadata.get("language_info", {}).pop("version", None)
    for cell in notebook["cells"]:
        for key in ("execution", "ExecuteTime"):
            cell.get("metadata", {}).pop(key, None)
