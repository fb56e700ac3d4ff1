"""The generated pages of the site: the start page, and the lists of lessons and documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from helpers.i18n import join_items
from tools.l10n import course_map, lesson_header
from tools.l10n.lesson_header import Lesson
from tools.l10n.markdown import PARSER
from tools.l10n.structure import headings, slugs
from tools.lessons import notebook
from tools.lessons.project import EXERCISES as EXERCISES_FOLDER
from tools.lessons.project import PROJECTS as PROJECTS_FOLDER
from tools.lessons.project import read_text
from tools.site import pictures, strings
from tools.site import tree as names
from tools.site.recordings import page as recordings
from tools.site.strings import Translate
from tools.site.tree import Tree

# Chapters of README
CODE, COMMANDS, PATHS = "a-lessons-code", "two-commands", "three-paths"
FAILURES = "08_survive_failures"  # the lesson with the fault-injection lab
CODE_BLOCKS, COMMAND_BLOCKS = 4, 5  # the number of first blocks of each, without tables


class Written(NamedTuple):
    """A page: its name, its Markdown, and the ids of its headings."""

    name: str
    text: str
    ids: list[list[str]]


def pages(tree: Tree) -> Iterator[Written]:
    """The generated pages of a language. Links in them start at the root of the repository."""
    _ = strings.translator(tree.project, tree.lang)
    yield _start(tree, _)
    yield _lessons(tree, _)
    failures = recordings.lab(tree, _lesson_link(tree, FAILURES))
    yield _page(names.FAULT_LAB, _(strings.FAULT_LAB), failures)
    for folder, place, heading, about in (
        (EXERCISES_FOLDER, names.EXERCISES, strings.EXERCISES, strings.ABOUT_EXERCISES),
        (PROJECTS_FOLDER, names.PROJECTS, strings.PROJECTS, strings.ABOUT_PROJECTS),
    ):
        listed = [name for name in tree.pages if name.startswith(f"{folder}/")]
        yield _page(place, _(heading), [_(about), _toctree(listed, hidden=False)])
    documents = [name for name in tree.pages if name.startswith("docs/")]
    listed = [*documents, names.TRANSLATING, names.MEASUREMENTS]
    yield _page(names.DOCUMENTS, _(strings.DOCUMENTS), [_toctree(listed, hidden=False)])
    measured = [name for name in tree.pages if name.startswith("benchmarks/")]
    yield _page(names.MEASUREMENTS, _(strings.MEASUREMENTS), [_toctree(measured, hidden=False)])


def title(tree: Tree, name: str) -> str:
    """The first heading of a page with a source file, as plain text."""
    file = tree.pages[name].file
    if file.suffix == ".md":
        return headings(read_text(file))[0]
    first = next(notebook.prose(notebook.read(file)))
    return headings(notebook.source(first))[0]


def introduction(tree: Tree) -> str:
    """The first paragraph of the README."""
    return _chapters(read_text(tree.pages["docs/README"].file))[0][1]


def _start(tree: Tree, _: Translate) -> Written:
    """The start page: README's introduction, a recorded run, the paths, and selected chapters."""
    readme = tree.pages["docs/README"]
    chapters = _chapters(pictures.from_root(readme.file, tree.project.root))
    # Found by their English headings, because each language has the same number of chapters.
    keys = slugs([headings(chapter[0])[0] for chapter in _chapters(read_text(readme.english))])
    found = dict(zip(keys, chapters, strict=True))
    places = [names.LESSONS, names.FAULT_LAB, names.EXERCISES, names.PROJECTS, names.GLOSSARY]
    places += [names.DOCUMENTS, names.REFERENCE]
    _heading, introduction, *panel = chapters[0]
    parts = [
        introduction,
        *recordings.first(tree),
        *found[PATHS],
        f"## {_(strings.LESSONS)}",
        *_paths(tree, _),
        *found[CODE][:CODE_BLOCKS],
        *panel,
        *found[COMMANDS][:COMMAND_BLOCKS],
        _toctree(places),
    ]
    page = _page(names.START, title(tree, "docs/README"), parts)
    return page._replace(ids=[*page.ids, [PATHS], ["lessons"], [CODE], [COMMANDS]])


