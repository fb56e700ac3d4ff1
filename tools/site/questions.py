"""The questions of a lesson on its page, where theme/static/questions.js asks them.

The questions and their translations are those of the notebook (helpers/course/quiz).
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from helpers.course.quiz import html
from helpers.course.quiz.question import Question, lessons, questions_of
from helpers.i18n import _, use_language
from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.site import strings

SCRIPT = "questions.js"
CLASS = "mwl-quiz"  # of the element that the script fills
CALL = re.compile(r'^quiz\("(\w+)"\)$', re.MULTILINE)
ID_LENGTH = 8


def make_interactive(cell: Json, lang: str) -> None:
    """Replaces the output of a cell that shows questions by the current ones, with their data.

    Without JavaScript, the page shows what the notebook shows without widgets.
    """
    called = CALL.search(notebook.source(cell))
    if called is None:
        return
    with use_language(lang):
        folded, content = html.page(questions_of(called[1])), json.dumps(data(called[1]))
    content = content.replace("<", "\\u003c")  # no "</script>" in a text may end the element
    script = f'<script type="application/json">{content}</script>'
    for output in cell["outputs"]:
        output["data"]["text/html"] = f'<div class="{CLASS}">{script}{folded}</div>'


def data(lesson: str) -> dict[str, Any]:
    """The questions of a lesson as HTML, in the language in use, and their right choices.

    Returns: `questions`, `words`, and `course`, which has the number of the right choice of each
      question of the course by the question's id.
    """
    return {
        "questions": [_question(question) for question in questions_of(lesson)],
        "course": answers(),
        "words": {
            "tip": _(html.INVITATION),
            "stored": _(strings.ANSWERS_ARE_STORED),
            "right": html.verdict(right=True),
            "wrong": html.verdict(right=False),
            "lesson": _(strings.LESSON_SCORE),
            "course": _(strings.COURSE_SCORE),
            "again": _(strings.START_OVER),
        },
    }


def _question(question: Question) -> dict[str, Any]:
    return {
        "id": identity(question),
        "text": html.marked(_(question.text)),
        "code": question.code.strip("\n"),
        "choices": [
            [html.marked(_(text)), html.marked(_(reason))] for text, reason in question.choices()
        ],
    }


@functools.cache
def answers() -> Mapping[str, int]:
    """The number of the right choice for each question of the course, by the question's id."""
    course = [question for lesson in lessons() for question in questions_of(lesson)]
    return {identity(one): one.choices().index(one.right) for one in course}


def identity(question: Question) -> str:
    """An id under which a browser stores answers.

    It is the same in all languages, and another one after any change of the question.
    """
    texts = "\n".join(sorted([*question.texts(), question.code]))
    return hashlib.sha256(texts.encode()).hexdigest()[:ID_LENGTH]
