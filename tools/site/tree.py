"""Which pages there are in each language, what file each is made of, and where links lead."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from tools.lessons.project import SOURCE, Project, read_text

TRANSLATING = "locales/TRANSLATING"
START, LESSONS, EXERCISES, GLOSSARY = "index", "lessons", "exercises/index", "glossary"
DOCUMENTS, REFERENCE, MEASUREMENTS = "docs/index", "reference/index", "benchmarks/index"


@dataclass(frozen=True)
class Page:
    """A page that is made of a file.

    Attributes:
      name: its address within the tree of its language, without the suffix.
      file: what it is made of.
      english: the same in English; the headings of both have the same ids.
      lang: the language that `file` is written in.
    """

    name: str
    file: Path
    english: Path
    lang: str


@dataclass(frozen=True)
class Place:
    """Where a link leads: a page of the site, in the tree of `lang`."""

    lang: str
    name: str
    fragment: str = ""


@dataclass(frozen=True)
class Tree:
    """The pages of one language.

    Attributes:
      owners: for each file of the repository that is a page, the language of the tree that it
        stands for, and its page's name. An English document has none: what links to it decides,
        see `lead`.
    """

    project: Project
    lang: str
    pages: Mapping[str, Page]
    owners: Mapping[str, tuple[str | None, str]]

    def resolve_link(self, folder: str, lang: str, link: str) -> Place | str | None:
        """Where a link within the repository leads: a page, an address, or nowhere on the web.

        Args:
          folder: the one that the link is relative to, from the root of the repository.
          lang: the language of the page that has the link. What it links to in its own language
            is, in the tree of another, a page of that tree; and so is an English document, but for
            one that is linked to although it is there in the language of the page.
          link: a path, with or without a fragment.
        """
        parts = urlsplit(link)
        path = unquote(parts.path)
        start = "" if path.startswith("/") else folder
        file = os.path.normpath(PurePosixPath(start, path.lstrip("/")))
        if file in self.owners:
            written, name = self.owners[file]
            if written is None:
                # A page that is not English names an English document where it means that one.
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
    """The pages of a language; where a document is not translated, the English one."""
    owners: dict[str, tuple[str | None, str]] = {}
    for other in languages(project):
        for page in _pages(project, other):
            of_all = page.file == page.english and page.file.suffix == ".md"
            owners.setdefault(project.short(page.file), (None if of_all else page.lang, page.name))
    return Tree(project, lang, {page.name: page for page in _pages(project, lang)}, owners)


def _pages(project: Project, lang: str) -> list[Page]:
    """The pages of a language that are made of files."""
    found = [
        Page(domain, project.notebook(domain, lang), project.notebook(domain), lang)
        for domain in project.notebooks
    ]
    found += [_document(project, domain, lang) for domain in project.documents]
    folder = project.root / "benchmarks"
    for path in [folder / "README.md", *sorted((folder / "results").glob("*.md"))]:
        if not read_text(path).startswith("#"):
            continue  # a table that a page tells of
        name = path.relative_to(project.root).with_suffix("").as_posix()
        found.append(Page(name, path, path, SOURCE))
    path = project.root / f"{TRANSLATING}.md"
    return [*found, Page(TRANSLATING, path, path, SOURCE)]


def _document(project: Project, domain: str, lang: str) -> Page:
    english, translated = (project.document(domain, one) for one in (SOURCE, lang))
    if translated.exists():
        return Page(domain, translated, english, lang)
    return Page(domain, english, english, SOURCE)
