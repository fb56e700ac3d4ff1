"""The questions as HTML: the parts of the widget, and a page for viewers without widgets.

All text is escaped. Texts are translated when a part is created.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import _, gettext_noop, join_sentences

INVITATION = gettext_noop(
    "Choose an answer to each question. You see at once whether it is right, and why."
)
RIGHT, WRONG = gettext_noop("Right."), gettext_noop("Wrong.")
LETTERS = "ABCD"
BACKQUOTES = re.compile(r"`([^`]+)`")


def marked(text: str) -> str:
    """A text in which text in backquotes is marked as code."""
    return BACKQUOTES.sub(r"<code>\1</code>", escape(text))


def plain(text: str) -> str:
    """A text without backquotes, for the name of a button."""
    return text.replace("`", "")


def invitation() -> str:
    """The instruction above the questions."""
    return f'<p class="mwl-tip">{escape(_(INVITATION))}</p>'


def head(number: int, question: Question) -> str:
    """The text of a question, with its code."""
    code = f"<pre><code>{escape(question.code)}</code></pre>" if question.code else ""
    asked = f"<b>{number}.</b> {marked(_(question.text))}"
    return f'<p class="mwl-asked" role="heading" aria-level="4">{asked}</p>{code}'


def choice_line(letter: str, choice: Choice) -> str:
    """The visible text of a choice. Screen readers use the name of its button."""
    return f'<div aria-hidden="true"><b>{letter}</b><span>{marked(_(choice.text))}</span></div>'


def verdict(right: bool) -> str:
    """A sign and a word, so that the result does not depend on colors."""
    return "✓ " + _(RIGHT) if right else "✗ " + _(WRONG)


def explanation(choice: Choice, right: bool) -> str:
    """The verdict on a choice, and its reason."""
    return join_sentences([f"<b>{escape(verdict(right))}</b>", marked(_(choice.reason))])


def answer(choice: Choice, right: bool) -> str:
    """The explanation, marked so that screen readers announce it."""
    return f'<div role="status">{explanation(choice, right)}</div>'


def score(at_first_try: int, total: int) -> str:
    """The score after every question has been answered."""
    line = _("{count} of {total} on the first try").format(count=at_first_try, total=total)
    return f'<div class="mwl-score" role="status">{escape(line)}</div>'


def page(questions: Sequence[Question]) -> str:
    """All questions with collapsed answers, for viewers without widgets."""
    return "<hr>".join(_unfolding(number, question) for number, question in enumerate(questions, 1))


def _unfolding(number: int, question: Question) -> str:
    lettered = list(zip(LETTERS, question.choices(), strict=False))
    lines = "<br>".join(f"<b>{letter}.</b> {marked(_(choice.text))}" for letter, choice in lettered)
    reasons = "".join(
        f"<p><b>{letter}.</b> {explanation(choice, choice == question.right)}</p>"
        for letter, choice in sorted(lettered, key=lambda item: item[1] != question.right)
    )
    summary = escape(_("Show the answer"))
    folded = f"<details><summary>{summary}</summary>{reasons}</details>"
    return f"<div>{head(number, question)}<p>{lines}</p>{folded}</div>"
