"""The terms of the glossary page, with the lesson that uses each first and links to definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from helpers.i18n import join_items
from tools.lessons import notebook
from tools.lessons.notebook import Json

GLOSSARY = "glossary"  # the domain of the page
ROW = re.compile(r"^\| \*\*(.+?)\*\*", re.MULTILINE)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


class Word(NamedTuple):
    """A term in the spelling of the page, and the heading of its section."""

    name: str
    section: str


def entries(page: Json) -> list[Word]:
    """The terms of a glossary page, in its order, which is the same in all languages."""
    texts = [notebook.source(cell) for cell in notebook.prose(page)]
    headed = [(heading[1], text) for text in texts if (heading := HEADING.search(text))]
    return [Word(name, section) for section, text in headed for name in ROW.findall(text)]


@cache
def first_uses(page: str, lessons: tuple[str, ...]) -> list[list[int]]:
    """The entries of the page that each lesson uses first.

    Args:
      page, lessons: the texts of the English notebooks, with the lessons in order.
    """
    words = entries(notebook.parse(page, GLOSSARY))
    left = {number: _pattern(word.name) for number, word in enumerate(words)}
    found = []
    for lesson in lessons:
        prose = "\n".join(map(notebook.source, notebook.prose(notebook.parse(lesson, "a lesson"))))
        new = [number for number, pattern in left.items() if pattern.search(prose)]
        found.append(new)
        for number in new:
            del left[number]
    return found


def links(words: Iterable[Word], lang: str) -> list[str]:
    """Terms as links to their headings on the page, with one link for each heading.

    Terms that share a word in the language, as *shard* and *sharding* do in Chinese, appear once.
    """
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(word.section, []).append(word.name)
    return [
        f"[{join_items(dict.fromkeys(names), lang)}]({GLOSSARY}.ipynb#{section.replace(' ', '-')})"
        for section, names in groups.items()
    ]


def _pattern(name: str) -> re.Pattern[str]:
    """A pattern that finds a term in English prose, in singular or plural, or a code name."""
    bare = re.escape(name.strip("`")).replace("\\ ", "\\s+")
    if name != name.lower():
        return re.compile(rf"\b{bare}\b")
    return re.compile(rf"\b{bare}(?:s|es)?\b", re.IGNORECASE)
