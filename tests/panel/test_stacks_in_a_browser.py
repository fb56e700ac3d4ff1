"""The Stacks button in JupyterLab, by keyboard: a line for each worker, and a stack that opens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.panel.test_accessibility import check
from tests.panel.test_browser import press_key, status, wait_for
from tests.support import browser as b

pytestmark = b.MARKS
PANEL = """
from helpers.course.panel import Panel
panel = Panel(fault_injection=True, collective="RING", epochs=20)
panel
"""
SECONDS = 240  # a machine may be slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("stacks")
    b.write_notebook(folder / "stacks.ipynb", PANEL)
    with b.jupyterlab(folder) as address:
        yield address


def test_the_stacks_button_shows_where_each_worker_is(browser: Any, lab: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        b.open_and_run(tab, lab, "stacks.ipynb")
        tab.locator(".mwl-run:enabled").wait_for()
        assert tab.locator(".mwl-stacks-button").is_disabled()
        tab.locator(".mwl-run").click()
        tab.locator('.mwl-row [data-status="training"]').first.wait_for()
        lines = collect_by_keyboard(tab)
        assert [line.startswith(f"worker {k} ") for k, line in enumerate(lines)] == [True, True]
        open_by_keyboard(tab)
        check(tab, ".mwl-panel")
        b.save_shot(tab, "stacks-open")
        assert tab.locator(".mwl-stacks pre").first.is_visible(), "folded by a repaint"
        freeze(tab)
        report = tab.locator(".mwl-stacks > summary", has_text="Stacks before restart 1")
        b.soon(lambda: report.count() == 1, "the stacks of the frozen group", SECONDS)
        report.click()
        assert "worker 1 is frozen" in tab.locator(".mwl-stacks").last.inner_text()
        check(tab, ".mwl-panel")
        b.save_shot(tab, "stacks-of-a-frozen-worker")
        tab.locator(".mwl-stop").click()
        b.soon(lambda: status(tab) == "stopped", "stopped")
        wait_for(tab, "stopped")
        assert tab.locator(".mwl-stacks-button").is_disabled()
    assert not problems


def collect_by_keyboard(tab: Any) -> list[str]:
    """Presses the button with the keyboard, and returns the lines."""
    tab.locator(".mwl-panel select").first.focus()
    press_key(tab, "Stacks", "Enter")
    lines = tab.locator(".mwl-stacks summary")
    b.soon(lambda: lines.count() == 2, "a line for each worker")
    assert not any(stack.is_visible() for stack in tab.locator(".mwl-stacks pre").all())
    texts: list[str] = lines.all_inner_texts()
    return texts


def open_by_keyboard(tab: Any) -> None:
    """Opens the first stack, folds it and opens it again, with the keyboard."""
    press_key(tab, "worker 0", "Enter")
    stack = tab.locator(".mwl-stacks pre").first
    b.soon(lambda: 'File "' in stack.inner_text(), "an open stack")
    tab.keyboard.press("Space")
    b.soon(lambda: not stack.is_visible(), "a folded stack")
    tab.keyboard.press("Space")
    b.soon(stack.is_visible, "an open stack")


def freeze(tab: Any) -> None:
    """Freezes worker 1 until its heartbeats are missed."""
    fields = tab.locator(".mwl-fault-form select")
    fields.nth(1).select_option(label="worker 1")
    fields.nth(2).select_option(label="freeze")
    tab.locator(".mwl-fault-form button").click()
