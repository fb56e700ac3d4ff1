"""Each fault of the fault-injection lab, in JupyterLab: seen, detected, survived, reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from helpers.system.virtual_hosts import virtual_hosts_supported
from tests.support import browser as b

pytestmark = b.MARKS
LABORATORY = """
from helpers.course.panel import Panel
panel = Panel(fault_injection=True, collective="RING", epochs=3)
panel
"""
SECONDS = 240  # a machine may be slow
SURVIVED = {  # the fault of worker 1, and the lines of the report
    "kill": ["killed", "detected", "next step"],
    "freeze": ["frozen", "detected", "next step"],
    "freeze for 2 s": ["frozen", "thawed", "next step"],
    "disconnect": ["disconnected", "detected", "next step"],
    "disconnect for 2 s": ["disconnected", "reconnected", "next step"],
}
MORE = {"kill", "freeze for 2 s", "disconnect for 2 s"}  # a minute each on a slow machine


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("laboratory")
    b.write_notebook(folder / "laboratory.ipynb", LABORATORY)
    with b.jupyterlab(folder) as address:
        yield address


@pytest.fixture
def tab(browser: Any, lab: str) -> Iterator[Any]:
    """A page with a fault-injection lab whose workers train."""
    problems: list[str] = []
    with b.page(browser, problems) as opened:
        b.open_and_run(opened, lab, "laboratory.ipynb")
        b.soon(lambda: opened.locator(".mwl-run").is_enabled(), "an enabled Run button")
        yield opened
    assert not problems


def run(tab: Any) -> None:
    """Presses Run, and waits until steps run."""
    tab.locator(".mwl-run").click()
    b.soon(lambda: "loss" in tab.locator(".mwl-summary").inner_text(), "a loss", SECONDS)
    b.soon(lambda: tab.locator(".mwl-fault-form button").is_enabled(), "an enabled button")


def do(tab: Any, deed: str, task: str = "worker 1") -> None:
    """Chooses a process and a fault, and presses the button."""
    fields = tab.locator(".mwl-fault-form select")
    fields.nth(1).select_option(label=task)
    fields.nth(2).select_option(label=deed)
    tab.locator(".mwl-fault-form button").click()


def told(tab: Any) -> list[str]:
    """The lines of the report."""
    lines: list[str] = tab.locator(".mwl-story li").all_inner_texts()
    return lines


def wait_for_story(tab: Any, *words: str) -> None:
    """Waits until the last lines of the report have these words, in this order."""

    def is_told() -> bool:
        found = told(tab)[-len(words) :]
        return len(found) == len(words) and all(map(str.__contains__, found, words))

    b.soon(is_told, f"{words}, but {told(tab)}", SECONDS)


def wait_for_status(tab: Any, status: str) -> None:
    shown = tab.locator(f'.mwl-title [data-status="{status}"]')
    b.soon(lambda: shown.count() == 1, status, SECONDS)


@pytest.mark.parametrize(
    "deed",
    [pytest.param(deed, marks=[pytest.mark.slow] * (deed in MORE)) for deed in SURVIVED],
)
def test_a_deed_is_noticed_survived_and_told(tab: Any, deed: str) -> None:
    if "cable" in deed and not virtual_hosts_supported():
        pytest.skip("this machine permits no network for each process")
    run(tab)
    do(tab, deed)
    wait_for_story(tab, *SURVIVED[deed])
    assert tab.locator(".mwl-story svg circle").count() == len(told(tab))
    b.save_shot(tab, f"laboratory-{deed.replace(' ', '-')}")
    wait_for_status(tab, "done")


def test_the_kill_button_of_a_row_is_reported_as_an_injected_fault(tab: Any) -> None:
    run(tab)
    tab.locator(".mwl-kill").nth(1).click()
    wait_for_story(tab, *SURVIVED["kill"])
    assert "worker 1" in told(tab)[0]
    wait_for_status(tab, "done")


def test_a_straggler_slows_all_and_is_not_taken_for_dead(tab: Any) -> None:
    run(tab)
    do(tab, "slow down to 1/4")
    wait_for_story(tab, "slowed down to 1/4")
    do(tab, "full speed again")
    wait_for_story(tab, "slowed down to 1/4", "full speed")
    wait_for_status(tab, "done")
    assert not [line for line in told(tab) if "detected" in line]


def test_a_full_disk_of_the_chief_ends_the_run_with_the_reason(tab: Any) -> None:
    run(tab)
    do(tab, "fill its disk", "worker 0")
    wait_for_status(tab, "failed")
    assert "Free some space" in tab.locator(".mwl-error").inner_text()
    assert "disk is full" in told(tab)[0]


def test_a_killed_worker_that_comes_late_keeps_the_others_waiting(tab: Any) -> None:
    run(tab)
    do(tab, "delay its next start by 5 s")
    do(tab, "kill")
    wait_for_story(tab, "delayed by 5 s", "killed", "detected", "next step")
    wait_for_status(tab, "done")


def test_a_scenario_asks_before_and_plays_by_itself(tab: Any) -> None:
    tab.locator(".mwl-fault-form select").first.select_option(label="a short freeze")
    b.soon(lambda: "What will happen?" in tab.locator(".mwl-asked").inner_text(), "the question")
    run(tab)
    wait_for_story(tab, "frozen", "thawed", "next step")
    wait_for_status(tab, "done")
