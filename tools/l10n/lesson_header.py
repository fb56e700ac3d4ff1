"""The head and the foot of a lesson: what to know before, how long it runs, where to go on.

What they say comes from notebooks/course.toml. The builder writes them into the cells with these
tags, in the language of the notebook.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.i18n import gettext_noop, join_items
from tools.l10n.glossary_links import GLOSSARY
from tools.lessons.project import EXERCISES, Project, ToolError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Translate = Callable[[str], str]


BEGINNERS = gettext_noop("**You need** Python, and one network that you have trained with Keras.")
NEEDS = gettext_noop("**Before this lesson:** {lessons}.")
TIME = gettext_noop("**It runs in** {minutes} min on two cores.")
WORDS = gettext_noop("**Words:** {glossary}")
NEW_WORDS = gettext_noop("**New words:** {words}")
EXERCISE = gettext_noop("**Try it yourself:** {exercises}")
APPENDIX = gettext_noop("**Appendix:** {notebook}")
NEXT = gettext_noop("**Next lesson:** {lesson}")
READ_ON = gettext_noop("**Read on**")
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
      needs: domains of the lessons on which it stands.
      seconds: that a run takes on two cores.
      references: kind, title and address of each.
      appendix_to: the domain of the lesson that an appendix belongs to; empty for a lesson.
    """

    needs: tuple[str, ...]
    seconds: float
    references: tuple[tuple[str, str, str], ...]
    appendix_to: str = ""


def course(project: Project) -> dict[str, Lesson]:
    """The lessons by their domains, in their order; none where there is no course.toml."""
    found = tables(project)
    return {domain: lesson for domain, lesson in found.items() if not lesson.appendix_to}


def appendices(project: Project, to: str = "") -> dict[str, Lesson]:
    """The appendices by their domains: all of them, or those of one lesson."""
    found = tables(project)
    return {
        domain: appendix
        for domain, appendix in found.items()
        if appendix.appendix_to and to in ("", appendix.appendix_to)
    }


def tables(project: Project) -> dict[str, Lesson]:
    """The notebooks that have a head and a foot, by their domains: lessons and appendices."""
    path = project.root / "notebooks" / "course.toml"
    return _read(path) if path.exists() else {}


def _read(path: Path) -> dict[str, Lesson]:
    tables = tomllib.loads(path.read_text("utf-8"))
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


def header(
    project: Project,
    domain: str,
    lang: str,
    _: Translate,
    link: Callable[[str], str],
    new_words: Sequence[str] = (),
) -> str:
    """What stands below the title.

    Args:
      lang: the language of the notebook, into which `_` translates.
      link: a lesson's title in this language, as a link to it.
      new_words: links to the definitions of the words that the lesson uses first.
    """
    lesson = tables(project)[domain]
    before = _(NEEDS).format(lessons=join_items(map(link, lesson.needs), lang))
    minutes = math.ceil(lesson.seconds / 60)
    words = _(WORDS).format(glossary=link(GLOSSARY))
    if new_words:
        words = _(NEW_WORDS).format(words=" · ".join([*new_words, link(GLOSSARY)]))
    time = _(TIME).format(minutes=minutes)
    return "\n\n".join([before if lesson.needs else _(BEGINNERS), time, words])


def footer(project: Project, domain: str, _: Translate, link: Callable[[str], str]) -> str:
    """What stands below the summary: the exercise, appendices, the next lesson, references."""
    lessons, lines = course(project), []
    if domain in lessons:
        later = [other for other in lessons if other > domain]
        lines = [_(EXERCISE).format(exercises=link(f"{EXERCISES}/{domain}"))]
        lines += [_(APPENDIX).format(notebook=link(each)) for each in appendices(project, domain)]
        lines += [_(NEXT).format(lesson=link(later[0]))] if later else []
    entries = [
        "- " + _(REFERENCE).format(title=title, address=address, kind=_(KINDS[kind]))
        for kind, title, address in tables(project)[domain].references
    ]
    return "\n\n".join([*lines, _(READ_ON), "\n".join(entries)])
