"""The questions of a lesson as core ipywidgets (7.7 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
from IPython.display import display

from helpers.course.panel.widgets import close_tree, mime_bundle
from helpers.course.quiz import html
from helpers.course.quiz.question import Answers, Choice, Question, questions_of
from helpers.course.quiz.style import STYLE
from helpers.i18n import _


def quiz(lesson: str) -> Questions:
    """The questions of a lesson as a widget of the notebook.

        quiz("01_train_on_two_workers")

    Raises:
      ConfigError: there is no such lesson.
    """
    return Questions(questions_of(lesson))


class Questions(widgets.VBox):
    """Questions whose choices are buttons that show why a choice is right or wrong.

    Attributes:
      boxes: the questions, in their order.
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = tuple(questions)
        self._answers = Answers(questions)
        self._score = widgets.HTML()
        self.boxes = [
            QuestionBox(number, question, self._choose)
            for number, question in enumerate(questions, 1)
        ]
        top = widgets.HTML(STYLE + html.invitation())
        super().__init__([top, *self.boxes, self._score])
        self.add_class("mwl-ask")

    def close(self) -> None:
        """Removes the questions from the page."""
        close_tree(self)

    def __repr__(self) -> str:
        return f"Questions({len(self._questions)})"

    def _ipython_display_(self, **unused: Any) -> None:
        display(mime_bundle(self, html=html.page(self._questions)), raw=True)

    def _choose(self, question: Question, choice: Choice) -> bool:
        right = self._answers.choose(question, choice)
        if self._answers.complete and not self._score.value:
            self._score.value = html.score(self._answers.at_first_try, len(self._questions))
        return right


class QuestionBox(widgets.VBox):
    """One question with its choices.

    Args:
      choose: called with each choice, and returns whether it is right.

    Attributes:
      rows: the choices in display order.
    """

    def __init__(
        self, number: int, question: Question, choose: Callable[[Question, Choice], bool]
    ) -> None:
        self.rows = [
            ChoiceRow(letter, choice, lambda choice: choose(question, choice))
            for letter, choice in zip(html.LETTERS, question.choices(), strict=False)
        ]
        super().__init__([widgets.HTML(html.head(number, question)), *self.rows])
        self.add_class("mwl-question")


class ChoiceRow(widgets.VBox):
    """A choice and, after it was chosen, the reason why it is right or wrong.

    The text of a button cannot contain code. So the button is invisible behind the whole visible
    line, and its own text is for screen readers.
    """

    def __init__(self, letter: str, choice: Choice, choose: Callable[[Choice], bool]) -> None:
        self._name = f"{letter}. {html.plain(_(choice.text))}"
        self._choice = choice
        self._choose = choose
        self.button = widgets.Button(description=self._name)
        self.button.on_click(lambda _button: self._press())
        self._line = widgets.HTML(html.choice_line(letter, choice))
        self._line.add_class("mwl-line")
        self._told = False
        super().__init__([self.button, self._line])
        self.add_class("mwl-choice")

    def _press(self) -> None:
        if self._told:
            return  # ignore a second click
        self._told = True
        right = self._choose(self._choice)
        why = widgets.HTML(html.answer(self._choice, right))
        why.add_class("mwl-why")
        self.children = [self.button, self._line, why]
        self.button.description = f"{html.verdict(right)} {self._name}"
        self.add_class("mwl-is-right" if right else "mwl-is-wrong")
