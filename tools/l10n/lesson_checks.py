"""Checks that notebooks are up to date and executed, with the English structure and valid links."""

from __future__ import annotations

import gettext
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tools.l10n import build, printed, structure
from tools.l10n.report import Finding
from tools.l10n.text_checks import Problem
from tools.lessons import claims, execute, exercises, notebook
from tools.lessons.notebook import Json
from tools.lessons.project import SOURCE, Project, read_text


def lesson_problems(project: Project, domain: str, lang: str) -> Iterator[Finding]:
    """The findings about one notebook in one language."""
    english = notebook.parse(exercises.source_text(project, domain), domain)
    built = build.build(project, domain, lang)
    result = notebook.parse(built.text, domain)
    yield from freshness_problems(project, domain, lang, built)
    if lang == SOURCE:
        yield from _language_problems(project, domain, english)
        yield from _solution_problems(project, domain)
    else:
        yield from _structure_problems(project, domain, lang, english, result)
    if not built.untranslated:  # a link cannot point to an untranslated heading
        yield from _link_problems(project, domain, lang, result)


def freshness_problems(
    project: Project, domain: str, lang: str, built: build.Built
) -> Iterator[Finding]:
    """Checks that the file is the result of a build, and executed if the English one is."""
    path = project.notebook(domain, lang)
    command = f"Run: python -m tools.l10n build --lang {lang} --only {domain}"
    if not path.exists() or path.read_text("utf-8") != built.text:
        what = "differs from the result of a build" if path.exists() else "has not been built"
        yield Finding(project.short(path), f"the notebook {what}", command)
    elif execute.is_executable(domain) and (lang == SOURCE or lang in project.released):
        stored = notebook.parse(built.text, domain)
        for cell in notebook.cells(stored, "code"):
            if notebook.source(cell).strip() and not notebook.executed(cell):
                what = "the cell has not been executed"
                place = f"cell {cell['id']}"
                yield Finding(project.short(path), what, f"{command} --execute", place)
                return
        for cell_id, claim in claims.broken(built.text, str(path)):
            what = f"the stored output contradicts the claim {claim!r} of the text"
            yield Finding(project.short(path), what, f"{command} --execute", f"cell {cell_id}")
        for cell_id, message in printed.outdated(stored, _translations(project, lang)):
            what = "the stored output lacks the message, or has an older translation of it"
            place = f"cell {cell_id}"
            yield Finding(project.short(path), what, f"{command} --execute", place, message)


def _translations(project: Project, lang: str) -> Callable[[str], str]:
    """How the compiled catalogue translates a message that a cell prints."""
    path = project.compiled_helpers(lang)
    if not path.exists():
        return gettext.NullTranslations().gettext
    with path.open("rb") as file:
        return gettext.GNUTranslations(file).gettext


def page_problems(project: Project) -> Iterator[Finding]:
    """Checks that other files with the course's address have the right one."""
    for path, text in build.pages(project).items():
        if read_text(path) != text:
            what = "its address or version differs from pyproject.toml"
            todo = f"Run: python -m tools.l10n build --lang {SOURCE}"
            yield Finding(project.short(path), what, todo)


def _solution_problems(project: Project, domain: str) -> Iterator[Finding]:
    path = project.solution(domain)
    if path and path.exists() and read_text(path) != build.solution(project, domain, SOURCE):
        todo = f"Run: python -m tools.l10n build --lang {SOURCE} --only {domain}"
        yield Finding(
            project.short(path), "its install cell differs from the result of a build", todo
        )


def compare(english: str, text: str) -> Iterator[tuple[Problem, str]]:
    """The differences in structure of a translated cell, each with its English text."""
    wanted_blocks, found_blocks = structure.blocks(english), structure.blocks(text)
    if wanted_blocks != found_blocks:
        yield _block_problem(wanted_blocks, found_blocks), ""
        return
    pairs = zip(structure.inlines(english), structure.inlines(text), strict=True)
    for (source, wanted), (_, found) in pairs:
        for (kind, detail), count in sorted((wanted - found).items()):
            name = f"{count} × {kind} {detail}".strip()
            yield Problem(f"{name} is missing or does not render", _advice(kind)), source
        for (kind, detail), count in sorted((found - wanted).items()):
            name = f"{count} × {kind} {detail}".strip()
            yield Problem(f"{name} is not in the English text", _advice(kind)), source


