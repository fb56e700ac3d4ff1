"""Builds a language's notebook from the English one and a catalogue."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.l10n import badges, catalogue, frame, markdown, words
from tools.l10n.catalogue import LessonCatalogue
from tools.lessons import exercises, notebook
from tools.lessons.notebook import Json
from tools.lessons.project import HELPERS, SOURCE, LocalisationError, Project

LESSON_LINK = re.compile(
    r"""((?:https?://|\]\(<?|\b(?:href|src)=["'])[^\s)"'<>]*/notebooks/)en(?=/)"""
)


@dataclass
class Built:
    """A notebook in one language, not yet written.

    Attributes:
      text: the notebook file.
      messages: how many messages it has.
      kept: those that stay English: cell id, why, English text.
      outputs: ``kept``, ``stale`` where cells that need no other are new, ``cleared`` because
        the code changed, or ``none`` to keep.
    """

    text: str
    messages: int = 0
    kept: list[tuple[str, str, str]] = field(default_factory=list)
    outputs: str = "kept"


def build(
    project: Project, domain: str, lang: str, messages: LessonCatalogue | None = None
) -> Built:
    """Builds one notebook in memory.

    Its code cells and cell ids are those of the English notebook, save the language named
    in the cell tagged ``l10n-lang``. Outputs come from the file that is there, if its code
    is the same. English is built in place: only cells that the builder writes can change.
    """
    text = exercises.english(project, domain)
    result = notebook.parse(text, str(project.notebook(domain)))
    before = notebook.dumps(result)
    built = Built(text)
    if lang != SOURCE:
        path = project.catalogue(domain, lang)
        _translate(result, lang, messages or catalogue.read(path, lang), built)
        notebook.strip_volatile(result)
        built.outputs = _take_outputs(project, domain, lang, result)
    _write_cells(project, domain, lang, result)
    after = notebook.dumps(result)
    if lang != SOURCE or after != before:
        built.text = after
    return built


def solution(project: Project, domain: str, lang: str) -> str:
    """The text of an exercise's solution, translated by the catalogue of the exercise."""
    path = project.solution(domain)
    if path is None:
        raise LocalisationError(f"{domain} is no exercise. Choose one of {project.exercises}.")
    result = notebook.read(path)
    if lang != SOURCE:
        messages = catalogue.read(project.catalogue(domain, lang), lang)
        _translate(result, lang, messages, Built(""))
    return notebook.dumps(result)


def in_language(code: str, lang: str) -> str:
    """A code cell with ``lang="en"``, or ``set_language("en")``, naming another language."""
    return notebook.NAMED_LANGUAGE.sub(rf"\g<1>\g<2>{lang}\g<2>", code)


def compiled_helpers(project: Project, lang: str) -> bytes | None:
    """The messages of helpers for the installed package; None where there is no catalogue."""
    path = project.catalogue(HELPERS, lang)
    return catalogue.compiled(catalogue.read(path, lang)) if path.exists() else None


def _translate(result: Json, lang: str, messages: LessonCatalogue, built: Built) -> None:
    for cell in notebook.prose(result):
        source = markdown.translate(notebook.source(cell), _lookup(messages, cell["id"], built))
        notebook.set_source(cell, LESSON_LINK.sub(rf"\g<1>{lang}", source))
    for cell in notebook.cells(result, "code"):
        if notebook.LANGUAGE_TAG in notebook.tags(cell):
            notebook.set_source(cell, in_language(notebook.source(cell), lang))


def _lookup(messages: LessonCatalogue, cell: str, built: Built) -> Callable[[str], str | None]:
    def look(text: str) -> str | None:
        built.messages += 1
        message = messages.get(text)
        if message is not None and catalogue.usable(message):
            return catalogue.strings(message)[0]
        why = "changed in English" if message is not None and message.fuzzy else "not translated"
        built.kept.append((cell, why, text))
        return None

    return look


def _take_outputs(project: Project, domain: str, lang: str, result: Json) -> str:
    path = project.notebook(domain, lang)
    notebook.clear_outputs(result)
    if not path.exists():
        return "none"
    old = notebook.read(path)
    if notebook.code(old) != notebook.code(result):
        return "cleared"
    notebook.copy_outputs(old, result)
    alone = notebook.standalone(result) + notebook.fresh(result)
    if alone:
        notebook.number(result)
    return "kept" if all(map(notebook.executed, alone)) else "stale"


def _write_cells(project: Project, domain: str, lang: str, result: Json) -> None:
    """Fills the cells that are not translated but written: badges, head and foot."""
    written = [
        cell
        for cell in notebook.cells(result, "markdown")
        if notebook.WRITTEN & {*notebook.tags(cell)}
    ]
    if not written:
        return
    label = _labels(project, lang)
    framed = domain in frame.course(project)

    def link(other: str) -> str:
        title = _title(project, other, lang)
        return f"[{title}]({other}.ipynb)"

    for cell in written:
        tags = notebook.tags(cell)
        if notebook.BADGES_TAG in tags and project.repository:
            notebook.set_source(cell, badges.markdown(project, domain, lang, label))
        if notebook.HEAD_TAG in tags and framed:
            new = _new_words(project, domain, lang)
            notebook.set_source(cell, frame.head(project, domain, lang, label, link, new))
        if notebook.FOOT_TAG in tags and framed:
            notebook.set_source(cell, frame.foot(project, domain, label, link))


def _new_words(project: Project, domain: str, lang: str) -> list[str]:
    """Links to the definitions of the words that a lesson uses first; none without a glossary."""
    if words.GLOSSARY not in project.notebooks:
        return []
    lessons = list(frame.course(project))
    page = exercises.english(project, words.GLOSSARY)
    uses = words.first_uses(page, tuple(exercises.english(project, each) for each in lessons))
    translated = notebook.parse(page, words.GLOSSARY)
    if lang != SOURCE:
        messages = catalogue.read(project.catalogue(words.GLOSSARY, lang), lang)
        _translate(translated, lang, messages, Built(""))
    entries = words.entries(translated)
    return words.links((entries[number] for number in uses[lessons.index(domain)]), lang)


def _labels(project: Project, lang: str) -> Callable[[str], str]:
    labels = catalogue.of([], SOURCE)
    if lang != SOURCE:
        labels = catalogue.read(project.catalogue(HELPERS, lang), lang)
    return lambda text: _translated(labels, text)


def _title(project: Project, domain: str, lang: str) -> str:
    """The heading of a notebook, in a language."""
    first = next(notebook.prose(notebook.parse(exercises.english(project, domain), domain)))
    heading = notebook.source(first).splitlines()[0].lstrip("# ")
    if lang == SOURCE:
        return heading
    return _translated(catalogue.read(project.catalogue(domain, lang), lang), heading)


def _translated(messages: LessonCatalogue, text: str) -> str:
    message = messages.get(text)
    if message is not None and catalogue.usable(message):
        return catalogue.strings(message)[0]
    return text
