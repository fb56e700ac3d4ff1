"""Checks of the catalogs: their files, missing translations, and each translation."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from gettext import c2py

from babel.messages.catalog import Message

from tools.l10n import build, catalog, glossary, update
from tools.l10n.catalog import LessonCatalog
from tools.l10n.numbers import check_numbers
from tools.l10n.punctuation import check_pairs, check_punctuation
from tools.l10n.report import Finding
from tools.l10n.text_checks import (
    Check,
    Problem,
    check_addresses,
    check_placeholders,
    check_toolkit,
)
from tools.lessons.project import DOCUMENTS, HELPERS, Project, ToolError

TEXT_CHECKS: tuple[Check, ...] = (
    check_placeholders,
    check_numbers,
    check_addresses,
    check_punctuation,
    check_pairs,
    check_toolkit,
)


def file_problems(
    project: Project, domain: str, lang: str, template: LessonCatalog
) -> Iterator[Finding]:
    """Checks that the file exists, is well formed, and is up to date with its English source."""
    path = project.catalog(domain, lang)
    name = project.short(path)
    todo = f"Run: python -m tools.l10n update --lang {lang}"
    if not path.exists():
        yield Finding(name, "the catalog does not exist", todo)
        return
    for line in msgfmt(project, domain, lang):
        yield Finding(name, f"msgfmt --check: {line}", "Mend that entry.")
    if path.read_text("utf-8") != update.update_text(project, domain, lang, template):
        yield Finding(name, "the catalog is not up to date with the English text", todo)


def msgfmt(project: Project, domain: str, lang: str) -> list[str]:
    """The findings of gettext's own check.

    Raises:
      ToolError: gettext is not installed.
    """
    program = shutil.which("msgfmt")
    if program is None:
        raise ToolError(
            "msgfmt is not installed, so the catalogs' form cannot be checked. Install gettext: "
            "`apt-get install gettext`, `brew install gettext` or `conda install gettext`."
        )
    name = project.short(project.catalog(domain, lang))
    done = subprocess.run(
        [program, "--check", "--output-file=/dev/null", name],
        cwd=project.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return []
    return [line.removeprefix(f"{name}:") for line in done.stderr.splitlines() if line.strip()]


def message_problems(project: Project, domain: str, lang: str) -> Iterator[Finding]:
    """Missing translations of a released language, and errors in existing translations."""
    path = project.catalog(domain, lang)
    messages = catalog.read(path, lang)
    checks = [*TEXT_CHECKS, glossary.check_terms(_terms(project, lang))]
    for message in messages:
        if not message.id:
            continue
        if lang in project.released and not catalog.is_current(message):
            yield _finding(project, path_of(project, domain, lang), message, _missing(message))
        elif catalog.is_current(message):
            for problem in text_problems(lang, message, messages, checks):
                yield _finding(project, path_of(project, domain, lang), message, problem)


def text_problems(
    lang: str, message: Message, messages: LessonCatalog, checks: list[Check]
) -> list[Problem]:
    """The findings of these checks in a message, in any of its plural forms."""
    pairs = _pairs(message, messages)
    return [problem for check in checks for pair in pairs for problem in check(lang, *pair)]


def orphaned_files(project: Project, lang: str) -> Iterator[Finding]:
    """Catalogs and notebooks whose English notebook was removed."""
    known, pages = set(project.notebooks), project.documents
    todo = "Delete it, or rename it as the English notebook was renamed."
    for path in project.catalogs_in(lang):
        if path not in {project.catalog(domain, lang) for domain in [*known, *pages, HELPERS]}:
            yield Finding(project.short(path), "no English notebook or page has its name", todo)
    for path in (project.root / DOCUMENTS / lang).glob("*.md"):
        if f"{DOCUMENTS}/{path.stem}" not in pages:
            yield Finding(project.short(path), "no English page has this name", todo)
    for domain in project.notebooks_in(lang):
        if domain not in known:
            name = project.short(project.notebook(domain, lang))
            yield Finding(name, "no English notebook has this name", todo)


def compiled_problems(project: Project, lang: str) -> Iterator[Finding]:
    """Checks that helpers reads the messages in the catalog."""
    data = build.compiled_helpers(project, lang)
    path = project.compiled_helpers(lang)
    if data is not None and not (path.exists() and path.read_bytes() == data):
        todo = f"Run: python -m tools.l10n build --lang {lang}"
        yield Finding(project.short(path), "it differs from the compiled helpers.po", todo)


def path_of(project: Project, domain: str, lang: str) -> str:
    """A catalog's name for a finding."""
    return project.short(project.catalog(domain, lang))


def _terms(project: Project, lang: str) -> list[glossary.Term]:
    path = project.root / "locales" / "glossary.csv"
    return glossary.load(path, lang) if path.exists() else []


def _missing(message: Message) -> Problem:
    if message.fuzzy:
        return Problem(
            "the English text has changed since it was translated (fuzzy)",
            "Fix the translation and remove the word fuzzy.",
        )
    return Problem("it is not translated", "Translate it.")


def _pairs(message: Message, messages: LessonCatalog) -> list[tuple[str, str]]:
    """Each plural form with its English text: the singular only for the form of exactly 1."""
    if isinstance(message.id, str):
        return [(message.id, catalog.strings(message)[0])]
    singular, plural = message.id
    form_of = c2py(messages.plural_expr)
    numbers_of: dict[int, list[int]] = {}
    for number in range(200):
        numbers_of.setdefault(int(form_of(number)), []).append(number)
    return [
        (singular if numbers_of.get(form) == [1] else plural, text)
        for form, text in enumerate(catalog.strings(message))
    ]


def _finding(project: Project, name: str, message: Message, problem: Problem) -> Finding:
    place = "; ".join(message.auto_comments) or " ".join(file for file, _ in message.locations)
    return Finding(
        name, problem.what, problem.todo, place, catalog.msgid(message), problem.advisory
    )
