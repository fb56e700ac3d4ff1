"""All checks of `python -m tools.l10n check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tools.l10n import catalog_checks, extract
from tools.l10n.document_checks import document_problems, map_problems
from tools.l10n.lesson_checks import lesson_problems, page_problems
from tools.l10n.report import Finding
from tools.lessons.project import SOURCE, Project


def check(project: Project, langs: Iterable[str]) -> Iterator[Finding]:
    """The findings in these languages. For English, they are findings in its notebooks."""
    templates = {domain: extract.template(project, domain) for domain in extract.domains(project)}
    for lang in langs:
        for domain in project.notebooks:
            yield from lesson_problems(project, domain, lang)
        for domain in project.documents:
            yield from document_problems(project, domain, lang)
        yield from map_problems(project, lang)
        if lang == SOURCE:
            yield from page_problems(project)
            continue
        for domain, template in templates.items():
            if len(template) or project.catalog(domain, lang).exists():
                yield from catalog_checks.file_problems(project, domain, lang, template)
                yield from catalog_checks.message_problems(project, domain, lang)
        yield from catalog_checks.orphaned_files(project, lang)
        yield from catalog_checks.compiled_problems(project, lang)
