"""Slides of lessons: one HTML file for each lesson, which needs no network.

    python -m tools.teaching.slides 01 10 --lang ko --output slides

The slides contain the aims of a lesson, its figures, its questions to predict, the pictures of its
stored run, and its recap. All texts are from the notebook, so they are in its language. The arrow
keys turn the slides, and a browser prints one slide on each page.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from tools.l10n.markdown import PARSER, split
from tools.lessons import notebook
from tools.lessons.notebook import STANDALONE_TAG, Json
from tools.lessons.project import SOURCE, Project, ToolError
from tools.lessons.run import find_lesson
from tools.site import strings
from tools.site.pictures import IMAGE
from tools.site.settings import html_lang
from tools.teaching.course_folder import ROOT

TEMPLATE = Path(__file__).with_name("slides.html")
FIGURES = "helpers.course.figures"
PREDICT = "**Predict:**"  # the start of a question in an English lesson
SET_UP = "setup-text"  # the cell whose heading does not describe the figures below it
LONG_CAPTION = 400  # characters, above which a caption is in smaller letters
BOLD = re.compile(r"\*\*(.+?)\*\*")
LINK = re.compile(r"</?a\b[^>]*>")


class Picture(NamedTuple):
    """A picture among the outputs of a cell.

    Attributes:
      heading: the heading above it.
      before: the last paragraph before the cell.
      drawn: whether it is always the same, in contrast to the measurements of a run.
      image: its ``img`` element.
      alt: its alternative text, escaped.
    """

    heading: str
    before: str
    drawn: bool
    image: str
    alt: str

    @property
    def slide(self) -> str:
        """The slide. The text before a measurement may not describe it, but its own text does."""
        caption = _html(self.before) if self.drawn else f"<p>{self.alt}</p>"
        size = ' class="long"' if len(caption) > LONG_CAPTION else ""
        head = f"<h2>{_inline(self.heading)}</h2>"
        return f"{head}<figure>{self.image}<figcaption{size}>{caption}</figcaption></figure>"


def slides(lesson: Json, english: Json) -> Iterator[str]:
    """The slides of a lesson as HTML.

    Args:
      english: the same lesson in English, in which questions have a known start.

    Raises:
      ToolError: the output of a figure is missing.
    """
    cells = {cell["id"]: notebook.source(cell) for cell in lesson["cells"]}
    found = list(pictures(lesson))
    yield _html(_through_list(cells["title"]))
    yield from (picture.slide for picture in found if picture.drawn)
    if asked := list(questions(cells, english)):
        bold = BOLD.match(asked[0])
        heading = bold[1].rstrip(":：") if bold else ""
        items = "".join(f"<li>{_inline(_without_bold_start(one))}</li>" for one in asked)
        yield f"<h2>{escape(heading)}</h2><ol>{items}</ol>"
    yield from (picture.slide for picture in found if not picture.drawn)
    yield _html(_through_list(cells["summary"]))


def pictures(lesson: Json) -> Iterator[Picture]:
    """The pictures among the stored outputs of a lesson, in order."""
    heading = before = ""
    for cell in lesson["cells"]:
        if cell["cell_type"] == "markdown":
            for message in split(notebook.source(cell)):
                if message.kind == "heading" and cell["id"] != SET_UP:
                    heading = message.text
                before = message.text
            continue
        html = "".join("".join(o.get("data", {}).get("text/html", "")) for o in cell["outputs"])
        images = list(IMAGE.finditer(html))
        if FIGURES in notebook.source(cell) and not images:
            raise ToolError(
                f"The figure in cell {cell['id']!r} has no stored output. Run: "
                "python -m tools.l10n build --refresh"
            )
        drawn = STANDALONE_TAG in notebook.tags(cell)
        for image in images:
            yield Picture(heading, before, drawn, image[0], image["alt"])


def questions(cells: dict[str, str], english: Json) -> Iterator[str]:
    """The questions to answer before a cell is run, in the language of `cells`, as Markdown."""
    for cell in notebook.cells(english, "markdown"):
        for number, message in enumerate(split(notebook.source(cell))):
            if message.text.startswith(PREDICT):
                yield split(cells[cell["id"]])[number].text


def page(lesson: Json, english: Json, lang: str, course: str) -> str:
    """The HTML file of a lesson.

    Args:
      lang: the value of the page's `lang` attribute.
      course: the name of the course in that language.
    """
    title = split(notebook.source(lesson["cells"][0]))[0].text
    contents = list(slides(lesson, english))
    sections = "\n".join(
        f'<section id="slide-{number}" tabindex="-1">{content}'
        f"<footer>{escape(course)} · {number}/{len(contents)}</footer></section>"
        for number, content in enumerate(contents, 1)
    )
    text = TEMPLATE.read_text("utf-8")
    for name, value in (("LANG", lang), ("TITLE", escape(title)), ("SLIDES", sections)):
        text = text.replace(f"@{name}@", value)
    return text


def _through_list(source: str) -> str:
    """A Markdown text up to the end of its first list."""
    ends = (token.map for token in PARSER.parse(source) if token.type == "bullet_list_open")
    last = next(ends, None)
    return "".join(source.splitlines(keepends=True)[: last[1]]) if last else source


def _without_bold_start(question: str) -> str:
    text = BOLD.sub("", question, count=1).lstrip(":： ")
    return text[:1].upper() + text[1:]


def _html(text: str) -> str:
    """Markdown as HTML without links, whose targets are not next to the slides."""
    return LINK.sub("", PARSER.render(text))


def _inline(text: str) -> str:
    return LINK.sub("", PARSER.renderInline(text))


def main(argv: list[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.teaching.slides",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="its number (default: all)")
    parser.add_argument("--lang", default=SOURCE, help="en, ru, zh, ko or es")
    parser.add_argument("--output", type=Path, default=ROOT / "course" / "slides")
    args = parser.parse_args(argv)
    project = Project.load(ROOT)
    numbered = [name[:2] for name in project.notebooks_in(SOURCE) if name[:2].isdigit()]
    paths = [find_lesson(number, args.lang) for number in args.lessons or numbered]
    course = strings.translator(project, args.lang)(strings.NAME)
    try:
        for path in paths:
            english = notebook.read(project.notebook(path.stem))
            target = args.output / args.lang / f"{path.stem}.html"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(
                page(notebook.read(path), english, html_lang(args.lang), course), "utf-8"
            )
            print(target)
    except (ToolError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
