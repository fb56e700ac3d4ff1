"""axe-core's findings for every widget, in JupyterLab, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import ipywidgets  # type: ignore[import-untyped]
import pytest

from helpers.course import simulations
from tests.support import browser as b
from tests.support.axe import faults

pytestmark = b.MARKS
THEMES = {"JupyterLab Light": "true", "JupyterLab Dark": "false"}
CHANGE = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})"
PANEL = """
from helpers.course.panel import Panel

def broken(mode):
    raise ValueError("no such column")

panel = Panel({functions}fault_injection={fault_injection}, epochs=20)
panel
"""
EXPERIMENTS = "from helpers.course import simulations\nsimulations.{name}()"
QUESTIONS = 'from helpers.course.quiz import quiz\nquiz("01_train_on_two_workers")'


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("accessible")
    cells = [EXPERIMENTS.format(name=name) for name in simulations.__all__]
    b.write_notebook(folder / "sliders.ipynb", *cells, QUESTIONS)
    works = PANEL.format(functions="", fault_injection=True)
    b.write_notebook(folder / "panel.ipynb", works)
    fails = PANEL.format(functions="input_fn=broken, ", fault_injection=False)
    b.write_notebook(folder / "fails.ipynb", fails)
    with b.jupyterlab(folder) as address:
        yield address


def check(tab: Any, within: str) -> None:
    """Fails with the faults in the elements `within`, in the light or the dark theme."""
    found = []
    for theme, light in THEMES.items():
        tab.evaluate(CHANGE, theme)
        tab.locator(f'body[data-jp-theme-light="{light}"]').wait_for(state="attached")
        # JupyterLab removes its splash screen 200 ms after each theme change. If another change
        # happens before that, it removes it twice.
        tab.locator("#jupyterlab-splash").wait_for(state="detached")
        found += [f"{theme}: {fault}" for fault in faults(tab, within)]
    assert not found, "\n".join(found)


def test_experiments_and_questions_have_no_serious_fault(browser: Any, lab: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, "sliders.ipynb")
        tab.locator(".mwl-ask").wait_for()
        shown = tab.locator(".mwl-experiment")
        b.soon(lambda: shown.count() == len(simulations.__all__), "every experiment")
        check(tab, ".mwl-experiment")
        for question in range(2):  # right and wrong answers, with their explanations
            for choice in tab.locator(".mwl-question").nth(question).locator("button").all():
                choice.click(force=True)
        b.soon(lambda: tab.locator(".mwl-is-wrong").count() > 1, "wrong answers")
        check(tab, ".mwl-ask")
    assert not problems


@pytest.mark.skipif(ipywidgets.__version__ < "8", reason="the sliders of ipywidgets 7 have no role")
def test_a_slider_has_the_name_and_the_value_that_stand_beside_it(browser: Any, lab: str) -> None:
    with b.page(browser, []) as tab:
        b.open_and_run(tab, lab, "sliders.ipynb")
        tab.get_by_role("slider", name=re.compile(r"Learning rate.*: \d")).first.wait_for()


def test_a_panel_has_no_serious_fault_idle_running_and_stopped(browser: Any, lab: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, "panel.ipynb")
        tab.locator(".mwl-run:enabled").wait_for()
        for button in tab.locator(".mwl-task button").filter(has_text="Details").all():
            button.click()
        tab.locator("button").filter(has_text="The same in Python").click()
        tab.locator(".mwl-code").first.wait_for()
        check(tab, ".mwl-panel")
        tab.locator(".mwl-run").click()
        tab.locator('.mwl-row [data-status="training"]').first.wait_for()
        tab.locator(".mwl-kill").nth(1).click()
        tab.locator(".mwl-warn").wait_for()
        check(tab, ".mwl-panel")
        tab.locator(".mwl-stop").click()
        tab.locator('.mwl-status [data-status="stopped"]').wait_for()
        check(tab, ".mwl-panel")
    assert not problems


def test_a_panel_that_failed_has_no_serious_fault(browser: Any, lab: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, "fails.ipynb")
        tab.locator(".mwl-run:enabled").wait_for()
        tab.locator(".mwl-run").click()
        tab.locator('.mwl-error[role="alert"]').wait_for()
        check(tab, ".mwl-panel")
    assert not problems
