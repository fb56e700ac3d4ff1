"""The questions of the lessons: their structure, and their behavior for a reader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
import pytest

from helpers.course.panel.widgets import WIDGET_MIME
from helpers.course.quiz import html, quiz, view
from helpers.course.quiz.question import Choice, Question, lessons, questions_of
from helpers.course.quiz.view import ChoiceRow, QuestionBox, Questions
from helpers.errors import ConfigError
from tests.panel.test_view import open_widgets
from tests.support import ROOT
from tools.l10n import extract
from tools.lessons.project import HELPERS, Project

EVIL = '<img src=x onerror="alert(1)">&'
COURSE = {lesson: questions_of(lesson) for lesson in lessons()}
ALL = [question for questions in COURSE.values() for question in questions]
LESSON = "01_train_on_two_workers"


@pytest.fixture
def shown_quiz() -> Iterator[Questions]:
    made = quiz(LESSON)
    yield made
    made.close()


def row_of(box: QuestionBox, question: Question, *, right: bool) -> ChoiceRow:
    """The row of the right choice, or of the first wrong one."""
    return next(
        row
        for row, choice in zip(box.rows, question.choices(), strict=True)
        if (choice == question.right) == right
    )


def test_every_lesson_has_three_to_five_questions() -> None:
    lessons = [path.stem for path in sorted((ROOT / "notebooks/en").glob("[0-9][0-9]_*.ipynb"))]
    assert len(lessons) == 13
    assert list(COURSE) == lessons
    assert all(3 <= len(questions) <= 5 for questions in COURSE.values())


def test_every_question_has_three_or_four_choices_and_one_of_them_is_right() -> None:
    for question in ALL:
        choices = question.choices()
        assert len(choices) in (3, 4)
        assert choices.count(question.right) == 1
        assert len({choice.text for choice in choices}) == len(choices), question.text
        assert all(text.strip() == text != "" for text in question.texts())


def test_every_lesson_has_a_question_with_a_few_lines_of_code() -> None:
    for lesson, questions in COURSE.items():
        assert any(question.code for question in questions), lesson
    for code in (question.code for question in ALL if question.code):
        lines = code.splitlines()
        assert 2 <= len(lines) <= 6
        assert max(map(len, lines)) <= 88, "wider than the box"


def test_every_text_is_marked_for_translation() -> None:
    found = {
        message.id
        for message in extract.template(Project.load(ROOT), HELPERS)
        if any(file.startswith("helpers/course/quiz/") for file, _line in message.locations)
    }
    missing = [text for question in ALL for text in question.texts() if text not in found]
    assert not missing


def test_code_in_a_text_is_closed() -> None:
    assert all(text.count("`") % 2 == 0 for question in ALL for text in question.texts())


def test_the_right_choice_is_not_found_by_its_place_or_its_length() -> None:
    places = Counter(question.choices().index(question.right) for question in ALL)
    assert set(places) == {0, 1, 2, 3}
    assert max(places.values()) <= 0.4 * len(ALL)
    for lesson, questions in COURSE.items():
        found = {question.choices().index(question.right) for question in questions}
        assert len(found) > 1, f"{lesson}: all at one place; write a choice in other words"
    for extreme in (max, min):
        guessed = sum(question.right == only(extreme, question) for question in ALL)
        assert guessed <= 0.4 * len(ALL), extreme


def only(extreme: Any, question: Question) -> Choice | None:
    """The choice with the longest or the shortest text, or None if several have that length."""
    lengths = [len(choice.text) for choice in question.choices()]
    length = extreme(lengths)
    return question.choices()[lengths.index(length)] if lengths.count(length) == 1 else None


def test_the_order_of_the_choices_is_the_same_every_time() -> None:
    for question in ALL:
        turned = question._replace(right=question.wrong[0], wrong=(question.right,))
        both = [choice for choice in question.choices() if choice in turned.choices()]
        assert turned.choices() == both


def test_a_right_choice_says_so_with_a_sign_a_word_and_the_reason(shown_quiz: Questions) -> None:
    question = COURSE[LESSON][0]
    row = row_of(shown_quiz.boxes[0], question, right=True)
    assert question.right.reason not in said(row)
    row.button.click()
    assert "✓ Right." in said(row) and 'role="status"' in said(row)
    assert html.marked(question.right.reason) in said(row)
    assert row.button.description.startswith("✓ Right. ")
    assert "mwl-is-right" in row._dom_classes


def test_a_wrong_choice_says_so_and_another_can_still_be_chosen(shown_quiz: Questions) -> None:
    question = COURSE[LESSON][0]
    box = shown_quiz.boxes[0]
    wrong = row_of(box, question, right=False)
    wrong.button.click()
    wrong.button.click()
    assert said(wrong).count("✗ Wrong.") == 1
    assert "mwl-is-wrong" in wrong._dom_classes
    assert not any(row.button.disabled for row in box.rows), "a disabled button loses the focus"
    right = row_of(box, question, right=True)
    right.button.click()
    assert "✓ Right." in said(right) and "✗ Wrong." in said(wrong)


def said(row: ChoiceRow) -> str:
    return "".join(child.value for child in row.children if isinstance(child, widgets.HTML))


def test_when_all_are_answered_it_says_how_many_at_the_first_try(shown_quiz: Questions) -> None:
    questions = COURSE[LESSON]
    row_of(shown_quiz.boxes[0], questions[0], right=False).button.click()
    for box, question in zip(shown_quiz.boxes, questions, strict=True):
        assert score_of(shown_quiz) == ""
        row_of(box, question, right=True).button.click()
    assert "3 of 4 on the first try" in score_of(shown_quiz) and 'role="status"' in score_of(
        shown_quiz
    )
    row_of(shown_quiz.boxes[1], questions[1], right=False).button.click()
    assert "3 of 4 on the first try" in score_of(shown_quiz)


def score_of(shown_quiz: Questions) -> str:
    return str(shown_quiz.children[-1].value)


def test_every_choice_is_a_button_with_its_text_as_its_name(shown_quiz: Questions) -> None:
    for box, question in zip(shown_quiz.boxes, COURSE[LESSON], strict=True):
        names = [row.button.description for row in box.rows]
        texts = [choice.text.replace("`", "") for choice in question.choices()]
        assert names == [f"{letter}. {text}" for letter, text in zip("ABCD", texts, strict=False)]


class Reader(HTMLParser):
    """Collects the text of a page, with folded text separately, and records open tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.shown, self.folded = "", ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("hr", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "details" in self.open:
            self.folded += data
        else:
            self.shown += data


@pytest.mark.parametrize("lesson", COURSE)
def test_without_widgets_all_is_there_and_the_answers_are_folded_away(lesson: str) -> None:
    page = html.page(COURSE[lesson])
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert page.count("<details>") == page.count("✓ Right.") == len(COURSE[lesson])
    for question in COURSE[lesson]:
        assert question.code in reader.shown
        for choice in question.choices():
            assert html.plain(choice.text) in reader.shown
            assert html.plain(choice.reason) in reader.folded
            assert html.plain(choice.reason) not in reader.shown
        assert html.plain(question.text) in reader.shown


def test_text_is_escaped_everywhere() -> None:
    evil = Choice(EVIL, EVIL)
    question = Question(EVIL, right=evil, wrong=(Choice(EVIL + "2", EVIL),), code=EVIL)
    shown_quiz = Questions([question])
    shown_quiz.boxes[0].rows[0].button.click()
    shown = [html.page([question])]
    for widget in every(shown_quiz):
        shown += [widget.value] if isinstance(widget, widgets.HTML) else []
    shown_quiz.close()
    assert not [part for part in shown if "<img" in part]
    assert sum(escape(EVIL) in part for part in shown) > 4
    assert html.marked("`a<b`") == "<code>a&lt;b</code>"


def every(widget: Any) -> Iterator[Any]:
    """A widget and all its children."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from every(child)


def test_a_notebook_gets_the_widget_and_the_page_the_same_every_time(
    shown_quiz: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(view, "display", lambda bundle, raw: shown.append(bundle))
    shown_quiz._ipython_display_()
    other = quiz(LESSON)
    other._ipython_display_()
    assert shown[0].pop(WIDGET_MIME)["model_id"] == shown_quiz.model_id
    assert shown[1].pop(WIDGET_MIME)["model_id"] == other.model_id
    other.close()
    assert shown[0] == shown[1]
    assert shown[0]["text/html"] == html.page(COURSE[LESSON])
    assert re.fullmatch(r"Questions\(\d\)", shown[0]["text/plain"])


def test_only_widgets_and_traits_that_colab_has_are_used(shown_quiz: Questions) -> None:
    new_in_8 = {"tabbable", "tooltip", "text_color", "font_size"}
    for widget in every(shown_quiz):
        assert widget._model_module == "@jupyter-widgets/controls"
        if not isinstance(widget, widgets.Button):
            changed = {name for name in widget.keys if widget.trait_has_value(name)}
            assert not [n for n in changed & new_in_8 if getattr(widget, n) is not None]


def test_closed_questions_leave_no_widget_behind() -> None:
    kept = set(open_widgets())
    made = quiz(LESSON)
    made.boxes[0].rows[0].button.click()
    assert len(set(open_widgets()) - kept) > 50
    made.close()
    assert set(open_widgets()) == kept


@pytest.mark.parametrize("lesson", ["14_no_such_lesson", "", None, ["a", "list"]])
def test_an_unknown_lesson_is_refused_with_those_that_exist(lesson: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        quiz(lesson)
    assert repr(lesson) in str(caught.value)
    assert all(name in str(caught.value) for name in COURSE)
