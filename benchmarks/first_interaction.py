"""The seconds until a page of the site answers its reader, on a slow line and processor.

    make site
    .venv-site/bin/python -m benchmarks.first_interaction

A local server sends 1.6 Mbit/s and delays each answer by 150 ms. Chromium makes the page's thread
four times slower, but not that of Python. Each interaction happens in a browser without a cache.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from benchmarks import RESULTS, ROOT
from benchmarks.report import page, publish
from tools.site import serve
from tools.site.__main__ import OUTPUT

BYTES_PER_SECOND = 200_000
LATENCY = 0.15
SLOWER = 4  # the processor
CHUNK = 4096
ROUNDS = 5
TIMEOUT = 120_000  # ms
SIZE = {"width": 400, "height": 900}
PYTHON_ANSWERS = """() => {
    const text = document.querySelector('.mwl-answer pre').textContent;
    return text.includes('✗') || text.includes('✓');
}"""


class SlowHandler(serve.CompressingHandler):
    """A handler whose answers share one slow line."""

    line = Lock()

    def send_head(self) -> Any:
        """Called for each request."""
        time.sleep(LATENCY)
        return super().send_head()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Called to send an answer."""
        with suppress(ConnectionError):  # the browser has left the page
            while chunk := source.read(CHUNK):
                with self.line:
                    time.sleep(len(chunk) / BYTES_PER_SECOND)
                outputfile.write(chunk)


@dataclass(frozen=True)
class Interaction:
    """What a reader does on a page.

    Attributes:
      name: what is measured, from when.
      path: the page.
      act: does it, and returns when the page has answered.
      loaded: whether the clock starts after the page has been loaded, with the act.
    """

    name: str
    path: str
    act: Callable[[Any], None]
    loaded: bool = False


def answer_a_question(tab: Any) -> None:
    """Chooses the first choice, by a key: a click of Playwright waits for two equal frames."""
    tab.locator(".mwl-quiz button.mwl-choice").first.focus()
    tab.keyboard.press("Enter")
    tab.locator(".mwl-why b").first.wait_for()


def predict_a_recording(tab: Any) -> None:
    """Chooses an outcome and a number of seconds, and starts the recording."""
    tab.locator(".mwl-lab.mwl-scripted").wait_for()
    tab.locator("input[name=outcome]").nth(1).check()
    tab.keyboard.press("Tab")
    tab.keyboard.type("5")
    tab.keyboard.press("Enter")
    tab.locator(".mwl-lab.mwl-predicted").wait_for()


def move(tab: Any, number: int) -> None:
    """Moves a slider of the memory planner, and waits for the text about the new state."""
    root = tab.locator(".mwl-experiment[data-experiment=memory_planner]")
    sentence = root.locator(".mwl-experiment-sentence")
    before = sentence.inner_text()
    root.locator("input[type=range]").nth(number).focus()
    tab.keyboard.press("ArrowRight")
    changed = "([one, before]) => one.textContent !== before"
    tab.wait_for_function(changed, arg=[sentence.element_handle(), before])


def move_twice(tab: Any) -> None:
    """The first move is in a table, and the second one needs Python."""
    move(tab, 0)
    move(tab, 1)


def check_an_answer(tab: Any) -> None:
    """Checks the empty answer of the first field."""
    tab.locator(".mwl-answer textarea").first.focus()
    tab.locator(".mwl-answer button").first.click()
    tab.wait_for_function(PYTHON_ANSWERS)


LESSON, EXERCISE = "en/13_beyond_data_parallelism.html", "en/exercises/13_beyond_data_parallelism"
INTERACTIONS = (
    Interaction("question answered", "en/01_train_on_two_workers.html", answer_a_question),
    Interaction("recording started", "en/fault_lab.html", predict_a_recording),
    Interaction("experiment moved", LESSON, lambda tab: move(tab, 0)),
    Interaction("experiment moved by Python, after the first touch", LESSON, move_twice, True),
    Interaction("answer checked, after the first touch", f"{EXERCISE}.html", check_an_answer, True),
)


def measure(browser: Any, address: str, one: Interaction) -> float:
    """The seconds of an interaction, in a new context of the browser."""
    context = browser.new_context(viewport=SIZE)
    tab = context.new_page()
    tab.set_default_timeout(TIMEOUT)
    context.new_cdp_session(tab).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    start = time.monotonic()
    tab.goto(f"{address}/{one.path}", wait_until="load" if one.loaded else "commit")
    if one.loaded:
        tab.wait_for_load_state("networkidle")
        start = time.monotonic()
    one.act(tab)
    seconds = time.monotonic() - start
    context.close()
    return seconds


def report_text(found: dict[str, list[float]]) -> str:
    """Formats the results as Markdown."""
    rows = [
        f"| {name} | {statistics.median(times):.1f} | {min(times):.1f} to {max(times):.1f} |"
        for name, times in found.items()
    ]
    return page("First interactions with the site", ["interaction", "median, s", "range, s"], rows)


def main() -> None:
    """Measures, prints, and writes results/first_interaction.md."""
    from tests.support.browser import running_chromium

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--site", type=Path, default=ROOT / OUTPUT)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    found: dict[str, list[float]] = {one.name: [] for one in INTERACTIONS}
    with serve.serving(args.site, SlowHandler) as address, running_chromium() as browser:
        for _round in range(args.rounds):
            for one in INTERACTIONS:
                found[one.name].append(measure(browser, address, one))
    publish(report_text(found), args.output, "first_interaction.md")


if __name__ == "__main__":
    main()
