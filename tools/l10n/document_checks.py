"""Checks that translated documents are up to date, have the English structure and valid links."""

from __future__ import annotations

from collections.abc import Iterator

from tools.l10n import catalog, course_map, documents
from tools.l10n.lesson_checks import compare
from tools.l10n.report import Finding
from tools.lessons.project import SOURCE, Project, read_text


def document_problems(project: Project, domain: str, lang: str) -> Iterator[Finding]:
    """The findings about one document in one language."""
    path = project.document(domain, lang)
    untranslated: list[tuple[str, str, str]] = []
    text = documents.build(project, domain, lang, untranslated)
    if not path.exists() or path.read_text("utf-8") != text:
        what = "differs from the result of a build" if path.exists() else "has not been built"
        todo = f"Run: python -m tools.l10n build --lang {lang} --only {domain}"
        yield Finding(project.short(path), f"the document {what}", todo)
    if lang != SOURCE:
        yield from _structure_problems(project, domain, lang)
    if not untranslated:  # a link cannot point to an untranslated heading
        name = project.short(path if lang == SOURCE else project.catalog(domain, lang))
        for link, why in documents.broken_links(project, domain, lang):
            yield Finding(name, f"the link {link} leads nowhere: {why}", "Mend it.")


def map_problems(project: Project, lang: str) -> Iterator[Finding]:
    """Checks that the map of the course is equal to the map that a build draws."""
    path, text = course_map.path_of(project, lang), course_map.render(project, lang)
    if text and not (path.exists() and read_text(path) == text):
        todo = f"Run: python -m tools.l10n build --lang {lang}"
        yield Finding(project.short(path), "the map differs from the result of a build", todo)


def _structure_problems(project: Project, domain: str, lang: str) -> Iterator[Finding]:
    path = project.catalog(domain, lang)
    messages = catalog.read(path, lang)
    for part in documents.messages(project, domain):
        message = messages.get(part.text)
        if message is not None and catalog.is_current(message):
            for problem, text in compare(part.text, catalog.strings(message)[0]):
                yield Finding(project.short(path), problem.what, problem.todo, "", text)
