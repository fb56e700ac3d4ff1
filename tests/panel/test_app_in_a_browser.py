"""The panel's page, served by Voila to two readers in two languages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

from tests.panel.test_browser import RUN, status, wait_for
from tests.support import ROOT
from tests.support import browser as b
from tests.support.axe import faults

pytestmark = b.MARKS
CULL = {"cull_interval": 2, "cull_idle_timeout": 4}  # seconds; make app has larger values
FAREWELL = "status of 403 (Forbidden)"  # from Voila, for the kernel of a closed page


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = [f"--MappingKernelManager.{name}={seconds}" for name, seconds in CULL.items()]
    app = ROOT / "notebooks" / "panel.ipynb"
    with b.voila(app, tmp_path_factory.mktemp("app"), *options) as found:
        yield found


def run_button(tab: Any) -> str:
    tab.locator(".mwl-run:enabled").wait_for()
    return tab.locator(".mwl-run").inner_text().strip()


def kernels(query: str) -> int:
    """How many kernels serve a page with this query in its address."""
    found = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            ours = process.environ().get("QUERY_STRING") == query
            found += ours and "ipykernel_launcher" in process.cmdline()
    return found


def test_two_readers_have_two_languages_at_once(browser: Any, address: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as one, b.page(browser, problems) as other:
        one.goto(f"{address}/?lang=ko&whose=first")
        other.goto(f"{address}/?lang=ru&theme=dark")
        assert (run_button(one), run_button(other)) == (RUN["ko"], RUN["ru"])
        other.locator(".mwl-run").click()
        b.soon(lambda: other.locator(".mwl-kill:enabled").count() == 2, "two workers")
        assert kernels("lang=ko&whose=first") == 1
        one.locator('.mwl-languages a[lang="es"]').click()
        one.wait_for_url("**/?lang=es&whose=first")
        assert run_button(one) == RUN["es"]
        assert one.locator(".mwl-languages [aria-current]").inner_text() == "español"
        assert other.locator(".mwl-run").inner_text().strip() == RUN["ru"]
        assert status(other) in ("starting", "training", "evaluating")
        b.save_shot(one, "app-es")
        b.save_shot(other, "app-ru-dark")
        other.locator(".mwl-stop").click()
        wait_for(other, "stopped")
        b.soon(lambda: kernels("lang=ko&whose=first") == 0, "the end of a kernel that was left")
        assert not [fault for tab in (one, other) for fault in faults(tab, ".mwl-languages")]
    assert not [problem for problem in problems if FAREWELL not in problem]


def test_an_unknown_language_is_english_and_a_sentence(browser: Any, address: str) -> None:
    problems: list[str] = []
    with b.page(browser, problems) as tab:
        tab.goto(f"{address}/?lang=tlh")
        assert run_button(tab) == RUN["en"]
        assert "'tlh'" in tab.locator(".mwl-unknown").inner_text()
        assert not faults(tab, ".mwl-unknown")
        b.save_shot(tab, "app-unknown")
    assert not problems


def test_make_app_ends_kernels_that_were_left() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(f"--MappingKernelManager.{name}=" in makefile for name in CULL)
