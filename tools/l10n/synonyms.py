"""Words of TensorFlow's translated pages for concepts that have another name in the course.

They are in `locales/synonyms.csv`. Its columns are the language, the English term of the glossary
page, if any, the course's word, the other word, and a pattern for its inflected forms. The builder
adds them to the glossary and to the document with the mark. The site's search replaces them by the
course's word.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from helpers.i18n import gettext_noop, join_items
from tools.l10n import glossary_links
from tools.lessons.project import SOURCE, Project

FILE = "synonyms.csv"
MARK = "<!-- words -->"
# i18n: after a definition of the glossary: words of other translations for the same thing
ALSO_CALLED = gettext_noop("Also called: {words}.")
# i18n: the head of a column of words
THEIR_WORD = gettext_noop("in other translations")
# i18n: the head of a column of words
OUR_WORD = gettext_noop("in this course")


@dataclass(frozen=True)
class Synonym:
    """A row of the file.

    Attributes:
      term: the term on the English glossary page, or "" if it is not there.
      course: the course's word.
      word: the other word.
      pattern: a regular expression for the forms of the other word.
    """

    lang: str
    term: str
    course: str
    word: str
    pattern: str


def read(project: Project) -> list[Synonym]:
    """All rows, or none without a file."""
    path = project.root / "locales" / FILE
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    return [Synonym(**{**row, "pattern": row["pattern"] or row["word"]}) for row in rows]


def of_language(project: Project, lang: str) -> list[Synonym]:
    """The rows of a language."""
    return [synonym for synonym in read(project) if synonym.lang == lang]


def expand(project: Project, text: str, lang: str, _: Callable[[str], str]) -> str:
    """A document in which the table of words replaces its mark."""
    words = of_language(project, lang)
    if MARK not in text or not words:
        return text
    rows = [(_(THEIR_WORD), _(OUR_WORD)), ("---", "---")]
    rows += [(synonym.word, synonym.course) for synonym in words]
    return text.replace(MARK, "\n".join(f"| {word} | {course} |" for word, course in rows))


def add_to_glossary(
    source: str, terms: Iterable[str], words: Iterable[Synonym], lang: str, _: Callable[[str], str]
) -> str:
    """A cell of a translated glossary page, with the other words after its definitions.

    Args:
      terms: the terms of the entries in the English cell, in the same order.
      words: the other words of the language.
    """
    if lang == SOURCE:
        return source
    names = iter(terms)
    known = list(words)

    def row(match: re.Match[str]) -> str:
        term = next(names, "")
        others = [synonym.word for synonym in known if synonym.term == term]
        if not others:
            return match[0]
        also = _(ALSO_CALLED).format(words=join_items(others, lang))
        return f"{match[1]} {also} |"

    return ENTRY.sub(row, source)


ENTRY = re.compile(rf"^({glossary_links.ROW.pattern[1:]}.*?)\s*\|\s*$", re.MULTILINE)