def _paths(tree: Tree, _: Translate) -> Iterator[str]:
    """The lessons of each path in reading order, and the lessons on no path."""
    paths = lesson_header.paths(tree.project)
    yield _(strings.ABOUT_PATHS)
    for path in paths:
        yield f"**{_(strings.PATH).format(path=path.name)}**"
        lessons = [
            _lesson_link(tree, name)
            for lesson in path.lessons
            for name in [lesson, *lesson_header.appendices(tree.project, lesson)]
        ]
        lessons += [_(strings.THEN).format(path=path.then)] if path.then else []
        yield "\n".join(f"- {lesson}" for lesson in lessons)
    if optional := lesson_header.off_paths(tree.project):
        links = join_items([_lesson_link(tree, name) for name in optional], tree.lang)
        yield f"**{_(strings.OPTIONAL).format(lessons=links)}**"


def _chapters(source: str) -> list[list[str]]:
    """The blocks of a document by chapter, each of which starts with its heading."""
    found: list[list[str]] = []
    for kind, block in _blocks(source):
        if kind in ("h1", "h2"):
            found.append([])
        found[-1].append(block)
    return found


def _blocks(source: str) -> Iterator[tuple[str, str]]:
    """The outermost blocks of a Markdown text, each with its tag."""
    lines = source.splitlines()
    for token in PARSER.parse(source):
        if token.level == 0 and token.nesting >= 0 and token.map:
            yield token.tag, "\n".join(lines[slice(*token.map)]).rstrip()


def _lessons(tree: Tree, _: Translate) -> Written:
    """The list of lessons and appendices, with the learning goals from their first cells."""
    parts, ids = [_(strings.ABOUT_LESSONS), _map(tree)], []
    course = lesson_header.course(tree.project)
    for name, lesson in course.items():
        exercise = _link(tree, f"{EXERCISES_FOLDER}/{name}")
        parts += [
            f"## {_lesson_link(tree, name)}",
            *_promise(tree, name, lesson, _),
            _(lesson_header.EXERCISE).format(exercises=exercise),
        ]
        ids.append([name])
    appendices = lesson_header.appendices(tree.project)
    for name, appendix in appendices.items():
        parts += [f"## {_link(tree, name)}", *_promise(tree, name, appendix, _)]
        ids.append([name])
    page = _page(names.LESSONS, _(strings.LESSONS), [*parts, _toctree([*course, *appendices])])
    return page._replace(ids=[*page.ids, *ids])


def _promise(tree: Tree, name: str, lesson: Lesson, _: Translate) -> list[str]:
    """The learning goals of a notebook, and its running time."""
    first = next(notebook.prose(notebook.read(tree.pages[name].file)))
    points = [block for tag, block in _blocks(notebook.source(first)) if tag == "ul"]
    return [*points, _(lesson_header.TIME).format(minutes=math.ceil(lesson.seconds / 60))]


def _map(tree: Tree) -> str:
    """README's picture of the course."""
    text = pictures.from_root(tree.pages["docs/README"].file, tree.project.root)
    return next(block for _tag, block in _blocks(text) if f"/{course_map.NAME})" in block)


def _page(name: str, heading: str, parts: list[str]) -> Written:
    return Written(name, "\n\n".join([f"# {heading}", *parts]) + "\n", [["title"]])


def _link(tree: Tree, name: str) -> str:
    page = tree.pages[name]
    return f"[{title(tree, name)}](/{tree.project.short(page.file)})"


def _lesson_link(tree: Tree, name: str) -> str:
    text = lesson_header.numbered(name, title(tree, name))
    return f"[{text}](/{tree.project.short(tree.pages[name].file)})"


def _toctree(pages: Iterable[str], *, hidden: bool = True) -> str:
    """Adds pages to the navigation. Unless hidden, it is also a list of links."""
    option = ":hidden:" if hidden else ":maxdepth: 1"
    return "\n".join(["```{toctree}", option, "", *(f"/{name}" for name in pages), "```"])
