"""Lessons on systems that lack a feature: on several workers, with servers, with faults."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from helpers.system.keras_version import LEGACY_KERAS
from tests.support import ROOT
from tests.support.degraded import ALL, EACH, TOGETHER, switch_off
from tools.lessons.execute import run_cells

LESSONS = ["01", "05", "08"]
LOOK = """
from tests.support.degraded import missing
print(*missing())
"""
CABLE = """
from helpers.errors import ConfigError
try:
    panel.run(scenario="partition")
except ConfigError as error:
    print(error)
"""


@pytest.mark.degraded
@pytest.mark.parametrize("lesson", LESSONS)
@pytest.mark.parametrize("without", [*EACH, TOGETHER])
def test_the_lesson_runs_without(
    without: tuple[str, ...], lesson: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off(monkeypatch, *without)
    monkeypatch.delenv(LEGACY_KERAS, raising=False)  # helpers.estimator has set it in this process
    [path] = (ROOT / "notebooks" / "en").glob(f"{lesson}_*.ipynb")
    assert printed(path, LOOK).split() == list(without)


@pytest.mark.degraded
def test_the_laboratory_says_what_cannot_be_played(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_off(monkeypatch, *ALL)
    notebook = nbformat.v4.new_notebook()
    code = "from helpers.course.panel import Panel\npanel = Panel(fault_injection=True)\n" + CABLE
    notebook.cells = [nbformat.v4.new_code_cell(code)]
    done = run_cells(notebook, ROOT)
    assert "needs virtual network cables" in done.cells[-1].outputs[-1]["text"]


def printed(path: Path, code: str) -> str:
    """Runs a lesson with one more cell at its end, and returns the output of that cell."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(code))
    done = run_cells(notebook, path.parent)
    assert len(done.cells) > 20
    return str(done.cells[-1].outputs[-1]["text"])
