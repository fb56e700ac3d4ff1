"""The experiments as a browser draws them: with texts of any length, and with the keyboard."""

from __future__ import annotations

import gettext
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from helpers import i18n
from helpers.course import simulations
from helpers.course.charts.svg import Drawing
from tests.experiments.test_experiments import corners
from tests.panel.test_pictures_in_a_browser import BOXES, overlap
from tests.support import browser as b

pytestmark = b.MARKS
DRAWN = sorted({*simulations.__all__} - {"ring_rounds"})  # measured with the figures
MAX_CORNERS = 12  # corners of each experiment, drawn at random
CELLS = "from helpers.course import simulations", "simulations.step_cost()"


class Longer(gettext.NullTranslations):
    """English with texts that are 40 % longer."""

    def gettext(self, message: str) -> str:
        return message + " " + "nomenklatur"[: max(1, round(0.4 * len(message)) - 1)]

    def ngettext(self, singular: str, plural: str, n: int) -> str:
        return self.gettext(singular if n == 1 else plural)


@pytest.mark.parametrize("longer", [False, True], ids=["english", "longer"])
@pytest.mark.parametrize("name", DRAWN)
def test_no_label_runs_into_another_or_out_of_the_drawing(
    browser: Any, name: str, longer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if longer:
        monkeypatch.setattr(i18n, "_translations", Longer())
    made = getattr(simulations, name)()
    chosen = random.Random(1).sample(every := list(corners(made)), min(MAX_CORNERS, len(every)))
    views = [made.view, *(made._simulation.draw(**values) for values in chosen)]
    made.close()
    with b.page(browser, []) as tab:
        for view in views:
            check(tab, view.drawing)


def check(tab: Any, drawing: Drawing) -> None:
    """Fails if texts overlap or leave the drawing, and names them."""
    tab.set_content(f'<div style="width:{drawing.width:g}px">{drawing.svg()}</div>')
    texts = tab.locator("svg text")
    words, boxes = texts.all_text_contents(), texts.evaluate_all(BOXES)
    [frame] = tab.locator("svg").evaluate_all(BOXES)
    shown = [(word, box) for word, box in zip(words, boxes, strict=True) if word]
    assert len(shown) > 10
    out = [word for word, box in shown if not inside(box, frame)]
    assert not out, drawing.label
    touching = [(one[0], two[0]) for one, two in combinations(shown, 2) if overlap(one[1], two[1])]
    assert not touching, drawing.label


def inside(box: list[float], frame: list[float]) -> bool:
    """Whether a box (left, right, top, bottom) exceeds the frame by at most a pixel."""
    left, right, top, bottom = (one - other for one, other in zip(box, frame, strict=True))
    return left >= -1 and right <= 1 and top >= -1 and bottom <= 1


def test_an_arrow_key_moves_the_picture(browser: Any, tmp_path: Path) -> None:
    b.write_notebook(tmp_path / "one.ipynb", *CELLS)
    problems: list[str] = []
    with b.jupyterlab(tmp_path) as lab, b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, "one.ipynb")
        sentence = tab.locator(".mwl-experiment-sentence")
        sentence.wait_for()
        before = sentence.inner_text()
        assert before.startswith("8 workers")
        # The handle, in ipywidgets 8 and in 7.
        tab.locator(".mwl-controls .noUi-handle, .mwl-controls .ui-slider-handle").first.focus()
        tab.keyboard.press("ArrowRight")
        b.soon(lambda: sentence.inner_text().startswith("16 workers"), "the next step")
    assert not problems
