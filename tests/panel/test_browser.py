"""The panel as a reader sees it: JupyterLab and Voila in Chromium, with real workers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from helpers import i18n
from tests.support import ROOT
from tests.support import browser as b

pytestmark = b.MARKS
LESSONS = [
    path
    for path in sorted(ROOT.glob("notebooks/*/01_train_on_two_workers.ipynb"))
    if "helpers.course.panel" in path.read_text(encoding="utf-8")
]
LANGUAGES = sorted({path.parent.name for path in LESSONS} | set(i18n.languages()))
PANEL = """
from helpers.i18n import set_language
from helpers.course.panel.view import Panel
set_language({language!r})
panel = Panel()
panel
"""

ACCURACY = re.compile(r"9\d[.,]\d\s?%")
DIRTY = "jupyterapp.shell.currentWidget.context.model.dirty"
RUN = {"en": "Run", "ru": "Запуск", "zh": "运行", "ko": "실행", "es": "Ejecutar"}
WAYS = {
    "run": "panel.run(epochs=20)",
    "launch": "panel.launch(epochs=20)",
    "await": "await panel.train(epochs=20)",
    "click": "",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook for each language: the lesson if it has the panel, otherwise a small notebook.

    The English lesson is complete. The others have the same code, which `test_lessons` runs, so the
    cells that train before the panel are removed. This saves four minutes in total.
    """
    root = tmp_path_factory.mktemp("notebooks")
    for language in LANGUAGES:
        b.write_notebook(root / f"{language}.ipynb", PANEL.format(language=language))
    for path in LESSONS:
        copy = root / f"{path.parent.name}.ipynb"
        shutil.copy(path, copy) if copy.stem == "en" else b.shorten(path, copy)
    for name, cell in WAYS.items():
        b.write_notebook(root / f"{name}.ipynb", PANEL.format(language="en"), cell)
    return root


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[str]:
    with b.jupyterlab(folder) as address:
        yield address


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reader_trains_kills_and_stops(browser: Any, lab: str, language: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, f"{language}.ipynb")
        use_the_panel(tab, f"lab-{language}", to_the_end=language == "en")
        assert tab.locator(".mwl-run").inner_text().strip() == RUN[language]
    assert not problems


@pytest.mark.smoke
def test_voila_serves_the_panel_alone_also_in_the_dark(browser: Any, tmp_path: Path) -> None:
    problems: list[str] = []
    app = ROOT / "notebooks" / "panel.ipynb"
    with b.voila(app, tmp_path) as address, b.page(browser, problems, dark=True) as tab:
        tab.goto(f"{address}/?theme=dark")
        use_the_panel(tab, "voila")
    assert not problems


def test_a_page_opened_again_shows_the_run_that_went_on(browser: Any, lab: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, "click.ipynb")
        tab.locator(".mwl-run").click()
        b.soon(lambda: max(steps(tab)) > 0, "a step")
        tab.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        b.soon(lambda: not tab.evaluate(DIRTY), "a saved notebook")
        seen = steps(tab)
    with b.page(browser, problems) as tab:
        b.open_notebook(tab, lab, "click.ipynb")
        b.soon(lambda: all(now > then for now, then in zip(steps(tab), seen, strict=False)), "more")
        wait_for(tab, "done")
        assert ACCURACY.search(tab.locator(".mwl-summary").inner_text())
    assert not problems


def test_the_keyboard_alone_is_enough(browser: Any, lab: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, "click.ipynb")
        tab.locator(".mwl-panel select").first.focus()
        press_key(tab, "RING", "Space")
        press_key(tab, "Run", "Enter")
        b.soon(lambda: tab.locator(".mwl-kill:enabled").count() == 2, "two Kill buttons")
        press_key(tab, "Stop", "Space")
        b.soon(lambda: status(tab) == "stopped", "stopped")
        press_key(tab, "Details", "Enter")
        press_key(tab, "Python", "Enter")
        b.soon(lambda: '"RING"' in "".join(tab.locator(".mwl-code").all_inner_texts()), "the code")
        assert all(tab.locator(".mwl-scroll pre").all_inner_texts())  # TF_CONFIG and log
    assert not problems


def test_notebook_7_runs_the_panel_too(browser: Any, folder: Path) -> None:
    problems: list[str] = []
    b.write_notebook(folder / "notebook7.ipynb", PANEL.format(language="en"))
    with b.notebook7(folder) as server, b.page(browser, problems) as tab:
        b.open_and_run(tab, server, "notebook7.ipynb")
        b.soon(lambda: tab.locator(".mwl-run").is_enabled(), "an enabled Run button")
        tab.locator(".mwl-run").click()
        b.soon(lambda: min(steps(tab)) > 0 and curves(tab) >= 4, "bars and curves that move")
        wait_for(tab, "done")
        assert ACCURACY.search(tab.locator(".mwl-summary").inner_text())
        b.save_shot(tab, "notebook7-done")
    assert not problems


