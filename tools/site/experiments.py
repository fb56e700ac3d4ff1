"""Experiments on the pages of lessons: inputs of the browser, and a picture that follows them.

A page contains the initial state, so that it shows something without JavaScript. The results for
the first moves are in a table, and the browser's Python computes all others.
"""

from __future__ import annotations

import json
import re
from html import escape
from itertools import product
from math import prod
from pathlib import Path

from helpers.course.simulations import SIMULATIONS, page
from helpers.course.simulations.controls import Control
from helpers.i18n import _, use_language
from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.site import browser_python, strings

CALL = re.compile(r"(\w+)\(\)\s*\Z")
CLASS = "mwl-experiment"
TABLES = "tables"
MAX_ROWS = 64  # of a table with all settings; a larger one has those that differ in one control
Positions = tuple[int, ...]


def place(cell: Json, lang: str, site: Path) -> None:
    """Replaces the stored output of a cell that shows an experiment, and writes its table."""
    found = CALL.search(notebook.source(cell))
    if found is None or found[1] not in SIMULATIONS:
        return
    name = found[1]
    with use_language(lang) as used:
        if used != lang:
            raise ValueError(
                f"The messages in {lang!r} are not compiled: python -m tools.l10n build"
            )
        data, rows = {"text/html": html(name, lang)}, table(name)
    cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    path = site / browser_python.FOLDER / TABLES / lang / f"{name}.json"
    browser_python.write_packed(path, rows.encode())


def table(name: str) -> str:
    """The results for the first moves, by the positions of the controls."""
    rows = {",".join(map(str, one)): page.result(name, one) for one in first_moves(name)}
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def first_moves(name: str) -> set[Positions]:
    """All positions of the controls if they are few, or else those after a move of one control."""
    counts = [len(one.values) for one in page.simulation(name).controls.values()]
    if prod(counts) <= MAX_ROWS:
        return set(product(*map(range, counts)))
    first = page.first_positions(name)
    return {
        (*first[:k], position, *first[k + 1 :])
        for k, count in enumerate(counts)
        for position in range(count)
    }


def html(name: str, lang: str) -> str:
    """An experiment in its initial state."""
    simulation = page.simulation(name)
    first = page.first_positions(name)
    found = page.result(name, first)
    settings = simulation.settings_text(simulation.initial)
    data = {"experiment": name, "language": lang}
    texts = {"loading": _(strings.PYTHON_LOADS), "failed": _(strings.PYTHON_FAILED)}
    attributes = "".join(f' data-{key}="{escape(text)}"' for key, text in {**data, **texts}.items())
    controls = "".join(
        _control(f"{name}-{key}", control, position, last)
        for (key, control), position, last in zip(
            simulation.controls.items(), first, found["last"], strict=True
        )
    )
    return (
        f'<div class="{CLASS}" role="group" aria-label="{escape(simulation.title)}"{attributes}>'
        f'<p class="mwl-experiment-title">{escape(simulation.title)}</p>'
        f'<p class="mwl-experiment-settings">{escape(settings)}</p>'
        f'<div class="mwl-controls" data-pagefind-ignore hidden>{controls}</div>'
        f'<div class="mwl-experiment-picture">{found["svg"]}</div>'
        f'<p class="mwl-experiment-sentence" aria-live="polite">{escape(found["sentence"])}</p>'
        '<p class="mwl-experiment-state" role="status"></p></div>'
    )


def _control(name: str, control: Control, position: int, last: int) -> str:
    if control.kind == "buttons":
        choices = "".join(
            f'<label><input type="radio" name="{name}"{" checked" if k == position else ""}>'
            f"<span>{escape(text)}</span></label>"
            for k, text in enumerate(control.texts)
        )
        return f"<fieldset><legend>{escape(control.name)}</legend>{choices}</fieldset>"
    text = escape(control.texts[position])
    texts = escape(json.dumps(control.texts, ensure_ascii=False))
    return (
        f'<label><span class="mwl-control-name">{escape(control.name)} <output>{text}</output>'
        f'</span><input type="range" min="0" max="{last}" value="{position}" '
        f'aria-label="{escape(control.name)}" aria-valuetext="{text}" autocomplete="off" '
        f'data-texts="{texts}"></label>'
    )
