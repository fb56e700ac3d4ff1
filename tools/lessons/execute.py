"""Executes a built notebook in its folder and stores its outputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.lessons import claims, notebook
from tools.lessons.notebook import Json
from tools.lessons.project import SOLUTIONS, ToolError

CELL_SECONDS = 600
ATTEMPTS = 3  # a machine with variable speed may contradict true claims
KERNEL_OPTIONS = ["--log-level=ERROR"]  # no warning about TCP, which is loopback only
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def is_executable(domain: str) -> bool:
    """Whether a notebook runs unchanged, unlike an assignment, which needs answers."""
    return domain.rpartition("/")[0] not in SOLUTIONS


def run_cells(cells: Any, folder: Path) -> Any:
    """Runs every cell of an nbformat notebook in `folder`, and returns it with outputs.

    Raises:
      CellExecutionError, CellTimeoutError, DeadKernelError: a cell failed (nbclient's errors).
    """
    from nbclient import NotebookClient

    client = NotebookClient(
        cells,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=KERNEL_OPTIONS,
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


def execute(text: str, path: Path) -> str:
    """The notebook `text` with the outputs of an execution in `path`'s folder.

    Widgets are stored as their text: their state differs from run to run.

    Raises:
      ToolError: a cell fails, with the cell's error, or no run has numbers that satisfy its claims.
    """
    for _attempt in range(ATTEMPTS):
        done = _execute_once(text, path)
        contradicted = list(claims.broken(done, str(path)))
        if not contradicted:
            return done
    said = "\n".join(f"  cell {cell}: {claim}" for cell, claim in contradicted)
    raise ToolError(
        f"{path} was not written: {ATTEMPTS} runs, and none has what its text says of the numbers. "
        f"Record on a quiet machine, or mend the claim and the text:\n{said}"
    )


def refresh(text: str, path: Path) -> str:
    """The notebook `text` with new outputs of cells that need no other cell.

    All standalone cells are executed. Cells whose output differs in each run are executed only if
    they have no outputs.

    Raises:
      ToolError: if a cell fails.
    """
    result = notebook.parse(text, str(path))
    new = [cell for cell in notebook.fresh(result) if not notebook.executed(cell)]
    if alone := notebook.standalone(result) + new:
        sources = [notebook.source(cell) for cell in alone]
        done = standalone_outputs(sources, notebook.language(result), path)
        for cell, outputs in zip(alone, done, strict=True):
            cell["outputs"], cell["execution_count"] = outputs, 1
        notebook.number(result)
    return notebook.dumps(result)


def standalone_outputs(sources: Sequence[str], lang: str, path: Path) -> list[list[Json]]:
    """The outputs of standalone cells in a language. `path` is their notebook.

    Raises:
      ToolError: if a cell fails.
    """
    import nbformat

    speak = f"from helpers.i18n import set_language\nset_language({lang!r});"
    cells = [nbformat.v4.new_code_cell(code) for code in (speak, *sources)]
    result = json.loads(nbformat.writes(_run(nbformat.v4.new_notebook(cells=cells), path)))
    _flatten_widgets(result)
    return [cell["outputs"] for cell in result["cells"][1:]]


def _execute_once(text: str, path: Path) -> str:
    import nbformat

    done = _run(nbformat.reads(text, as_version=4), path)
    result = notebook.parse(text, str(path))
    notebook.copy_outputs(json.loads(nbformat.writes(done)), result)
    _flatten_widgets(result)
    notebook.strip_volatile(result)
    return notebook.dumps(result)


def _run(cells: Any, path: Path) -> Any:
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    try:
        return run_cells(cells, path.parent)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise ToolError(
            f"{path} was not written, a cell of it failed. Mend the English notebook:\n{error}"
        ) from None


def _flatten_widgets(result: Json) -> None:
    for cell in notebook.cells(result, "code"):
        for output in cell["outputs"]:
            output.get("data", {}).pop(WIDGET_VIEW, None)
