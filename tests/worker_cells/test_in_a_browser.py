"""Worker cells as a reader sees them, in JupyterLab and in Notebook 7, with real workers."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.support import browser as b

pytestmark = b.MARKS
SECONDS = 240  # for a cell on a busy machine
CELLS = {
    "load": "from helpers import init\ninit(lang={language!r})\n%load_ext helpers",
    "start": "%workers start 2",
    "stream": """%%workers
import json, os, time
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
print("worker", index, "begins")
while not os.path.exists({file!r}):
    time.sleep(0.05)
print("worker", index, "ends")""",
    "raise": "%%workers\ndef divide(a):\n    return a / 0\ndivide(index + 1)",
    "figure": """%%chief
import matplotlib.pyplot as plt
plt.plot([3, 2, 1.5])
plt.title("loss");""",
    "loop": '%%workers\nprint("loop", index)\nwhile True:\n    index',
    # Only the workers know these names. They are not in the text of any cell.
    "define": """%%workers
for name in ("rate", "steps"):
    globals()["learning_" + name] = index""",
    "complete": "%%workers\nlearning_",
}
KEPT = {"en": "The workers were interrupted, and keep their variables.", "ko": "변수"}
SERVERS: dict[str, tuple[Callable[[Path], AbstractContextManager[str]], str]] = {
    "jupyterlab": (b.jupyterlab, "en"),
    "notebook": (b.notebook7, "ko"),
}


class Notebook:
    """The page of a notebook of `CELLS`, which a reader runs cell by cell.

    Args:
      tab: the page.
    """

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self._cells = tab.locator(".jp-Notebook .jp-CodeCell")

    def cell(self, name: str) -> Any:
        """A cell by its name in `CELLS`."""
        return self._cells.nth(list(CELLS).index(name))

    def text(self, name: str) -> str:
        """The text below a cell."""
        text: str = self.cell(name).locator(".jp-OutputArea").inner_text()
        return text

    def start(self, name: str) -> None:
        """Runs a cell with the keyboard, without waiting for its end."""
        self.cell(name).locator(".cm-content").click()
        self.tab.keyboard.press("Shift+Enter")

    def run(self, name: str) -> str:
        """Runs a cell to its end, and returns the text below it."""
        self.start(name)
        b.soon(lambda: self.has_ended(name), f"the end of the cell {name}", SECONDS)
        return self.text(name)

    def has_ended(self, name: str) -> bool:
        """Whether a cell has been run, so that its prompt is a number."""
        prompt = self.cell(name).locator(".jp-InputPrompt").inner_text()
        return re.search(r"\[\d+\]", prompt) is not None

    def wait_for(self, name: str, *texts: str) -> None:
        """Waits for texts below a cell that runs."""
        b.soon(lambda: all(one in self.text(name) for one in texts), str(texts), SECONDS)
        assert not self.has_ended(name)

    def completions(self, name: str) -> list[str]:
        """The names that the Tab key offers at the end of a cell, each with its kind."""
        offered = self.tab.locator(".jp-Completer-item")

        def are_offered() -> bool:
            """Presses the key again if JupyterLab did not wait long enough for the kernel."""
            self.tab.keyboard.press("Escape")
            self.cell(name).locator(".cm-content").click()
            self.tab.keyboard.press("Control+End")
            self.tab.keyboard.press("Tab")
            self.tab.wait_for_timeout(500)
            return bool(offered.count())

        b.soon(are_offered, "completions", SECONDS)
        return [" ".join(text.split()[-2:]) for text in offered.all_inner_texts()]


@pytest.mark.parametrize("server", SERVERS)
def test_a_reader_runs_interrupts_and_completes_worker_cells(
    browser: Any, server: str, tmp_path: Path
) -> None:
    serve, language = SERVERS[server]
    go = tmp_path / "go"
    texts = [cell.format(language=language, file=str(go)) for cell in CELLS.values()]
    b.write_notebook(tmp_path / "cells.ipynb", *texts)
    problems: list[str] = []
    with serve(tmp_path) as address, b.page(browser, problems) as tab:
        b.open_notebook(tab, address, "cells.ipynb")
        b.wait_for_kernel(tab)
        notebook = Notebook(tab)
        start(notebook)
        see_output_while_a_cell_runs(notebook, go)
        see_an_exception_and_a_figure(notebook)
        interrupt(notebook)
        assert KEPT[language] in notebook.text("loop")
        complete(notebook)
        b.save_shot(tab, f"worker-cells-{server}")
    assert not problems


def start(notebook: Notebook) -> None:
    """Starts two workers, whose number the cell shows."""
    notebook.run("load")
    assert re.search(r"\[1\] \w+ 1\b.*\d", notebook.run("start"))


def see_output_while_a_cell_runs(notebook: Notebook, go: Path) -> None:
    """Each line has the number of its worker. The workers wait until it is on the page."""
    notebook.start("stream")
    notebook.wait_for("stream", "[0] worker 0 begins", "[1] worker 1 begins")
    assert "ends" not in notebook.text("stream")
    go.touch()
    b.soon(lambda: notebook.has_ended("stream"), "the end", SECONDS)
    lines = notebook.text("stream").splitlines()
    assert sorted(line for line in lines if "ends" in line) == [
        "[0] worker 0 ends",
        "[1] worker 1 ends",
    ]


def see_an_exception_and_a_figure(notebook: Notebook) -> None:
    """Both workers raise the same exception, which is shown once with the lines of the cell."""
    text = notebook.run("raise")
    assert text.startswith("WorkerCellError:\n[0-1] ")
    assert text.count("return a / 0") == text.count("ZeroDivisionError") == 1
    assert "helpers/" not in text
    assert notebook.run("figure").strip() == "[0]"
    [picture] = notebook.cell("figure").locator(".jp-OutputArea img").all()
    assert picture.evaluate("image => image.complete && image.naturalWidth") > 300


def interrupt(notebook: Notebook) -> None:
    """Presses the button of the toolbar during an endless cell."""
    notebook.start("loop")
    notebook.wait_for("loop", "[0] loop 0", "[1] loop 1")
    notebook.tab.locator('[data-command="notebook:interrupt-kernel"]').first.click()
    b.soon(lambda: notebook.has_ended("loop"), "the end of the interrupted cell", SECONDS)
    text = notebook.text("loop")
    assert "CellInterrupt" in text
    assert text.splitlines()[-1] == "KeyboardInterrupt"


def complete(notebook: Notebook) -> None:
    """The workers still know their names after the interrupt, and the Tab key completes them."""
    assert not notebook.run("define")
    names = ["learning_rate variable", "learning_steps variable"]
    assert notebook.completions("complete") == names
    notebook.tab.keyboard.press("Enter")
    cell = notebook.cell("complete").locator(".cm-content")
    b.soon(lambda: "learning_rate" in cell.inner_text(), "the completed name")
    lines = notebook.run("complete").splitlines()
    assert sorted(lines) == ["[0] 0", "[1] 1"]
