"""A question with its choices, of which one is right, and a reader's answers so far.

The questions of a lesson are in the TOML file with its name in this folder. `tools/l10n/extract.py`
adds their texts to the catalogs.
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
    """A possible answer, and the reason why it is right or wrong.

    Both are English, with code in backquotes, and are translated when they are shown.
    """

    text: str
    reason: str


class Question(NamedTuple):
    """A question, its right choice and its wrong ones. `code` is shown below the text."""

    text: str
    right: Choice
    wrong: tuple[Choice, ...]
    code: str = ""

    def texts(self) -> Iterator[str]:
        """All translated texts, in the order of the file."""
        yield self.text
        for choice in (self.right, *self.wrong):
            yield from choice

    def choices(self) -> list[Choice]:
        """All choices, in a pseudorandom order.

        The order is the same in every run, so that the outputs of a lesson are reproducible. It is
        also the same in every language, so that a class can discuss the choices.
        """
        return sorted((self.right, *self.wrong), key=self._place)

    def _place(self, choice: Choice) -> str:
        return hashlib.sha256(f"{choice.text}\n{self.text}".encode()).hexdigest()


def lessons() -> list[str]:
    """The lessons that have questions, such as "01_train_on_two_workers", in their order."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def questions_of(lesson: str) -> tuple[Question, ...]:
    """The questions of a lesson.

    Raises:
      ConfigError: there is no such lesson.
    """
    known = lessons()
    if lesson not in known:  # a list, because the value may be unhashable
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
    """The choices of a reader for each question."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._chosen: dict[Question, list[Choice]] = {question: [] for question in questions}

    def choose(self, question: Question, choice: Choice) -> bool:
        """Records a choice, and returns whether it is right."""
        self._chosen[question].append(choice)
        return choice == question.right

    @property
    def complete(self) -> bool:
        """Whether every question has been answered correctly, at any attempt."""
        return all(question.right in chosen for question, chosen in self._chosen.items())

    @property
    def at_first_try(self) -> int:
        """The number of questions answered correctly at the first attempt."""
        return sum(chosen[:1] == [question.right] for question, chosen in self._chosen.items())
