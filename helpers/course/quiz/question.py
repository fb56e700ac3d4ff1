"""A question with its choices, of which one is right, and what a reader has chosen so far.

The questions of a lesson are in the TOML file of its name, in this folder; `tools/l10n/extract.py`
takes their texts into the catalogs.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from helpers.errors import unknown_choice

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent


class Choice(NamedTuple):
    """An answer to choose, and why it is right or wrong.

    Both are English, and translated when they are shown; code in them stands in backquotes.
    """

    text: str
    reason: str


class Question(NamedTuple):
    """What is asked, the right choice and the wrong ones; `code` is shown below the text."""

    text: str
    right: Choice
    wrong: tuple[Choice, ...]
    code: str = ""

    def texts(self) -> Iterator[str]:
        """Everything that is translated, in the order of the file."""
        yield self.text
        for choice in (self.right, *self.wrong):
            yield from choice

    def choices(self) -> list[Choice]:
        """All choices, in an order that looks like chance and is the same in every run, so that
        the outputs of a lesson are, and in every language, so that a class can talk of them."""
        return sorted((self.right, *self.wrong), key=self._place)

    def _place(self, choice: Choice) -> str:
        return hashlib.sha256(f"{choice.text}\n{self.text}".encode()).hexdigest()


def lessons() -> list[str]:
    """The lessons that have questions, as "01_train_on_two_workers", in their order."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def questions_of(lesson: str) -> tuple[Question, ...]:
    """The questions of a lesson.

    Raises:
      ConfigError: there is no such lesson.
    """
    known = lessons()
    if lesson not in known:  # a list compares, so that any value gets an answer
        raise unknown_choice("lesson", lesson, known)
    return read_questions(FOLDER / f"{lesson}.toml")


@functools.cache
def read_questions(path: Path) -> tuple[Question, ...]:
    """The questions of a file."""
    tables = tomllib.loads(path.read_text("utf-8"))["questions"]
    return tuple(
        Question(
            table["text"],
            Choice(**table["right"]),
            tuple(Choice(**wrong) for wrong in table["wrong"]),
            table.get("code", ""),
        )
        for table in tables
    )


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
