"""The panel in a real kernel without a connected page, and in a program without a kernel."""

from __future__ import annotations

import base64
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from benchmarks import repaint

VIEW = "application/vnd.jupyter.widget-view+json"
IMAGE = 'src="data:image/svg+xml;base64,'
FEW_STEPS = "steps=60"


def execute(*cells: str) -> Any:
    """The notebook of these cells after a kernel has run them."""
    v4 = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook


@pytest.mark.training
def test_run_ends_in_a_sentence_and_a_picture_where_there_are_no_widgets() -> None:
    train = f"result = panel.run(workers=2, {FEW_STEPS})"
    notebook = execute(
        "from helpers.course.panel import Panel\npanel = Panel()", train, "result.accuracy"
    )
    shown, value = notebook.cells[1].outputs, notebook.cells[2].outputs
    assert [output.output_type for output in shown] == ["display_data"]
    data = shown[0].data
    assert data["text/plain"].startswith("Panel(2 workers, AUTO, done: accuracy 0.")
    svg = base64.b64decode(data["text/html"].partition(IMAGE)[2].rstrip('">'))
    assert ET.fromstring(svg).get("aria-label", "").startswith("2 workers")
    assert VIEW in data and float(value[0].data["text/plain"]) > 0.5


@pytest.mark.training
def test_a_second_run_in_a_cell_of_its_own_leaves_the_first_picture_as_it_is() -> None:
    first, second = (f"panel.run(workers={n}, {FEW_STEPS})" for n in (1, 2))
    notebook = execute(
        "from helpers.course.panel import Panel\npanel = Panel()", first + ";", second + ";"
    )
    texts = [cell.outputs[0].data["text/plain"] for cell in notebook.cells[1:]]
    assert [text.partition(",")[0] for text in texts] == ["Panel(1 worker", "Panel(2 workers"]


def test_a_program_is_told_how_its_run_ended() -> None:
    program = f"from helpers.course.panel import Panel\nPanel().run(workers=2, {FEW_STEPS})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1].startswith("Panel(2 workers, AUTO, done: accuracy 0.")


@pytest.mark.training
def test_a_repaint_late_in_a_run_costs_what_an_early_one_does() -> None:
    """After ten times the steps. Counts calls, while benchmarks/results/repaint.md has the time."""
    early, late = repaint.measure(4, repaints=5)
    assert (early.step, late.step) == (300, 3000)
    assert 1000 < early.calls < 30_000
    assert late.calls < 1.5 * early.calls
    assert 1000 < early.sent < 100_000
    assert late.sent < 1.5 * early.sent
