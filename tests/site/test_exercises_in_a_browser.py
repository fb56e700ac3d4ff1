"""Answers to exercises, written and checked on the pages of the site in a real Chromium."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.course.check import find_task
from helpers.i18n import set_language
from tests.exercises.wrong_answers import PARTLY, WRONG
from tests.site.test_exercises_units import MEASURED, TASKS, answers
from tests.site.test_in_a_browser import LANGUAGES, NARROW, WIDE, looking, too_wide
from tests.support import browser as b
from tests.support.axe import faults
from tools.site import browser_check, browser_python, reduced_program, strings
from tools.site.exercises import CLASS

pytestmark = [pytest.mark.site, *b.MARKS[1:]]

EXERCISES = {
    "01_train_on_two_workers": ["third_worker", "mended"],
    "02_choose_a_strategy": ["strategy_for"],
    "03_train_with_keras_fit": ["rate_and_steps"],
    "05_train_with_parameter_servers": ["staleness"],
    "06_evaluate_while_training": ["to_keep", "evaluated", "cheapest"],
    "08_survive_failures": ["save_every"],
    "09_parameter_servers_with_estimator": ["whole_cluster"],
    "10_make_it_faster": ["speed_up"],
    "13_beyond_data_parallelism": ["state_bytes", "micro_batches"],
}
MORE = "import unicodedata\nprint(unicodedata.normalize('NFD', 'é') == 'e\u0301')\n"
CHECK = """([task, before, code]) =>
    mwlPython.call('en', 'tools.site.browser_check', 'check_answer', task, before, code)"""
WAYS = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light")]


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    yield
    set_language("en")


def field(tab: Any, task: str) -> Any:
    return tab.locator(f".{CLASS}[data-task={task}]")


def run(root: Any, code: str | None = None) -> str:
    """Checks the code of a field, and returns the text of the result."""
    if code is not None:
        root.locator("textarea").fill(code)
    root.locator("button").click()
    root.locator("button:not([aria-disabled])").wait_for()
    return str(root.locator("pre").inner_text())


@pytest.mark.parametrize("exercise", EXERCISES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_are_checked_on_the_page(
    language: str, exercise: str, address: str, browser: Any
) -> None:
    """The empty cell, then the solution. Each page in one of the four ways."""
    set_language(language)
    number = list(EXERCISES).index(exercise) + LANGUAGES.index(language)
    width, scheme = WAYS[number % len(WAYS)]
    with looking(browser) as look:
        look.tab.set_viewport_size({"width": width, "height": 900})
        look.tab.emulate_media(color_scheme=scheme)
        look.tab.goto(f"{address}/{language}/exercises/{exercise}.html")
        shown = look.tab.locator(f".{CLASS}").all()
        assert [one.get_attribute("data-task") for one in shown] == EXERCISES[exercise]
        for task in EXERCISES[exercise]:
            root, (before, code) = field(look.tab, task), answers("solutions")[task]
            assert root.locator("label").inner_text()
            empty = run(root)
            assert empty.strip() == browser_check.check_answer(task, *_cell(task))["text"].strip()
            solved = run(root, code)
            assert "✗" not in solved and solved.count("✓") == len(find_task(task).criteria)
            if task not in MEASURED:
                wanted = browser_check.check_answer(task, before, code)["text"]
                assert solved.strip() == wanted.strip()
        assert faults(look.tab, within=f".{CLASS}") == []
        assert too_wide(look.tab) == []
        look.problems[:] = [one for one in look.problems if "404" not in one]  # axe's style sheets
        assert look.problems == []
        assert not look.loaded(browser_python.COMPLETE)


def _cell(task: str) -> tuple[str, str]:
    return answers("en/exercises")[task]


@pytest.mark.parametrize("task", TASKS)
def test_wrong_answers_are_judged_as_in_the_notebook(task: str, address: str, browser: Any) -> None:
    """The reduced program was made without them, and needs to be complete enough."""
    before = answers("solutions")[task][0]
    wrong = list(WRONG[task].values())
    if task in PARTLY:
        wrong.append(PARTLY[task][1])
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/exercises/13_beyond_data_parallelism.html")
        for code in wrong:
            found = look.tab.evaluate(CHECK, [task, before, code])
            assert found == browser_check.check_answer(task, before, code), code
        assert not look.loaded(browser_python.COMPLETE)


def test_code_is_written_and_checked_with_keys(address: str, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/exercises/13_beyond_data_parallelism.html")
        root = field(look.tab, "micro_batches")
        root.locator("textarea").fill("")
        for line in ("def micro_batches(workers, bubble):", "pass", "return 0"):
            look.tab.keyboard.type(line)
            look.tab.keyboard.press("Enter")
        written = "def micro_batches(workers, bubble):\n    pass\n    return 0\n    "
        assert root.locator("textarea").input_value() == written
        look.tab.keyboard.press("Control+Enter")
        b.soon(lambda: "hint: " in root.locator("pre").inner_text(), "the result")


def test_an_endless_loop_is_stopped(address: str, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/exercises/13_beyond_data_parallelism.html")
        root = field(look.tab, "micro_batches")
        assert run(root, "while True:\n    pass") == strings.ANSWER_IS_SLOW
        assert "3 of 3 points" in run(root, answers("solutions")["micro_batches"][1])


@pytest.mark.smoke
def test_an_answer_that_needs_more_of_python_is_checked_by_the_complete_program(
    address: str, browser: Any
) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/exercises/13_beyond_data_parallelism.html")
        root = field(look.tab, "micro_batches")
        code = answers("solutions")["micro_batches"][1]
        for _time in range(2):
            found = run(root, MORE + code)
            assert "True" in found and "3 of 3 points" in found
            assert len(look.loaded(browser_python.COMPLETE)) == 1


def test_a_program_that_cannot_even_start_is_replaced(
    site: Path, address: str, browser: Any
) -> None:
    packed = site / browser_python.FOLDER / f"{browser_python.COMPLETE}{browser_python.COMPRESSED}"
    empty = reduced_program.reduced(lzma.decompress(packed.read_bytes()), ())
    body = lzma.compress(empty, check=lzma.CHECK_CRC32, preset=0)
    with looking(browser) as look:
        name = f"**/{browser_python.PROGRAM}{browser_python.COMPRESSED}"
        look.tab.route(name, lambda route: route.fulfill(body=body))
        look.tab.goto(f"{address}/en/exercises/13_beyond_data_parallelism.html")
        code = answers("solutions")["micro_batches"][1]
        assert "3 of 3 points" in run(field(look.tab, "micro_batches"), code)


def test_without_javascript_there_is_no_field(address: str, browser: Any) -> None:
    with looking(browser, java_script_enabled=False) as look:
        look.tab.goto(f"{address}/en/exercises/13_beyond_data_parallelism.html")
        assert not look.tab.locator(f".{CLASS}").first.is_visible()
