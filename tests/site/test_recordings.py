"""Recorded faults on the website, operated in a real Chromium as a reader does."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest

from helpers.i18n import use_language
from tests.site.test_in_a_browser import LANGUAGES, NARROW, TOO_WIDE, WIDE, Look, looking
from tests.support import browser as b

pytest.importorskip("sphinx")
from tests.support.axe import faults
from tools.site.recordings import run_file
from tools.site.recordings.frames import frames
from tools.site.recordings.run_file import Recording

pytestmark = [pytest.mark.site, *b.MARKS[1:]]

WAYS = list(product(LANGUAGES, (NARROW, WIDE), ("light", "dark")))
RECORDINGS = run_file.read_all()
CHOICES = ("scenario", "workers", "timeouts")


class Text(HTMLParser):
    """The text of an HTML fragment."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(html)

    def handle_data(self, data: str) -> None:
        """Called by HTMLParser."""
        self.text += data


def words(text: str) -> str:
    return "".join(text.split())


def open_lab(look: Look, address: str, language: str) -> list[dict[str, str]]:
    """Opens the page, and returns the runs that it offers."""
    look.tab.goto(f"{address}/{language}/fault_lab.html")
    look.tab.locator(".mwl-lab.mwl-scripted").wait_for()
    found: list[dict[str, str]] = json.loads(look.tab.locator(".mwl-lab script").inner_text())
    return found


def choose(tab: Any, run: dict[str, str]) -> None:
    for name in CHOICES:
        tab.locator(f"select[name={name}]").select_option(run[name])


def predict(tab: Any, seconds: str) -> None:
    """Predicts by keyboard: the second outcome, and a number of seconds."""
    tab.locator("input[name=outcome]").nth(1).focus()
    tab.keyboard.press("Space")
    tab.keyboard.press("Tab")
    tab.keyboard.type(seconds)
    tab.keyboard.press("Enter")
    tab.locator(".mwl-lab.mwl-predicted").wait_for()


def test_there_are_recordings_for_all_ways() -> None:
    assert len(RECORDINGS) == 32 >= len(WAYS)  # so that the next test looks at each way


@pytest.mark.parametrize(
    ("recording", "language", "width", "scheme"),
    [(recording, *way) for recording, way in zip(RECORDINGS, cycle(WAYS), strict=False)],
    ids=[recording.setting.name for recording in RECORDINGS],
)
def test_a_recording_is_predicted_and_played(
    recording: Recording, language: str, width: int, *, scheme: str, address: str, browser: Any
) -> None:
    with looking(browser, color_scheme=scheme) as look:
        tab = look.tab
        tab.set_viewport_size({"width": width, "height": 900})
        runs = open_lab(look, address, language)
        (run,) = (one for one in runs if one["name"] == recording.setting.name)
        choose(tab, run)
        assert tab.locator(".mwl-question").inner_text() == run["question"]
        assert not tab.locator(".mwl-stage").is_visible()
        predict(tab, "3.5")
        play = tab.locator(".mwl-play")
        assert tab.evaluate("document.activeElement.className").startswith("mwl-play")
        b.soon(lambda: float(tab.locator(".mwl-seek").input_value()) > 0.5, "it plays")
        play.press("Enter")
        assert play.inner_text() == play.get_attribute("data-play")
        assert not tab.locator(".mwl-outcome").is_visible()
        tab.locator(".mwl-seek").press("End")
        assert tab.locator("[data-recorded=standstill]").inner_text() == run["standstill"]
        assert tab.locator("[data-recorded=outcome]").inner_text() == run["outcome"]
        predicted = tab.locator("[data-predicted=standstill]").inner_text()
        assert predicted == ("3,5" if language in ("ru", "es") else "3.5")
        with use_language(language):
            *_others, last = frames(recording)
        for part in ("summary", "tasks", "loss", "log", "report"):
            shown = tab.locator(f"[data-part={part}]").evaluate("one => one.textContent")
            assert words(shown) == words(Text(last.parts[part]).text), part
        assert [*look.problems, *faults(tab, ".mwl-lab")] == []
        tab.set_viewport_size({"width": NARROW, "height": 900})
        assert not tab.evaluate(TOO_WIDE)
        assert tab.context.cookies() == []


