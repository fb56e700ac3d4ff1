"""The ids of headings, which are equal in all languages.

So a change of the language keeps the reader's position.

In a lesson, they are derived from the ids of its cells, and in a document from the English
headings. Anchors of headings in Jupyter and on a repository's pages work as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.l10n.structure import headings, slugs
from tools.lessons import notebook
from tools.lessons.project import ToolError, read_text
from tools.site.tree import Page


def anchors(page: Page) -> list[list[str]]:
    """The id and the alternative ids of each heading of a page, in order.

    Raises:
      ToolError: a translation does not have the headings of the English page.
    """
    first, own = (_NAMES[page.file.suffix](path) for path in (page.english, page.file))
    if len(first) != len(own):
        raise ToolError(
            f"{page.file} has {len(own)} headings, and {page.english} has {len(first)}. "
            "The numbers must be equal: translate every heading, and add none."
        )
    found = [[id_, alias] for (id_, _), (_, alias) in zip(first, own, strict=True)]
    return list(_without_repetitions(found))


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
    """Removes repeated ids, so that an id refers to the first heading that has it."""
    taken = {ids[0] for ids in found}
    for id_, *aliases in found:
        free = [alias for alias in dict.fromkeys(aliases) if alias not in taken]
        taken.update(free)
        yield [id_, *free]
