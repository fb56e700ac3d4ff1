"""The questions of the lessons, answered on the pages of the site in a real Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.course.quiz.html import LETTERS, marked
from helpers.course.quiz.question import Question, lessons, questions_of
from tests.site.test_in_a_browser import LANGUAGES, NARROW, WIDE, looking, too_wide
from tests.support import ROOT
from tests.support import browser as b
from tests.support.axe import faults
from tools.lessons.project import Project
from tools.site import questions, strings

pytestmark = [pytest.mark.site, *b.MARKS[1:]]

PROJECT = Project.load(ROOT)
LESSON = "01_train_on_two_workers"
WAYS = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light")]
SERIALIZED = """html => {
    const one = document.createElement('p');
    one.innerHTML = html;
    return one.innerHTML;
}"""
STORED = "() => JSON.parse(localStorage.getItem('mwl-questions') || '{}')"


def expected(tab: Any, text: str) -> str:
    """A text as the browser serializes it."""
    return str(tab.evaluate(SERIALIZED, marked(text)))


def wrong_letters(question: Question) -> list[str]:
    choices = zip(LETTERS, question.choices(), strict=False)
    return [letter for letter, choice in choices if choice != question.right]


def right_letter(question: Question) -> str:
    return LETTERS[question.choices().index(question.right)]


def button(group: Any, letter: str) -> Any:
    return group.locator("button.mwl-choice").nth(LETTERS.index(letter))


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_question_is_answered(
    lang: str, way: tuple[int, str], address: str, browser: Any
) -> None:
    """Each lesson in one of four ways, and in each way at least three lessons."""
    width, scheme = way
    _ = strings.translator(PROJECT, lang)
    found = lessons()[WAYS.index(way) :: len(WAYS)]
    assert len(found) >= 3
    with looking(browser, color_scheme=scheme) as look:
        look.tab.set_viewport_size({"width": width, "height": 900})
        for lesson in found:
            look.tab.goto(f"{address}/{lang}/{lesson}.html")
            groups = look.tab.locator(".mwl-quiz .mwl-question")
            asked = questions_of(lesson)
            assert groups.count() == len(asked), lesson
            for k, question in enumerate(asked):
                answer(look.tab, groups.nth(k), question, _, by_keyboard=k == 0)
            scores = look.tab.locator(".mwl-score p").all_inner_texts()
            assert scores[0] == _(strings.LESSON_SCORE).format(
                answered=len(asked), total=len(asked), first=0
            )
            assert look.problems == []
            assert faults(look.tab, ".mwl-quiz") == []
            look.problems.clear()  # axe requests style sheets from nonexistent paths
            assert too_wide(look.tab) == []
            look.tab.set_viewport_size({"width": width, "height": 900})
        assert look.tab.context.cookies() == []
        keys = look.tab.evaluate("Object.keys(localStorage)")  # the theme has its own
        assert [key for key in keys if key.startswith("mwl-")] == ["mwl-questions"]


def answer(tab: Any, group: Any, question: Question, _: Any, *, by_keyboard: bool) -> None:
    """Chooses every wrong choice and then the right one, and compares what the page explains."""
    for letter in [*wrong_letters(question), right_letter(question)]:
        chosen = button(group, letter)
        if by_keyboard:
            chosen.focus()
            tab.keyboard.press("Space" if letter == "A" else "Enter")
        else:
            chosen.click()
        choice = question.choices()[LETTERS.index(letter)]
        assert chosen.locator("b").inner_text() == f"{letter}."
        assert chosen.locator("span").inner_html() == expected(tab, _(choice.text))
        item = chosen.locator("xpath=..")
        why = item.get_by_role("status")
        right = choice == question.right
        assert why.locator("b").inner_text() == (
            "✓ " + _("Right.") if right else "✗ " + _("Wrong.")
        )
        assert why.locator("span").inner_html() == expected(tab, _(choice.reason))
        assert chosen.get_attribute("aria-describedby") == why.get_attribute("id")


def test_the_keys_reach_each_choice_in_order(address: str, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/{LESSON}.html")
        buttons = look.tab.locator(".mwl-quiz .mwl-choice")
        buttons.first.focus()
        reached = []
        for _k in range(len(questions_of(LESSON)[0].choices()) - 1):
            look.tab.keyboard.press("Tab")
            reached.append(look.tab.evaluate("document.activeElement.textContent"))
            ring = look.tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert ring == "solid"
        assert [text[:2] for text in reached] == ["B.", "C.", "D."]


def test_answers_are_kept_in_every_language_until_the_reader_starts_over(
    address: str, browser: Any
) -> None:
    first, second, *_rest = questions_of(LESSON)
    total = len(questions_of(LESSON))
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/{LESSON}.html")
        groups = look.tab.locator(".mwl-quiz .mwl-question")
        button(groups.nth(0), right_letter(first)).click()
        button(groups.nth(1), wrong_letters(second)[0]).click()
        button(groups.nth(1), right_letter(second)).click()
        stored = look.tab.evaluate(STORED)
        assert list(stored) == [questions.identity(one) for one in (first, second)]
        look.tab.goto(f"{address}/ko/{LESSON}.html")
        assert look.tab.locator(".mwl-is-right").count() == 2
        assert look.tab.locator(".mwl-is-wrong").count() == 1
        look.tab.goto(f"{address}/en/02_choose_a_strategy.html")
        scores = look.tab.locator(".mwl-score p").all_inner_texts()
        assert scores[1] == strings.COURSE_SCORE.format(
            answered=2, total=len(questions.answers()), first=1
        )
        look.tab.goto(f"{address}/en/{LESSON}.html")
        look.tab.get_by_role("button", name="Start over").click()
        assert look.tab.locator(".mwl-is-right, .mwl-is-wrong").count() == 0
        assert look.tab.locator(".mwl-score p").first.inner_text() == strings.LESSON_SCORE.format(
            answered=0, total=total, first=0
        )
        assert look.tab.evaluate(STORED) == {}
        assert look.tab.evaluate("document.activeElement.className") == "mwl-choice"
        button(groups.nth(0), wrong_letters(first)[0]).click()  # can be chosen again
        assert look.tab.locator(".mwl-is-wrong").count() == 1


def test_a_screen_reader_hears_the_verdict(address: str, browser: Any) -> None:
    """A region that exists before its text is announced, and the button keeps the verdict."""
    first = questions_of(LESSON)[0]
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/{LESSON}.html")
        group = look.tab.locator(".mwl-quiz").get_by_role("group").first
        assert first.text in group.aria_snapshot()
        assert group.get_by_role("status").count() == len(first.choices())
        button(group, right_letter(first)).click()
        chosen = group.get_by_role("button", disabled=True)
        assert chosen.count() == 1
        described = look.tab.evaluate(
            "one => document.getElementById(one.getAttribute('aria-describedby')).innerText",
            chosen.element_handle(),
        )
        assert described.startswith("✓ Right.")


@pytest.mark.parametrize("stored", ["no JSON", "5", json.dumps({"unknown": [0]})])
def test_strange_stored_answers_do_no_harm(stored: str, address: str, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.add_init_script(f"localStorage.setItem('mwl-questions', {json.dumps(stored)})")
        look.tab.goto(f"{address}/en/{LESSON}.html")
        look.tab.locator(".mwl-choice").first.click()
        assert look.tab.locator(".mwl-why b").count() == 1
        assert look.problems == []


def test_without_storage_answers_last_as_long_as_the_page(address: str, browser: Any) -> None:
    forbid = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('no') }})"
    with looking(browser) as look:
        look.tab.add_init_script(forbid)
        look.tab.goto(f"{address}/en/{LESSON}.html")
        group = look.tab.locator(".mwl-quiz .mwl-question").first
        button(group, right_letter(questions_of(LESSON)[0])).click()
        assert look.tab.locator(".mwl-score p").first.inner_text() == strings.LESSON_SCORE.format(
            answered=1, total=len(questions_of(LESSON)), first=1
        )


def test_without_javascript_the_answers_unfold(address: str, browser: Any) -> None:
    with looking(browser, java_script_enabled=False) as look:
        look.tab.goto(f"{address}/ru/{LESSON}.html")
        folded = look.tab.locator(".mwl-quiz details")
        assert folded.count() == len(questions_of(LESSON))
        folded.first.locator("summary").click()
        assert "Верно" in folded.first.inner_text()


def test_questions_work_when_the_page_is_opened_as_a_file(site: Path, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.goto((site / "en" / f"{LESSON}.html").as_uri())
        group = look.tab.locator(".mwl-quiz .mwl-question").first
        button(group, right_letter(questions_of(LESSON)[0])).click()
        assert group.locator(".mwl-is-right").is_visible()