@pytest.mark.parametrize("name", ["run", "launch"])
def test_the_interrupt_button_stops_the_workers(browser: Any, lab: str, name: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, f"{name}.ipynb")
        panel = tab.locator(".mwl-panel").last
        b.soon(lambda: max(steps(panel)) > 0, "a step")
        assert panel.locator(".mwl-stop").is_disabled() == (name == "run")
        tab.evaluate("void jupyterapp.commands.execute('notebook:interrupt-kernel')")
        b.soon(lambda: status(panel) == "stopped", "stopped")
    assert not problems


@pytest.mark.skipif(
    int(metadata.version("ipykernel").split(".")[0]) < 7,
    reason="ipykernel 6 hears no button while a cell runs",
)
def test_stop_works_while_a_cell_awaits_the_run(browser: Any, lab: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, "await.ipynb")
        panel = tab.locator(".mwl-panel").last
        b.soon(lambda: max(steps(panel)) > 0, "a step")
        panel.locator(".mwl-stop").click()
        b.soon(lambda: status(panel) == "stopped", "stopped")
    assert not problems


def use_the_panel(tab: Any, name: str, *, to_the_end: bool = True) -> None:
    """Chooses, runs, kills a worker, waits for its return and the end. Then stops a second run."""
    wait_for_the_turn_of_the_reader(tab)
    done = status(tab) == "done"
    assert not done or ACCURACY.search(tab.locator(".mwl-summary").inner_text())
    tab.locator(".mwl-panel").evaluate("panel => panel.scrollIntoView()")
    press(tab, "2")
    press(tab, "RING")
    b.save_shot(tab, f"{name}-idle")
    tab.locator(".mwl-run").click()
    wait_for(tab, "starting")
    b.soon(lambda: len(steps(tab)) == 2 and min(steps(tab)) > 0, "two bars that move")
    b.soon(lambda: curves(tab) >= 4, "two curves in each chart")
    before = steps(tab)
    b.soon(lambda: min(steps(tab)) > max(before), "the bars move on")
    b.save_shot(tab, f"{name}-training")
    tab.locator(".mwl-kill").nth(1).click()
    tab.locator('.mwl-row [data-status="lost"]').wait_for()
    tab.locator(".mwl-warn").wait_for()
    b.save_shot(tab, f"{name}-killed")
    wait_for(tab, "training")
    if to_the_end:
        wait_for(tab, "done")
        assert ACCURACY.search(tab.locator(".mwl-summary").inner_text())
        b.save_shot(tab, f"{name}-done")
        tab.locator(".mwl-run").click()
        wait_for(tab, "starting")
    tab.locator(".mwl-stop").click()
    b.soon(lambda: status(tab) == "stopped", "stopped")


def wait_for_the_turn_of_the_reader(tab: Any) -> None:
    """Waits until a lesson has trained before and in its panel. An error is shown immediately."""
    errors = tab.locator(".jp-RenderedText").filter(has_text="Traceback (most recent call last)")
    ready = tab.locator(".mwl-run:enabled")
    b.soon(lambda: ready.count() + errors.count() > 0, "an enabled Run button", 480)
    assert not errors.all_inner_texts()
    assert status(tab) in ("idle", "done"), tab.locator(".mwl-message").inner_text()


def press_key(tab: Any, button: str, key: str) -> None:
    """Moves with the Tab key to the next button with this text, and presses a key there."""
    for _press in range(25):
        tab.keyboard.press("Tab")
        if button in tab.evaluate("document.activeElement.textContent"):
            return tab.keyboard.press(key)
    raise AssertionError(f"the Tab key does not come to {button}")


def press(tab: Any, option: str) -> None:
    """Presses one of the buttons of a choice, unless it is already selected."""
    button = tab.locator(".mwl-options button").filter(has_text=re.compile(rf"^\s*{option}\s*$"))
    if "mod-active" not in (button.get_attribute("class") or ""):
        button.click()
    b.soon(lambda: "mod-active" in (button.get_attribute("class") or ""), f"{option} chosen")


def status(place: Any) -> str:
    return place.locator(".mwl-status .mwl-chip").get_attribute("data-status")


def wait_for(tab: Any, wanted: str) -> None:
    tab.locator(f'.mwl-status [data-status="{wanted}"]').wait_for()


def steps(place: Any) -> list[int]:
    bars = place.locator(".mwl-bar").evaluate_all("all => all.map(bar => bar.ariaValueNow)")
    return [int(value) for value in bars] or [0]


def curves(tab: Any) -> int:
    """How many curves have at least two points."""
    points = tab.locator(".mwl-curve").evaluate_all("all => all.map(line => line.points.length)")
    return sum(count > 1 for count in points)
