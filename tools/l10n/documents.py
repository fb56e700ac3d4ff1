"""The README and the pages of docs in other languages, with translated text and links.

Links point to the same targets, relative to the translation, and to pages in its own language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from os.path import normpath, relpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.l10n import badges, catalog, lesson_links, markdown, structure, synonyms
from tools.l10n.build import labels
from tools.l10n.build import page as badged
from tools.lessons.project import DOCUMENTS, SOURCE, Project, read_text

LINK = re.compile(r"(?<=\]\()[^)\s]+")
NOTEBOOK = re.compile(rf"notebooks/{SOURCE}/(.+)\.ipynb")
README = f"{DOCUMENTS}/README"  # the page with badges
# A cell of the README's table with a link to a page in one language is already in that language.
NAMED = re.compile(r"\[[^\]]+\]\([^)\s]*(?:\.ipynb|README\.md)\)")


def messages(project: Project, domain: str) -> Iterator[markdown.Message]:
    """The messages of a document."""
    source = badges.without(read_text(project.document(domain)))
    named = _named(domain, source)
    return (
        part
        for part in markdown.split(source)
        if part.text not in named and not lesson_links.is_links(part.text)
    )


def _named(domain: str, source: str) -> set[str]:
    """The cells of the README's tables that remain unchanged, except for the start of links."""
    cells = (part.text for part in markdown.split(source) if part.kind == "table cell")
    return {text for text in cells if domain == README and NAMED.fullmatch(text)}


def build(
    project: Project, domain: str, lang: str, untranslated: list[tuple[str, str, str]] | None = None
) -> str:
    """The text of a document in a language.

    Args:
      untranslated: a list to which messages that remain English are added, as in
        `tools.l10n.build.Built`.
    """
    source = read_text(project.document(domain))
    if lang == SOURCE:
        return source
    source = badges.without(source)
    named = _named(domain, source)
    translations = catalog.read(project.catalog(domain, lang), lang)
    label = labels(project, lang)

    def lookup(text: str) -> str:
        if lesson_links.is_links(text):
            text = lesson_links.write(project, text, lang, label)
            return LINK.sub(partial(_relocate_link, project, domain, lang, lang), text)
        if text in named:
            return LINK.sub(partial(_relocate_link, project, domain, lang, None), text)
        message = translations.get(text)
        if message is not None and catalog.is_current(message):
            text = catalog.strings(message)[0]
        elif untranslated is not None:
            untranslated.append(("", catalog.untranslated_reason(message), text))
        return LINK.sub(partial(_relocate_link, project, domain, lang, lang), text)

    text = markdown.translate(source, lookup)
    text = synonyms.expand(project, text, lang, label)
    return badged(project, text, lang) if domain == README else text


def broken_links(project: Project, domain: str, lang: str) -> Iterator[tuple[str, str]]:
    """Each broken link within the repository in a built document, and the reason."""
    path = project.document(domain, lang)
    pages = {
        project.document(page, other): (page, other)
        for page in project.documents
        for other in [SOURCE, *project.languages]
    }
    for link in structure.links(build(project, domain, lang)):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = Path(normpath(path.parent / parts.path)) if parts.path else path
        if target not in pages and not target.exists():
            yield link, f"there is no {parts.path}"
            continue
        if not parts.fragment:
            continue
        if target.suffix == ".ipynb" and not lesson_links.has_anchor(target, parts.fragment):
            yield link, f"{target.name} has no heading #{parts.fragment}"
        if target not in pages:
            continue
        known = structure.slugs(structure.headings(build(project, *pages[target])))
        if parts.fragment not in known:
            yield link, f"{target.name} has no heading #{parts.fragment}"


def _relocate_link(
    project: Project, domain: str, lang: str, wanted: str | None, match: re.Match[str]
) -> str:
    """A link of the English document, converted for the document in `lang`.

    Args:
      wanted: the preferred language of the target, or None for any.
    """
    parts = urlsplit(match[0])
    if parts.scheme or parts.netloc or not parts.path:
        return match[0]
    target = project.document(domain).parent / parts.path
    path = normpath(target.relative_to(project.root))
    fragment = parts.fragment
    if wanted:
        if notebook := NOTEBOOK.fullmatch(path):
            fragment = lesson_links.anchor(project, notebook[1], unquote(fragment), wanted)
        path = in_language(project, path, wanted)
    start = project.document(domain, lang).parent.relative_to(project.root)
    return relpath(path, start) + (f"#{fragment}" if parts.fragment else "")


def in_language(project: Project, path: str, lang: str) -> str:
    """The path of a document, notebook or picture in a language, or else in English.

    Args:
      path: the English path from the root of the repository.
    """
    picture = re.sub(rf"^{DOCUMENTS}/(?=.*\.(png|svg)$)", f"{DOCUMENTS}/{lang}/", path)
    if picture != path and (project.root / picture).exists():
        return picture
    for domain in project.documents:
        if path == project.short(project.document(domain)):
            return project.short(project.document(domain, lang))
    return re.sub(rf"^notebooks/{SOURCE}(?=/|$)", f"notebooks/{lang}", path)
