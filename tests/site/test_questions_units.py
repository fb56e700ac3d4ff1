"""The questions of the lessons' pages, without building the site."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from helpers import i18n
from helpers.course.quiz.question import Choice, Question, lessons, questions_of
from tests.support import ROOT
from tests.support.l10n_project import code_cell
from tools.lessons import notebook
from tools.lessons.project import Project
from tools.site import questions, tree

PROJECT = Project.load(ROOT)
LESSON = "01_train_on_two_workers"
EVIL = "</script><b>x"
SCRIPT = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)


def cell(source: str, output: str) -> notebook.Json:
    made = code_cell("questions", source)
    made["outputs"] = [{"output_type": "display_data", "data": {"text/html": [output]}}]
    return made


@pytest.mark.parametrize("lang", tree.languages(PROJECT))
def test_every_lesson_gets_the_data_of_what_its_page_shows_without_javascript(lang: str) -> None:
    for lesson in lessons():
        parsed = notebook.read(PROJECT.notebook(lesson, lang))
        asking = [one for one in notebook.cells(parsed, "code") if "quiz(" in notebook.source(one)]
        assert len(asking) == 1, lesson
        questions.make_interactive(asking[0], lang)
        text = "".join(asking[0]["outputs"][0]["data"]["text/html"])
        content, shown = SCRIPT.search(text), SCRIPT.sub("", text)
        assert content, lesson
        found = json.loads(content[1])
        assert len(found["questions"]) == len(questions_of(lesson))
        for question in found["questions"]:
            for part in [
                question["text"],
                *(part for both in question["choices"] for part in both),
            ]:
                assert part in shown, (lesson, part)


def test_the_right_choice_is_named_by_its_number_in_the_order_of_the_notebook() -> None:
    found = questions.data(LESSON)
    for question, made in zip(questions_of(LESSON), found["questions"], strict=True):
        right = found["course"][made["id"]]
        assert question.choices()[right] == question.right
    assert len(found["course"]) == sum(len(questions_of(lesson)) for lesson in lessons())


def test_an_id_changes_with_the_question_and_not_with_its_place() -> None:
    question = Question("a", Choice("b", "c"), (Choice("d", "e"),))
    turned = question._replace(right=question.wrong[0], wrong=(question.right,))
    assert questions.identity(question) == questions.identity(turned)
    for other in (
        question._replace(text="f"),
        question._replace(code="f"),
        question._replace(right=Choice("b", "f")),
    ):
        assert questions.identity(question) != questions.identity(other)


def test_the_texts_are_in_the_language_of_the_page_and_the_process_keeps_its_own() -> None:
    made = cell(f'quiz("{LESSON}")', "stored")
    questions.make_interactive(made, "ru")
    text = made["outputs"][0]["data"]["text/html"]
    assert "Верно" in text and "Show the answer" not in text
    assert i18n.language() == "en"


def test_no_text_ends_the_script_or_becomes_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = Question(EVIL, Choice(EVIL, EVIL), (Choice("a", "b"),), EVIL)
    monkeypatch.setattr(questions, "questions_of", lambda lesson: (evil,))
    made = cell(f'quiz("{LESSON}")', "stored")
    questions.make_interactive(made, "en")
    text = made["outputs"][0]["data"]["text/html"]
    assert text.count("</script>") == 1 and "<b>x" not in text
    found = json.loads(SCRIPT.search(text)[1])  # type: ignore[index]
    assert found["questions"][0]["text"].startswith("&lt;/script&gt;&lt;b&gt;x")
    assert found["questions"][0]["code"] == EVIL  # the script inserts it as text


def test_another_cell_stays_as_it_is() -> None:
    made = cell("print('quiz')", "stored")
    questions.make_interactive(made, "en")
    assert made["outputs"][0]["data"]["text/html"] == ["stored"]


def test_the_script_stores_nothing_but_the_answers() -> None:
    text = Path(questions.__file__).with_name("theme").joinpath("static", questions.SCRIPT)
    assert re.findall(r'"mwl-[a-z]+"', text.read_text()).count('"mwl-questions"') == 1
    assert set(re.findall(r"(?:local|session)Storage\.\w+\((\w+)", text.read_text())) == {"KEY"}
