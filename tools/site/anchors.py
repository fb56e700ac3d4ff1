"""The ids of headings: equal in all languages, so that a reader who changes the language stays.

In a lesson they come from the ids of its cells, in a document from the English headings. The
addresses that links to headings have in Jupyter, and on a page of a repository, work besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from markdown_it.token import Token

from tools.l10n import structure
from tools.l10n.markdown import PARSER
from tools.lessons import notebook
from tools.lessons.project import LocalisationError, read_text
from tools.site.tree import Page

NO_SLUG = re.compile(r"[^\w\- ]")


def anchors(page: Page) -> list[list[str]]:
    """For each heading of a page, in order: its id, and the other ones that lead there.

    Raises:
      LocalisationError: if a translation has not the headings of the English page.
    """
    first, own = (_NAMES[page.file.suffix](path) for path in (page.english, page.file))
    if len(first) != len(own):
        raise LocalisationError(
            f"{page.file} has {len(own)} headings, and {page.english} has {len(first)}. "
            "The site needs as many: translate every heading, and add none."
        )
    found = [[id_, alias] for (id_, _), (_, alias) in zip(first, own, strict=True)]
    return list(_without_repetitions(found))


def headings(source: str) -> list[str]:
    """The headings of a Markdown text, as plain text."""
    return [structure.plain(token.children or []) for token in _heading_tokens(source)]


def slugs(texts: list[str]) -> list[str]:
    """What a page of a repository calls its headings."""
    found: list[str] = []
    for text in texts:
        slug = NO_SLUG.sub("", text.lower()).replace(" ", "-")
        seen = sum(
            one == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", one) is not None for one in found
        )
        found.append(f"{slug}-{seen}" if seen else slug)
    return found


def _heading_tokens(source: str) -> Iterator[Token]:
    for before, token in pairwise(PARSER.parse(source)):
        if before.type == "heading_open" and before.level == 0:
            yield token


def _of_notebook(path: Path) -> list[tuple[str, str]]:
    found = []
    for cell in notebook.cells(notebook.read(path), "markdown"):
        for number, text in enumerate(headings(notebook.source(cell)), 1):
            id_ = cell["id"] if number == 1 else f"{cell['id']}-{number}"
            found.append((id_, text.replace(" ", "-")))
    return found


def _of_document(path: Path) -> list[tuple[str, str]]:
    found = slugs(headings(read_text(path)))
    return list(zip(found, found, strict=True))


_NAMES = {".ipynb": _of_notebook, ".md": _of_document}


def _without_repetitions(found: list[list[str]]) -> Iterator[list[str]]:
    """An id leads to one place: the first that has it as its own."""
    taken = {ids[0] for ids in found}
    for id_, *aliases in found:
        free = [alias for alias in dict.fromkeys(aliases) if alias not in taken]
        taken.update(free)
        yield [id_, *free]
