"""Builds a language's notebook from the English one and a catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.l10n import (
    badges,
    catalog,
    citation,
    glossary_links,
    install,
    lesson_header,
    markdown,
    synonyms,
)
from tools.l10n.catalog import LessonCatalog
from tools.lessons import exercises, notebook
from tools.lessons.notebook import Json
from tools.lessons.project import (
    DOCUMENTS,
    HELPERS,
    ROOT_DOCUMENTS,
    SOURCE,
    Project,
    ToolError,
    read_text,
)

LESSON_LINK = re.compile(
    r"""((?:https?://|\]\(<?|\b(?:href|src)=["'])[^\s)"'<>]*/notebooks/)en(?=/)"""
)
# To a page of docs, or to a document in the root, which has its translations in docs.
PAGE_LINK = re.compile(
    rf"(\]\((?:\.\./)+)(?:{DOCUMENTS}/(?=\w+\.md)|(?=(?:{'|'.join(ROOT_DOCUMENTS)})\.md))"
)


@dataclass
class Built:
    """A notebook in one language, not yet written.

    Attributes:
      text: the notebook file.
      messages: the number of its messages.
      untranslated: the messages that remain English: cell id, reason, English text.
      outputs: ``kept``, ``stale`` if standalone cells are new, ``cleared`` if the code changed, or
        ``none`` if there were no outputs.
    """

    text: str
    messages: int = 0
    untranslated: list[tuple[str, str, str]] = field(default_factory=list)
    outputs: str = "kept"


def build(project: Project, domain: str, lang: str, messages: LessonCatalog | None = None) -> Built:
    """Builds one notebook in memory.

    Its code cells and cell ids are equal to the English ones. Exceptions are the language in the
    cell tagged ``l10n-lang``, and the cell tagged ``install``, which is folded. Outputs are copied
    from the existing file if its code is the same. English is built in place. Only cells that the
    builder writes can change, and metadata that depends on them.
    """
    text = exercises.source_text(project, domain)
    result = notebook.parse(text, str(project.notebook(domain)))
    before = notebook.dumps(result)
    built = Built(text)
    if lang != SOURCE:
        path = project.catalog(domain, lang)
        _translate(result, lang, messages or catalog.read(path, lang), built)
        if domain == glossary_links.GLOSSARY:
            _add_synonyms(project, lang, notebook.parse(text, domain), result)
        notebook.strip_volatile(result)
        built.outputs = _take_outputs(project, domain, lang, result)
    _write_cells(project, domain, lang, result)
    after = notebook.dumps(result)
    if lang != SOURCE or after != before:
        built.text = after
    return built


def solution(project: Project, domain: str, lang: str) -> str:
    """The text of an assignment's solution, translated with the catalog of the assignment.

    Raises:
      ToolError: `domain` is not an assignment.
    """
    path = project.solution(domain)
    if path is None:
        raise ToolError(f"{domain} is not an assignment. Choose one of {project.assignments}.")
    result = notebook.read(path)
    if lang != SOURCE:
        messages = catalog.read(project.catalog(domain, lang), lang)
        _translate(result, lang, messages, Built(""))
    _write_metadata(result)
    _write_install(project, result, labels(project, lang))
    return notebook.dumps(result)


def page(project: Project, text: str, lang: str) -> str:
    """A Markdown page with the course's badges, if any, below its title."""
    return badges.on_page(text, project, lang, labels(project, lang))


def pages(project: Project) -> dict[Path, str]:
    """The files other than notebooks that contain the course's address, with their new text."""
    found = {}
    readme, cited = project.root / "README.md", project.root / "CITATION.cff"
    if readme.exists():
        found[readme] = page(project, read_text(readme), SOURCE)
    if cited.exists():
        found[cited] = citation.written(read_text(cited), project)
    return found


def in_language(code: str, lang: str) -> str:
    """A code cell with ``lang="en"`` or ``set_language("en")`` changed to another language."""
    return notebook.NAMED_LANGUAGE.sub(rf"\g<1>\g<2>{lang}\g<2>", code)


def compiled_helpers(project: Project, lang: str) -> bytes | None:
    """The compiled messages of helpers for the installed package, or None without a catalog."""
    path = project.catalog(HELPERS, lang)
    return catalog.compiled(catalog.read(path, lang)) if path.exists() else None


def _translate(result: Json, lang: str, messages: LessonCatalog, built: Built) -> None:
    for cell in notebook.prose(result):
        source = markdown.translate(notebook.source(cell), _lookup(messages, cell["id"], built))
        source = PAGE_LINK.sub(
            rf"\g<1>{DOCUMENTS}/{lang}/", LESSON_LINK.sub(rf"\g<1>{lang}", source)
        )
        notebook.set_source(cell, source)
    for cell in notebook.cells(result, "code"):
        if notebook.LANGUAGE_TAG in notebook.tags(cell):
            notebook.set_source(cell, in_language(notebook.source(cell), lang))


def _add_synonyms(project: Project, lang: str, english: Json, result: Json) -> None:
    """Adds the terms of other translations to a translated glossary."""
    words, label = synonyms.of_language(project, lang), labels(project, lang)
    for source, cell in zip(notebook.prose(english), notebook.prose(result), strict=True):
        terms = glossary_links.ROW.findall(notebook.source(source))
        text = synonyms.add_to_glossary(notebook.source(cell), terms, words, lang, label)
        notebook.set_source(cell, text)


def _lookup(messages: LessonCatalog, cell: str, built: Built) -> Callable[[str], str | None]:
    def lookup(text: str) -> str | None:
        built.messages += 1
        message = messages.get(text)
        if message is not None and catalog.is_current(message):
            return catalog.strings(message)[0]
        built.untranslated.append((cell, catalog.untranslated_reason(message), text))
        return None

    return lookup


def _take_outputs(project: Project, domain: str, lang: str, result: Json) -> str:
    path = project.notebook(domain, lang)
    notebook.clear_outputs(result)
    if not path.exists():
        return "none"
    old = notebook.read(path)
    own = {cell["id"] for cell in result["cells"] if notebook.INSTALL_TAG in notebook.tags(cell)}
    if [cell for cell in notebook.code(old) if cell[0] not in own] != notebook.code(result):
        return "cleared"
    notebook.copy_outputs(old, result)
    alone = notebook.standalone(result) + notebook.fresh(result)
    if alone:
        notebook.number(result)
    return "kept" if all(map(notebook.executed, alone)) else "stale"


def _write_cells(project: Project, domain: str, lang: str, result: Json) -> None:
    """Fills the generated cells: badges, head, foot, install."""
    badges.place(project, result)
    _write_metadata(result)
    written = [cell for cell in result["cells"] if notebook.WRITTEN & {*notebook.tags(cell)}]
    if not written:
        return
    label = labels(project, lang)
    _write_install(project, result, label)
    framed = domain in lesson_header.notebooks(project)

    def link(other: str) -> str:
        return f"[{title(project, other, lang)}]({other}.ipynb)"

    for cell in (cell for cell in written if cell["cell_type"] == "markdown"):
        tags = notebook.tags(cell)
        if notebook.BADGES_TAG in tags:
            notebook.set_source(cell, badges.markdown(project, domain, lang, label))
        if notebook.HEAD_TAG in tags and framed:
            new = _new_words(project, domain, lang)
            notebook.set_source(cell, lesson_header.header(project, domain, lang, label, link, new))
        if notebook.FOOT_TAG in tags and framed:
            notebook.set_source(cell, lesson_header.footer(project, domain, label, link))


def _write_metadata(result: Json) -> None:
    """Folds the install cell and the assertions, and makes nbval ignore the printed versions."""
    for cell in notebook.cells(result, "code"):
        if notebook.INSTALL_TAG in notebook.tags(cell) or notebook.is_folded(cell):
            notebook.fold(cell)
        names = notebook.LANGUAGE_TAG in notebook.tags(cell)
        if names and notebook.PRINTS_VERSIONS.search(notebook.source(cell)):
            notebook.add_tag(cell, notebook.IGNORED_TAG)


def _write_install(project: Project, result: Json, label: Callable[[str], str]) -> None:
    for cell in notebook.cells(result, "code"):
        if notebook.INSTALL_TAG in notebook.tags(cell):
            notebook.set_source(cell, install.cell(project, label))


def _new_words(project: Project, domain: str, lang: str) -> list[str]:
    """Links to the terms that a lesson uses first, if it is no appendix and there is a glossary."""
    if glossary_links.GLOSSARY not in project.notebooks:
        return []
    if domain not in lesson_header.course(project):
        return []
    lessons = [*lesson_header.earlier(project, domain), domain]
    page = exercises.source_text(project, glossary_links.GLOSSARY)
    uses = glossary_links.first_uses(
        page, tuple(exercises.source_text(project, each) for each in lessons)
    )
    translated = notebook.parse(page, glossary_links.GLOSSARY)
    if lang != SOURCE:
        messages = catalog.read(project.catalog(glossary_links.GLOSSARY, lang), lang)
        _translate(translated, lang, messages, Built(""))
    entries = glossary_links.entries(translated)
    return glossary_links.links((entries[number] for number in uses[-1]), lang)


def labels(project: Project, lang: str) -> Callable[[str], str]:
    """A function that translates a message of helpers or of a generated cell."""
    messages = catalog.from_messages([], SOURCE)
    if lang != SOURCE:
        messages = catalog.read(project.catalog(HELPERS, lang), lang)
    return lambda text: _translated(messages, text)


def title(project: Project, domain: str, lang: str) -> str:
    """The heading of a notebook in a language."""
    first = next(notebook.prose(notebook.parse(exercises.source_text(project, domain), domain)))
    heading = notebook.source(first).splitlines()[0].lstrip("# ")
    if lang == SOURCE:
        return heading
    return _translated(catalog.read(project.catalog(domain, lang), lang), heading)


def _translated(messages: LessonCatalog, text: str) -> str:
    message = messages.get(text)
    if message is not None and catalog.is_current(message):
        return catalog.strings(message)[0]
    return text
