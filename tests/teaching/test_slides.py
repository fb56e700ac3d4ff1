"""Slides of lessons: what a file contains in each language, and that it needs nothing else."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.l10n_project import code_cell, notebook_text, text_cell
from tools.l10n.markdown import PARSER, split
from tools.lessons import notebook
from tools.lessons.project import Project, ToolError
from tools.site.check import HtmlPage, Site
from tools.teaching import slides

PROJECT = Project.load(ROOT)
LANGUAGES = ["en", *PROJECT.languages]
LESSONS = [name for name in PROJECT.notebooks_in("en") if name[:2].isdigit()]
LOADED = re.compile(r"""(?:src|href|action)=["'](?!data:)|url\(|@import|https?:""")
IMAGE = '<img alt="{alt}" src="data:image/svg+xml;base64,PHN2Zy8+">'


class Outline(HTMLParser):
    """The sections of a page: in each, the headings and the alternative texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.lang = ""
        self.headings: list[list[str]] = []
        self.alts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by HTMLParser."""
        named = dict(attrs)
        if tag == "html":
            self.lang = named["lang"] or ""
        elif tag == "section":
            self.headings.append([])
        elif tag in ("h1", "h2"):
            self.headings[-1].append(tag)
        elif tag == "img":
            self.alts.append(named["alt"] or "")


@cache
def stored(lang: str, name: str) -> notebook.Json:
    return notebook.read(PROJECT.notebook(name, lang))


@cache
def written(lang: str, name: str) -> str:
    return slides.page(stored(lang, name), stored("en", name), lang, "the course")


def lesson_with(*outputs: str) -> notebook.Json:
    """A lesson of one figure, whose cell has these outputs."""
    figure = code_cell("figure", "from helpers.course.figures import restart\n\nrestart()")
    figure["metadata"]["tags"] = [notebook.STANDALONE_TAG]
    figure["outputs"] = [
        {"output_type": "display_data", "metadata": {}, "data": {"text/html": html}}
        for html in outputs
    ]
    title = "# One\n\nYou will\n\n- read.\n- draw.\n- run.\n\nIt takes a minute."
    cells = [
        text_cell("title", title),
        text_cell("text", "## A & B\n\nThe [figure](x.ipynb) shows `w`."),
        figure,
        text_cell("ask", "Now run it.\n\n**Predict:** how many? Two?"),
        text_cell("summary", "## Recap\n\nYou have\n\n- read.\n\nMore."),
    ]
    return notebook.parse(notebook_text(*cells), "lesson")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_slide_shows_each_picture_of_the_lesson(lang: str) -> None:
    for name in LESSONS:
        found = list(slides.pictures(stored(lang, name)))
        assert found
        assert [written(lang, name).count(picture.image) for picture in found] == [1] * len(found)
        sources = map(notebook.source, notebook.cells(stored(lang, name), "code"))
        figures = [source for source in sources if slides.FIGURES in source]
        assert sum(picture.drawn for picture in found) >= len(figures)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_file_needs_no_other_file_and_no_network(lang: str) -> None:
    for name in LESSONS:
        text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", written(lang, name))
        assert LOADED.findall(text) == []
        assert "default-src 'none'" in text and "@LANG@" not in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_each_slide_has_one_heading_and_each_picture_a_text(lang: str) -> None:
    for name in LESSONS:
        outline = Outline(written(lang, name))
        assert outline.lang == lang
        assert outline.headings[0] == ["h1"]
        assert all(found == ["h2"] for found in outline.headings[1:])
        assert outline.alts and all(outline.alts)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_slides_have_the_lessons_texts_in_its_language(lang: str) -> None:
    name = LESSONS[0]
    text = written(lang, name)
    cells = {cell["id"]: notebook.source(cell) for cell in stored(lang, name)["cells"]}
    for cell in ("title", "summary"):
        aims = [one.text for one in split(cells[cell]) if one.kind == "list item"]
        assert len(aims) == 3
        assert all(PARSER.renderInline(aim) in text for aim in aims)
    asked = list(slides.questions(cells, stored("en", name)))
    assert len(asked) == 3 and all(one.startswith("**") for one in asked)
    texts = [PARSER.renderInline(one.rpartition("**")[2].lstrip(":： ")) for one in asked]
    assert all(one[1:] in text for one in texts)  # a slide begins with a capital letter


def test_a_page_has_the_title_the_figure_the_question_and_the_recap() -> None:
    lesson = lesson_with(IMAGE.format(alt="a &lt; b"))
    title, figure, question, recap = slides.slides(lesson, lesson)
    assert "<li>run.</li>" in title and "minute" not in title
    assert figure.startswith("<h2>A &amp; B</h2><figure><img alt=")
    assert "<p>The figure shows <code>w</code>.</p>" in figure
    assert question == "<h2>Predict</h2><ol><li>How many? Two?</li></ol>"
    assert recap.startswith("<h2>Recap</h2>") and "More" not in recap


def test_a_measured_picture_follows_the_question_and_is_described_by_its_own_text() -> None:
    lesson = lesson_with(IMAGE.format(alt="a"))
    lesson["cells"][2]["metadata"]["tags"] = []
    _title, question, measured, _recap = slides.slides(lesson, lesson)
    assert "Predict" in question
    assert "<figcaption><p>a</p></figcaption>" in measured


def test_a_figure_without_a_stored_output_is_an_error() -> None:
    with pytest.raises(ToolError, match=r"cell 'figure' has no stored output.*--refresh"):
        list(slides.slides(lesson_with(), lesson_with()))


def test_the_command_writes_one_file_for_each_lesson(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slides.main(["1", "10", "--lang", "zh", "--output", str(tmp_path)]) == 0
    files = sorted((tmp_path / "zh").iterdir())
    assert [path.name[:2] for path in files] == ["01", "10"]
    assert capsys.readouterr().out.splitlines() == [str(path) for path in files]
    assert Outline(files[0].read_text("utf-8")).lang == "zh-CN"
    assert list(Site(tmp_path).problems()) == []
    assert len(HtmlPage(files[0]).ids) >= 9
    with pytest.raises(SystemExit, match="no lesson '77'"):
        slides.main(["77", "--output", str(tmp_path)])
