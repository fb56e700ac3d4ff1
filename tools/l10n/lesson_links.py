"""Links to lessons and their headings, with names in each language.

In a table of a document, a cell that contains only such links, separated by ` · `, needs no
translation. The builder writes the number, the title and the heading. The order of headings is the
same in all languages, so the anchor of a link is found by its position.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from helpers.i18n import gettext_noop
from tools.l10n.structure import headings
from tools.lessons import notebook
from tools.lessons.project import SOURCE, Project

LINK = re.compile(
    r"\[(?P<text>[^\]]+)\]\((?P<folder>(?:\.\./)+notebooks/en/)(?P<domain>[^)#\s]+)\.ipynb"
    r"(?:#(?P<anchor>[^)\s]+))?\)"
)
BETWEEN = " · "
# i18n: names a link to a lesson, or to a chapter of one
LESSON = gettext_noop("Lesson {number}, {heading}")
# i18n: names a link to a chapter of a notebook that is no lesson
NOTEBOOK = gettext_noop("{title}, {heading}")


def is_links(text: str) -> bool:
    """Whether a text contains only links to lessons."""
    return all(LINK.fullmatch(part) for part in text.split(BETWEEN))


def write(project: Project, text: str, lang: str, _: Callable[[str], str]) -> str:
    """Links to English lessons with texts in a language and English addresses."""

    def named(match: re.Match[str]) -> str:
        domain, mark = match["domain"], match["anchor"] or ""
        texts = _headings(project.notebook(domain, lang))
        place = _place(project, domain, mark)
        name = texts[place] if place is not None and place < len(texts) else mark
        number = domain.partition("_")[0]
        if number.isdecimal():
            name = _(LESSON).format(number=int(number), heading=name)
        elif mark and texts:
            name = _(NOTEBOOK).format(title=texts[0], heading=name)
        start, end = match.span("text")
        return text[match.start() : start] + name + text[end : match.end()]

    return LINK.sub(named, text)


def anchor(project: Project, domain: str, english: str, lang: str) -> str:
    """The anchor of a heading in a language, or the English anchor if it is unknown."""
    place = _place(project, domain, english)
    texts = _headings(project.notebook(domain, lang))
    return _anchor(texts[place]) if place is not None and place < len(texts) else english


def has_anchor(path: Path, name: str) -> bool:
    """Whether a notebook has a heading with this anchor."""
    return name in map(_anchor, _headings(path))


def _place(project: Project, domain: str, mark: str) -> int | None:
    """The index of the heading with an English anchor. Without an anchor, it is the title."""
    marks = [_anchor(text) for text in _headings(project.notebook(domain, SOURCE))]
    if not mark:
        return 0
    return marks.index(mark) if mark in marks else None


def _anchor(heading: str) -> str:
    return heading.replace(" ", "-")


def _headings(path: Path) -> list[str]:
    """The headings of a notebook, or none if it does not exist."""
    return list(_read(path, path.stat().st_mtime_ns)) if path.exists() else []


@cache
def _read(path: Path, _changed: int) -> tuple[str, ...]:
    prose = notebook.cells(notebook.read(path), "markdown")
    return tuple(text for cell in prose for text in headings(notebook.source(cell)))
