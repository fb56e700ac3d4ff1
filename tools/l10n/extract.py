"""The messages of a domain, taken from its English source, in its order."""

from __future__ import annotations

from babel.messages.catalog import Message
from babel.messages.extract import extract_from_file

from tools.l10n import catalogue, markdown
from tools.lessons import exercises, notebook
from tools.lessons.project import HELPERS, Project

KEYWORDS = {"_": None, "gettext_noop": None, "ngettext": (1, 2)}
COMMENT = "i18n:"  # a comment in the code that is meant for the translator


def template(project: Project, domain: str) -> catalogue.LessonCatalogue:
    """A domain's messages without translations."""
    messages = _helpers(project) if domain == HELPERS else _lesson(project, domain)
    return catalogue.of(messages, None)


def domains(project: Project) -> list[str]:
    """Every notebook, and the messages of helpers."""
    return [*project.notebooks, HELPERS]


def _lesson(project: Project, domain: str) -> list[Message]:
    path = project.notebook(domain)
    found: dict[str, Message] = {}
    for cell in notebook.prose(notebook.parse(exercises.english(project, domain), domain)):
        for part in markdown.split(notebook.source(cell)):
            message = found.setdefault(part.text, Message(part.text))
            catalogue.drop_format_flags(message)
            message.locations = [(project.short(path), 0)]
            _note(message, f"{part.kind}, cell {cell['id']}")
    return list(found.values())


def _helpers(project: Project) -> list[Message]:
    badges = project.root / "tools" / "l10n" / "badges.py"
    files = [*sorted((project.root / "helpers").rglob("*.py")), *([badges] * badges.exists())]
    found: dict[str, Message] = {}
    for path in files:
        for _, text, comments, _ in extract_from_file("python", path, KEYWORDS, (COMMENT,)):
            name = text if isinstance(text, str) else text[0]
            message = found.setdefault(name, Message(text))
            message.locations.append((project.short(path), 0))
            for comment in comments:
                _note(message, comment.removeprefix(COMMENT).strip())
    return list(found.values())


def _note(message: Message, comment: str) -> None:
    if comment not in message.auto_comments:
        message.auto_comments.append(comment)
