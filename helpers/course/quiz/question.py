"""A question with its choices, of which one is right, and what a reader has chosen so far."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple


class Choice(NamedTuple):
    """An answer to choose, and why it is right or wrong.

    Both are English, marked with `gettext_noop`; code in them stands in backquotes.
    """

    text: str
    reason: str


class Question(NamedTuple):
    """What is asked, the right choice and the wrong ones; `code` is shown below the text."""

    text: str
    right: Choice
    wrong: tuple[Choice, ...]
    code: str = ""

    def choices(self) -> list[Choice]:
        """All choices, in an order that looks like chance and is the same in every run, so that
        the outputs of a lesson are, and in every language, so that a class can talk of them."""
        return sorted((self.right, *self.wrong), key=self._place)

    def _place(self, choice: Choice) -> str:
        return hashlib.sha256(f"{choice.text}\n{self.text}".encode()).hexdigest()


class Answers:
    """What a reader has chosen, question by question."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._chosen: dict[Question, list[Choice]] = {question: [] for question in questions}

    def choose(self, question: Question, choice: Choice) -> bool:
        """Notes a choice; whether it is right."""
        self._chosen[question].append(choice)
        return choice == question.right

    @property
    def complete(self) -> bool:
        """Whether every question has been answered rightly, at whichever try."""
        return all(question.right in chosen for question, chosen in self._chosen.items())

    @property
    def at_first_try(self) -> int:
        """How many questions were answered rightly by the first choice."""
        return sum(chosen[:1] == [question.right] for question, chosen in self._chosen.items())