@pytest.mark.smoke
def test_seeking_shows_each_moment_and_another_choice_hides_the_answer(
    address: str, browser: Any
) -> None:
    with looking(browser) as look:
        tab = look.tab
        runs = open_lab(look, address, "en")
        (run,) = (one for one in runs if one["name"] == "pause-2-2")
        choose(tab, run)
        predict(tab, "2")
        tab.locator(".mwl-play").press("Enter")
        (recording,) = (one for one in RECORDINGS if one.setting.name == run["name"])
        for frame in list(frames(recording))[::11]:
            fill = "(one, value) => { one.value = value; one.dispatchEvent(new Event('input')) }"
            tab.locator(".mwl-seek").evaluate(fill, frame.seconds)
            for part in ("phase", "tasks", "cluster", "timeline"):
                shown = tab.locator(f"[data-part={part}]").evaluate("one => one.textContent")
                assert words(shown) == words(Text(frame.parts[part]).text), frame.seconds
        tab.locator("select[name=workers]").select_option("3")
        assert not tab.locator(".mwl-stage").is_visible()
        assert not tab.locator(".mwl-outcome").is_visible()
        assert tab.locator("input[name=standstill]").input_value() == ""
        assert tab.locator("input[name=outcome]:checked").count() == 0
        assert faults(tab, ".mwl-lab") == []


def test_the_speed_and_the_last_line_of_the_log_reach_the_reader(
    address: str, browser: Any
) -> None:
    with looking(browser) as look:
        tab = look.tab
        choose(tab, next(run for run in open_lab(look, address, "en") if run["name"] == "kill-2-2"))
        predict(tab, "2")
        tab.locator(".mwl-speed").select_option("4")
        b.soon(lambda: "killed" in tab.locator(".mwl-live").inner_text(), "the fault is announced")
        assert "·" in tab.locator(".mwl-live").inner_text()
        tab.locator(".mwl-ended").wait_for()
        assert tab.locator(".mwl-outcome").is_visible()
        assert tab.locator(".mwl-seek").get_attribute("aria-valuetext")
        assert look.problems == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_page_plays_a_recording_and_leads_on(
    language: str, address: str, browser: Any
) -> None:
    with looking(browser) as look:
        tab = look.tab
        tab.goto(f"{address}/{language}/index.html")
        play = tab.locator(".mwl-play")
        b.soon(lambda: float(tab.locator(".mwl-seek").input_value()) > 0.2, "it plays by itself")
        assert play.inner_text() == play.get_attribute("data-pause")
        play.click()
        before = tab.locator(".mwl-seek").input_value()
        tab.wait_for_timeout(300)
        assert tab.locator(".mwl-seek").input_value() == before
        assert tab.locator("section#three-paths li").count() == 3
        problems = look.problems.copy()  # before axe, which requests style sheets in vain
        assert [*problems, *faults(tab, ".mwl-first"), *faults(tab, ".mwl-buttons")] == []
        links = tab.locator(".mwl-buttons a")
        links.nth(1).click()
        assert tab.url.endswith("#two-commands")
        links.nth(0).click()
        tab.wait_for_url(f"{address}/{language}/fault_lab.html")


def test_nothing_moves_for_readers_who_prefer_that(address: str, browser: Any) -> None:
    with looking(browser, reduced_motion="reduce") as look:
        tab = look.tab
        tab.goto(f"{address}/en/index.html")
        tab.locator(".mwl-scripted").wait_for()
        b.soon(lambda: tab.locator(".mwl-time").inner_text() != "", "the recording is loaded")
        tab.wait_for_timeout(500)
        play = tab.locator(".mwl-play")
        assert play.inner_text() == play.get_attribute("data-play")
        assert "training" in tab.locator("[data-part=cluster]").inner_text()
        play.click()
        b.soon(lambda: "frozen" in tab.locator("[data-part=cluster]").inner_text(), "it plays")


def test_without_javascript_the_end_of_a_recording_is_on_the_page(
    address: str, browser: Any
) -> None:
    with looking(browser, java_script_enabled=False) as look:
        look.tab.goto(f"{address}/en/fault_lab.html")
        assert look.tab.get_by_text(re.compile(r"^TrainingResult\(.* 1 restart\)$")).is_visible()
        assert look.tab.get_by_text("needs JavaScript").is_visible()
        for control in ("form.mwl-choose", ".mwl-controls", ".mwl-outcome"):
            assert not look.tab.locator(control).first.is_visible()
        look.tab.goto(f"{address}/en/index.html")
        assert "worker 1" in look.tab.locator("[data-part=cluster]").inner_text()
        assert not look.tab.locator(".mwl-controls").is_visible()


def test_a_page_opened_from_a_disk_plays_too(site: Path, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{(site / 'en' / 'fault_lab.html').as_uri()}")
        look.tab.locator(".mwl-scripted").wait_for()
        predict(look.tab, "1")
        b.soon(lambda: float(look.tab.locator(".mwl-seek").input_value()) > 0.3, "it plays")
