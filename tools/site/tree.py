"""The pages of each language, their source files, and the targets of links."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from tools.lessons.project import SOURCE, Project, read_text

TRANSLATING = "locales/TRANSLATING"
START, LESSONS, GLOSSARY = "index", "lessons", "glossary"
FAULT_LAB = "fault_lab"
EXERCISES, PROJECTS = "exercises/index", "projects/index"
DOCUMENTS, REFERENCE, MEASUREMENTS = "docs/index", "reference/index", "benchmarks/index"


@dataclass(frozen=True)
class Page:
    """A page with a source file.

    Attributes:
      name: its address within the tree of its language, without the suffix.
      file: its source file.
      english: the English source file, with equal ids of headings.
      lang: the language of `file`.
    """

    name: str
    file: Path
    english: Path
    lang: str


@dataclass(frozen=True)
class Place:
    """The target of a link: a page of the site, in the tree of `lang`."""

    lang: str
    name: str
    fragment: str = ""


@dataclass(frozen=True)
class Tree:
    """The pages of one language.

    Attributes:
      owners: the language of the tree and the page's name for each file of the repository that is a
        page. An English document has no language, because it depends on the link: see
        `resolve_link`.
    """

    project: Project
    lang: str
    pages: Mapping[str, Page]
    owners: Mapping[str, tuple[str | None, str]]

    def resolve_link(self, folder: str, lang: str, link: str) -> Place | str | None:
        """The target of a link within the repository: a page, an address, or None.

        Args:
          folder: the base folder of the link, from the root of the repository.
          lang: the language of the page that has the link. A target in this language becomes a page
            of the current tree. So does an English document, unless the page links to it although
            it exists in the page's language.
          link: a path, with or without a fragment.
        """
        parts = urlsplit(link)
        path = unquote(parts.path)
        start = "" if path.startswith("/") else folder
        file = os.path.normpath(PurePosixPath(start, path.lstrip("/")))
        if file in self.owners:
            written, name = self.owners[file]
            if written is None:
                # A page in another language links to an English document only if it means the
                # English one.
                written = self.lang if SOURCE in (lang, self.pages[name].lang) else SOURCE
            elif written == lang:
                written = self.lang
            return Place(written, name, parts.fragment)
        if not self.project.repository:
            return None
        kind = "tree" if (self.project.root / file).is_dir() else "blob"
        return f"{self.project.repository}/{kind}/main/{file}"


def languages(project: Project) -> list[str]:
    """The languages of the site, English first."""
    return [SOURCE, *project.released]


def tree(project: Project, lang: str) -> Tree:
    """The pages of a language, with the English document if it is not translated."""
    owners: dict[str, tuple[str | None, str]] = {}
    for other in languages(project):
        for page in _pages(project, other):
            of_all = page.file == page.english and page.file.suffix == ".md"
            owners.setdefault(project.short(page.file), (None if of_all else page.lang, page.name))
    return Tree(project, lang, {page.name: page for page in _pages(project, lang)}, owners)


def _pages(project: Project, lang: str) -> list[Page]:
    """The pages of a language that have a source file."""
    found = [
        Page(domain, project.notebook(domain, lang), project.notebook(domain), lang)
        for domain in project.notebooks
    ]
    found += [_document(project, domain, lang) for domain in project.documents]
    folder = project.root / "benchmarks"
    for path in [folder / "README.md", *sorted((folder / "results").glob("*.md"))]:
        if not read_text(path).startswith("#"):
            continue  # a table that a page refers to
        name = path.relative_to(project.root).with_suffix("").as_posix()
        found.append(Page(name, path, path, SOURCE))
    path = project.root / f"{TRANSLATING}.md"
    return [*found, Page(TRANSLATING, path, path, SOURCE)]


def _document(project: Project, domain: str, lang: str) -> Page:
    english, translated = (project.document(domain, one) for one in (SOURCE, lang))
    if translated.exists():
        return Page(domain, translated, english, lang)
    return Page(domain, english, english, SOURCE)
