"""One word for one concept: the terms of `locales/glossary.csv` in a translation."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.l10n.text_checks import Check, Problem, strip_markup
from tools.lessons.project import ToolError


@dataclass(frozen=True)
class Term:
    """One concept in one language.

    Attributes:
      name: the term in English.
      english: a pattern that finds it in an English text, in singular or plural.
      word: the term in the language, in its dictionary form.
      match: a pattern that the translation of a text with the English term must contain.
      avoid: a pattern that it must not contain, or None.
      advisory: whether a missing term is only a note, because the English word has an everyday
        meaning, too.
    """

    name: str
    english: re.Pattern[str]
    word: str
    match: re.Pattern[str]
    avoid: re.Pattern[str] | None
    advisory: bool


def check_terms(terms: list[Term]) -> Check:
    """A check that English terms are translated by the glossary's words."""

    def check(lang: str, english: str, text: str) -> Iterator[Problem]:
        source, prose = strip_markup(english), strip_markup(text)
        for term in terms:
            source, count = term.english.subn(" ", source)
            if count and not term.match.search(prose):
                todo = f"Use “{term.word}” for it."
                yield Problem(f"the term “{term.name}” is missing", todo, term.advisory)
            if count and term.avoid and (wrong := term.avoid.search(prose)):
                yield Problem(f"“{wrong[0]}” stands for “{term.name}”", f"Use “{term.word}”.")

    return check


@cache
def load(path: Path, lang: str) -> list[Term]:
    """Reads a language's terms, longest first, so that "global batch size" goes before "batch".

    The columns are en, the languages, ``advisory``, and for each language LANG_match and
    LANG_avoid: regular expressions for its inflected forms and for wrong words. Without LANG_match,
    the translation must contain the term itself. A language without a column has no terms.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows.sort(key=lambda row: -len(row["en"]))
    return [_term(row, lang, path) for row in rows if row.get(lang)]


def _term(row: dict[str, str], lang: str, path: Path) -> Term:
    bare = re.sub(r"\s*\(.*?\)", "", row["en"])
    english = re.escape(bare).replace(r"\ ", r"\s+").replace(r"\-", "-?")
    avoid = row.get(f"{lang}_avoid")
    try:
        return Term(
            name=bare,
            english=re.compile(rf"\b{english}(?:s|es)?\b", re.IGNORECASE),
            word=row[lang],
            match=re.compile(row.get(f"{lang}_match") or re.escape(row[lang]), re.IGNORECASE),
            avoid=re.compile(avoid, re.IGNORECASE) if avoid else None,
            advisory=bool(row.get("advisory")),
        )
    except re.error as error:
        raise ToolError(
            f"{path}: the row {row['en']!r} has an invalid pattern for {lang}: {error}. Fix it."
        ) from None