def _block_problem(wanted: list[structure.Block], found: list[structure.Block]) -> Problem:
    pairs = zip([*wanted, ("nothing", 0)], [*found, ("nothing", 0)], strict=False)
    want, have = next((w, f) for w, f in pairs if w != f)
    return Problem(
        f"the cell has other blocks than in English: {have[0]} where English has {want[0]}",
        "Begin no line with a mark of a heading, list, quote or table, and keep HTML tags.",
    )


def _advice(kind: str) -> str:
    if kind in ("bold", "italics"):
        return (
            "If the marks are there, keep punctuation outside of them, or put a space between "
            "the closing mark and the next letter."
        )
    return "Keep it exactly as in English."


def _structure_problems(
    project: Project, domain: str, lang: str, english: Json, result: Json
) -> Iterator[Finding]:
    name = project.short(project.catalog(domain, lang))
    for cell, translated in zip(notebook.prose(english), notebook.prose(result), strict=True):
        for problem, text in compare(notebook.source(cell), notebook.source(translated)):
            yield Finding(name, problem.what, problem.todo, f"cell {cell['id']}", text)


def _link_problems(project: Project, domain: str, lang: str, result: Json) -> Iterator[Finding]:
    path = project.notebook(domain, lang)
    name = project.short(path if lang == SOURCE else project.catalog(domain, lang))
    for cell in notebook.cells(result, "markdown"):
        for link in structure.links(notebook.source(cell)):
            what = _dead_end(project, lang, path, result, link)
            if what:
                todo = (
                    "Copy the heading with - for each space." if "heading" in what else "Mend it."
                )
                yield Finding(
                    name, f"the link {link} leads nowhere: {what}", todo, f"cell {cell['id']}"
                )


def _dead_end(project: Project, lang: str, path: Path, result: Json, link: str) -> str:
    """The reason why a link within the repository is broken, or "" if it is not."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or link.startswith(("/", "attachment:")):
        return ""
    target = path
    if parts.path:
        target = path.parent / parts.path
        if not _exists(project, target):
            return f"there is no {parts.path}"
    if not parts.fragment or target.suffix != ".ipynb":
        return ""
    domain = _domain(project, lang, target)
    if target != path and domain is None:
        return ""
    page = result if domain is None or target == path else _built(project, domain, lang)
    known = {
        a for c in notebook.cells(page, "markdown") for a in structure.anchors(notebook.source(c))
    }
    return "" if parts.fragment in known else f"{target.name} has no heading #{parts.fragment}"


def _exists(project: Project, target: Path) -> bool:
    return target.exists() or target.resolve() in {
        project.notebook(domain, lang).resolve()
        for lang in project.languages
        for domain in project.notebooks
    }


def _domain(project: Project, lang: str, target: Path) -> str | None:
    for domain in project.notebooks:
        if project.notebook(domain, lang).resolve() == target.resolve():
            return domain
    return None


def _built(project: Project, domain: str, lang: str) -> Json:
    return notebook.parse(build.build(project, domain, lang).text, domain)


def _language_problems(project: Project, domain: str, english: Json) -> Iterator[Finding]:
    """Checks that only the cell that sets the language has its tag."""
    name = project.short(project.notebook(domain))
    for cell in notebook.cells(english, "code"):
        tagged = notebook.LANGUAGE_TAG in notebook.tags(cell)
        named = notebook.NAMED_LANGUAGE.search(notebook.source(cell))
        if tagged and not (named and named[3] == SOURCE):
            what = f"the cell is tagged {notebook.LANGUAGE_TAG} and names no language"
            yield Finding(
                name, what, 'Write lang="en" in it, or remove the tag.', f"cell {cell['id']}"
            )
