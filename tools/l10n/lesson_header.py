"""The head and the foot of a lesson: its path, prerequisites, duration and next lesson.

Their contents are in notebooks/course.toml. The builder writes them into the cells with these tags,
in the language of the notebook.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.i18n import gettext_noop, join_items
from tools.l10n.glossary_links import GLOSSARY
from tools.lessons.project import EXERCISES, Project, ToolError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Translate = Callable[[str], str]
PATHS = "paths"  # the table of course.toml that is not a lesson


PATH = gettext_noop("**{path} path:** lesson {number} of {count}.")
OFF_PATHS = gettext_noop("**Optional:** these paths do not need this lesson: {paths}.")
BEGINNERS = gettext_noop(
    "**Before you start:** you should know Python, and have trained at least one Keras or "
    "Estimator model."
)
NEEDS = gettext_noop("**Before this lesson:** {lessons}.")
TIME = gettext_noop("**Running time:** about {minutes} min on two cores.")
WORDS = gettext_noop("**Words:** {glossary}")
NEW_WORDS = gettext_noop("**New words:** {words}")
EXERCISE = gettext_noop("**Try it yourself:** {exercises}")
APPENDIX = gettext_noop("**Appendix:** {notebook}")
NEXT = gettext_noop("**Next lesson:** {lesson}")
NEXT_ON_PATH = gettext_noop("**Next lesson:** {lesson} ({path} path)")
READ_ON = gettext_noop("**Further reading**")
REFERENCE = gettext_noop("[{title}]({address}) ({kind})")
KINDS = {
    "guide": gettext_noop("guide"),
    "reference": gettext_noop("reference"),
    "manual": gettext_noop("manual"),
    "issue": gettext_noop("issue"),
    "paper": gettext_noop("paper"),
}


@dataclass(frozen=True)
class Lesson:
    """A table of course.toml: a lesson, or an appendix, which has no number and no exercise.

    Attributes:
      needs: the domains of the lessons that it requires.
      seconds: the duration of a run on two cores.
      references: the kind, title and address of each reference.
      appendix_to: the domain of the appendix's lesson, or "" for a lesson.
    """

    needs: tuple[str, ...]
    seconds: float
    references: tuple[tuple[str, str, str], ...]
    appendix_to: str = ""


@dataclass(frozen=True)
class ReadingPath:
    """Lessons in reading order, without lessons of other paths.

    Attributes:
      lessons: their domains in reading order.
      then: the next path for the reader, or "".
    """

    name: str
    lessons: tuple[str, ...]
    then: str = ""


def course(project: Project) -> dict[str, Lesson]:
    """The lessons by domain, in order, or none without a course.toml."""
    found = notebooks(project)
    return {domain: lesson for domain, lesson in found.items() if not lesson.appendix_to}


def appendices(project: Project, to: str = "") -> dict[str, Lesson]:
    """The appendices by domain, of all lessons or of one lesson."""
    found = notebooks(project)
    return {
        domain: appendix
        for domain, appendix in found.items()
        if appendix.appendix_to and to in ("", appendix.appendix_to)
    }


def notebooks(project: Project) -> dict[str, Lesson]:
    """The notebooks with a head and a foot, by domain: lessons and appendices.

    Raises:
      ToolError: a table of course.toml is invalid.
    """
    path = _course_file(project)
    tables = _tables(path)
    tables.pop(PATHS, None)
    found = {}
    for domain, table in tables.items():
        references = tuple((kind, title, address) for kind, title, address in table["references"])
        if unknown := [kind for kind, *_ in references if kind not in KINDS]:
            raise ToolError(
                f"{path}: a reference of {domain} is of the kind {unknown[0]!r}. "
                f"Choose one of {sorted(KINDS)}."
            )
        owner = table.get("appendix_to", "")
        if owner and owner not in tables:
            raise ToolError(
                f"{path}: {domain} is an appendix to {owner!r}. Choose one of {sorted(tables)}."
            )
        found[domain] = Lesson(tuple(table["needs"]), table["seconds"], references, owner)
    return found


def paths(project: Project) -> list[ReadingPath]:
    """The paths through the course.

    Raises:
      ToolError: a path names a lesson or another path that does not exist.
    """
    file, lessons = _course_file(project), course(project)
    tables = _tables(file).get(PATHS, {})
    found = [
        ReadingPath(name, tuple(table["lessons"]), table.get("then", ""))
        for name, table in tables.items()
    ]
    for path in found:
        unknown = [domain for domain in path.lessons if domain not in lessons]
        unknown += [path.then] if path.then and path.then not in tables else []
        if unknown:
            raise ToolError(
                f"{file}: the path {path.name} names {unknown[0]!r}, which does not exist. Correct "
                "the name, or add its table."
            )
    return found


def off_paths(project: Project) -> list[str]:
    """The lessons on no path, which readers of every path may read."""
    taken = {domain for path in paths(project) for domain in path.lessons}
    return [domain for domain in course(project) if domain not in taken]


def earlier(project: Project, domain: str) -> list[str]:
    """The earlier lessons of the same path, which the reader has read."""
    for path in paths(project):
        if domain in path.lessons:
            return list(path.lessons[: path.lessons.index(domain)])
    return []


def _course_file(project: Project) -> Path:
    return project.root / "notebooks" / "course.toml"


def _tables(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def header(
    project: Project,
    domain: str,
    lang: str,
    _: Translate,
    link: Callable[[str], str],
    new_words: Sequence[str] = (),
) -> str:
    """The text below the title.

    Args:
      lang: the language of the notebook, which is also the target language of `_`.
      link: returns a lesson's title in this language, as a link to it.
      new_words: links to the definitions of the terms that the lesson uses first.
    """
    lesson = notebooks(project)[domain]
    place = [] if lesson.appendix_to else _place(paths(project), domain, lang, _)
    before = _(NEEDS).format(lessons=join_items(map(link, lesson.needs), lang))
    minutes = math.ceil(lesson.seconds / 60)
    words = _(WORDS).format(glossary=link(GLOSSARY))
    if new_words:
        words = _(NEW_WORDS).format(words=" · ".join([*new_words, link(GLOSSARY)]))
    time = _(TIME).format(minutes=minutes)
    return "\n\n".join([*place, before if lesson.needs else _(BEGINNERS), time, words])


def _place(known: Sequence[ReadingPath], domain: str, lang: str, _: Translate) -> list[str]:
    """The path of a lesson, or nothing in a course without paths."""
    for path in known:
        if domain in path.lessons:
            number, count = path.lessons.index(domain) + 1, len(path.lessons)
            return [_(PATH).format(path=path.name, number=number, count=count)]
    names = [path.name for path in known]
    return [_(OFF_PATHS).format(paths=join_items(names, lang))] if names else []


def footer(project: Project, domain: str, _: Translate, link: Callable[[str], str]) -> str:
    """The text below the summary: the exercise, appendices, the next lesson, references."""
    lines = []
    if domain in course(project):
        lines = [_(EXERCISE).format(exercises=link(f"{EXERCISES}/{domain}"))]
        lines += [_(APPENDIX).format(notebook=link(each)) for each in appendices(project, domain)]
        lines += [
            _(NEXT_ON_PATH if path else NEXT).format(lesson=link(other), path=path)
            for other, path in _next(project, domain)
        ]
    entries = [
        "- " + _(REFERENCE).format(title=title, address=address, kind=_(KINDS[kind]))
        for kind, title, address in notebooks(project)[domain].references
    ]
    return "\n\n".join([*lines, _(READ_ON), "\n".join(entries)])


def numbered(domain: str, title: str) -> str:
    """A lesson's title, preceded by its number if its name has one."""
    number = domain.partition("_")[0]
    return f"{int(number)}. {title}" if number.isdecimal() else title


def _next(project: Project, domain: str) -> list[tuple[str, str]]:
    """The next lesson to read, and its path if it must be named.

    After the last lesson of a path, this is the first lesson of the next path. After a lesson on no
    path, it is the first lesson of each path.
    """
    known = {path.name: path for path in paths(project)}
    for path in known.values():
        if domain in path.lessons:
            later = path.lessons[path.lessons.index(domain) + 1 :]
            if later:
                return [(later[0], "")]
            return [(known[path.then].lessons[0], path.then)] if path.then else []
    return [(path.lessons[0], path.name) for path in known.values()]
