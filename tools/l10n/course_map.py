"""The map of the course in each language, for its README: the paths through the lessons."""

from __future__ import annotations

from pathlib import Path

from helpers.course.charts.svg import Drawing
from helpers.course.figures import lesson_map
from helpers.i18n import use_language
from tools.l10n import lesson_header
from tools.l10n.build import title
from tools.lessons.project import DOCUMENTS, SOURCE, Project

NAME = "lesson_map.svg"


def path_of(project: Project, lang: str) -> Path:
    """The path of a language's map."""
    return project.root / DOCUMENTS / ("" if lang == SOURCE else lang) / NAME


def render(project: Project, lang: str) -> str:
    """The map as the text of a file, or "" without a course."""
    return draw(project, lang).standalone_svg() if lesson_header.course(project) else ""


def draw(project: Project, lang: str) -> Drawing:
    """The map, with the lessons of each path in reading order and the lessons on no path."""
    paths = lesson_header.paths(project)
    then = {path.name: path.then for path in paths if path.then}
    optional = lesson_header.off_paths(project)
    with use_language(lang):
        return lesson_map(
            {path.name: [_title(project, one, lang) for one in path.lessons] for path in paths},
            then,
            [_title(project, one, lang) for one in optional],
        )


def _title(project: Project, domain: str, lang: str) -> str:
    return lesson_header.numbered(domain, title(project, domain, lang))
