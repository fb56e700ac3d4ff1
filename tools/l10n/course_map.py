"""The map of the course in each language, for its README: which lesson needs which."""

from __future__ import annotations

from pathlib import Path

from helpers.course.figures import lesson_map
from helpers.i18n import language, set_language
from tools.l10n import lesson_header
from tools.l10n.build import title
from tools.lessons.project import DOCUMENTS, SOURCE, Project

NAME = "lesson_map.svg"


def path_of(project: Project, lang: str) -> Path:
    """Where the map of a language is."""
    return project.root / DOCUMENTS / ("" if lang == SOURCE else lang) / NAME


def render(project: Project, lang: str) -> str:
    """The map as a file; empty where there is no course."""
    lessons = lesson_header.course(project)
    if not lessons:
        return ""
    titles = {domain: title(project, domain, lang) for domain in lessons}
    before = language()
    set_language(lang)
    try:
        needs = {titles[one]: [titles[other] for other in lessons[one].needs] for one in lessons}
        return lesson_map(needs).standalone_svg()
    finally:
        set_language(before)
