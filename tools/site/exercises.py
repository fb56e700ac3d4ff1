"""Answers on the pages of exercises: a field for the code, and a button that checks it.

Only tasks that need neither a cluster nor TensorFlow have them. The browser's Python runs the same
`check` as the notebook. Without JavaScript, the field is hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from helpers.course.check import TASK_MODULES
from helpers.i18n import _, use_language
from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.site import strings
from tools.site.browser_check import TASKS

CLASS = "mwl-answer"
SETUP = ("install", "language")  # the first cells of an exercise, which load TensorFlow
CHECK = "-check"  # the end of the id of a cell that checks an answer
MIN_LINES = 8


def place(parsed: Json, lang: str) -> None:
    """Adds a field to the output of each answer's cell that a page can check."""
    for cell, before in answer_cells(parsed):
        with use_language(lang):
            found = html(task_of(cell), lang, before, notebook.source(cell))
        data = {"text/html": found}
        cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]


def answer_cells(parsed: Json) -> Iterator[tuple[Json, str]]:
    """The cells with the answers to `TASKS`, each with the code of the cells that it may use."""
    before: list[str] = []
    for cell in notebook.cells(parsed, "code"):
        task = task_of(cell)
        if task in TASKS:
            yield cell, "\n".join(before)
        elif task not in TASK_MODULES and cell["id"] not in SETUP and CHECK not in cell["id"]:
            before.append(notebook.source(cell))


def task_of(cell: Json) -> str:
    """The task whose answer a cell would contain."""
    return str(cell["id"]).replace("-", "_")


def html(task: str, lang: str, before: str, code: str) -> str:
    """The field with the code of the notebook, the button, and the place of the result."""
    data = {
        "task": task,
        "language": lang,
        "before": before,
        "loading": _(strings.PYTHON_LOADS),
        "failed": _(strings.PYTHON_FAILED),
        "slow": _(strings.ANSWER_IS_SLOW),
    }
    attributes = "".join(f' data-{key}="{escape(text)}"' for key, text in data.items())
    lines = max(MIN_LINES, code.count("\n") + 3)
    return (
        f'<div class="{CLASS}" data-pagefind-ignore{attributes} hidden>'
        f"<p>{escape(_(strings.TRY_HERE))}</p>"
        f"<label>{escape(_(strings.YOUR_ANSWER))}"
        f'<textarea rows="{lines}" spellcheck="false" autocapitalize="off" autocomplete="off">'
        f"{escape(code)}\n</textarea></label>"
        f'<button type="button">{escape(_(strings.CHECK_ANSWER))}</button>'
        '<pre class="mwl-answer-result" role="status"></pre></div>'
    )
