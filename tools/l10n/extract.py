"""The messages of a domain, extracted from its English source in order."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Message
from babel.messages.extract import extract

from helpers.course.quiz.question import read_questions
from tools.l10n import catalog, documents, markdown
from tools.lessons import exercises, notebook
from tools.lessons.project import HELPERS, Project

KEYWORDS = {"_": None, "gettext_noop": None, "ngettext": (1, 2)}
IN_CELLS = {"print_tr": None, "tr": None}  # of helpers.course.messages
COMMENT = "i18n:"  # the start of a comment for translators


class Found(NamedTuple):
    """A message of the code: its text or plural texts, its file, and notes for translators."""

    text: str | tuple[str, ...]
    file: str
    notes: list[str]


def template(project: Project, domain: str) -> catalog.LessonCatalog:
    """A domain's messages without translations."""
    if domain == HELPERS:
        return catalog.from_messages(_helpers(project), None)
    prose = _document if domain in project.documents else _lesson
    return catalog.from_messages(prose(project, domain), None)


def domains(project: Project) -> list[str]:
    """The domains of all notebooks and documents, and of the messages of helpers and cells."""
    return [*project.notebooks, *project.documents, HELPERS]


def _lesson(project: Project, domain: str) -> list[Message]:
    english = notebook.parse(exercises.source_text(project, domain), domain)
    notes = (
        (part.text, f"{part.kind}, cell {cell['id']}")
        for cell in notebook.prose(english)
        for part in markdown.split(notebook.source(cell))
    )
    return _prose(project.short(project.notebook(domain)), notes)


def _document(project: Project, domain: str) -> list[Message]:
    notes = ((part.text, part.kind) for part in documents.messages(project, domain))
    return _prose(project.short(project.document(domain)), notes)


def _prose(file: str, notes: Iterable[tuple[str, str]]) -> list[Message]:
    """The messages of a file, from its texts and the notes for translators."""
    found: dict[str, Message] = {}
    for text, note in notes:
        message = found.setdefault(text, Message(text))
        catalog.drop_format_flags(message)
        message.locations = [(file, 0)]
        _note(message, note)
    return list(found.values())


def _helpers(project: Project) -> list[Message]:
    messages: dict[str, Message] = {}
    for found in [*_in_code(project), *_in_cells(project)]:
        name = found.text if isinstance(found.text, str) else found.text[0]
        message = messages.setdefault(name, Message(found.text))
        message.locations.append((found.file, 0))
        for note in found.notes:
            _note(message, note)
    return list(messages.values())


def _in_code(project: Project) -> Iterator[Found]:
    written = ("badges.py", "lesson_header.py", "install.py", "lesson_links.py", "synonyms.py")
    own = [project.root / "tools" / "l10n" / name for name in written]
    own.append(project.root / "tools" / "site" / "strings.py")
    helpers = project.root / "helpers"
    questions = sorted((helpers / "course" / "quiz").glob("*.toml"))
    for path in questions:
        for question in read_questions(path):
            yield from (Found(text, project.short(path), []) for text in question.texts())
    for path in [*sorted(helpers.rglob("*.py")), *filter(Path.exists, own)]:
        code = io.BytesIO(path.read_bytes())
        for _, text, comments, _ in extract("python", code, KEYWORDS, (COMMENT,)):
            notes = [comment.removeprefix(COMMENT).strip() for comment in comments]
            yield Found(text, project.short(path), notes)


def _in_cells(project: Project) -> Iterator[Found]:
    for domain in project.notebooks:
        path = project.notebook(domain)
        english = notebook.parse(exercises.source_text(project, domain), domain)
        for cell in notebook.cells(english, "code"):
            code = io.BytesIO(notebook.source(cell).encode())
            for _, text, _, _ in extract("python", code, IN_CELLS):
                yield Found(text, project.short(path), [f"printed, cell {cell['id']}"])


def _note(message: Message, comment: str) -> None:
    if comment not in message.auto_comments:
        message.auto_comments.append(comment)
