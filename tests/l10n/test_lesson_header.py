"""The header and the footer of a lesson, which the builder generates from notebooks/course.toml."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import ROOT
from tests.support.l10n_project import cell_of, make_project, run, text_cell, translate
from tools.l10n import course_map, glossary_links, lesson_header
from tools.l10n.document_checks import map_problems
from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.lessons.project import Project, ToolError

PROJECT = Project.load(ROOT)
COURSE = lesson_header.course(PROJECT)
LESSONS = [domain for domain in PROJECT.notebooks if re.match(r"\d\d_", domain)]
READING_PATHS = {path.name: path for path in lesson_header.paths(PROJECT)}
ONE_PATH = """
[paths.Keras]
lessons = ["01_first", "02_second"]
"""
TABLE = """
[01_first]
needs = []
seconds = 61
references = [["guide", "A guide", "https://example.org/guide"]]
[02_second]
needs = ["01_first"]
seconds = 10
references = [["paper", "A paper", "https://example.org/paper"]]
"""


def test_every_lesson_has_its_place_in_the_course() -> None:
    assert sorted(COURSE) == LESSONS
    assert len(LESSONS) >= 13


def test_each_path_can_be_read_without_the_other_one() -> None:
    keras, estimator = (READING_PATHS[name].lessons for name in ("Keras", "Estimator"))
    assert keras[0] == "03_train_with_keras_fit"
    assert estimator[0] == "01_train_on_two_workers"
    assert not set(keras) & set(estimator)
    assert {*keras, *estimator, *lesson_header.off_paths(PROJECT)} == set(COURSE)
    assert lesson_header.off_paths(PROJECT) == ["02_choose_a_strategy"]
    for domain, lesson in COURSE.items():
        assert set(lesson.needs) <= set(lesson_header.earlier(PROJECT, domain))
        first = not lesson_header.earlier(PROJECT, domain)
        assert (lesson.needs == ()) == first


@pytest.mark.parametrize(
    ("domain", "head", "foot"),
    [
        ("03_train_with_keras_fit", ["**Keras path:** lesson 1 of "], ["(04_write_a"]),
        ("11_move_to_keras", ["**Estimator path:** lesson "], ["(03_train", "(Keras path)"]),
        (
            "02_choose_a_strategy",
            ["these paths do not need this lesson: Keras, Estimator."],
            ["(03_train", "(01_train"],
        ),
        ("13_beyond_data_parallelism", ["**Keras path:** lesson 9 of 9"], []),
    ],
)
def test_a_head_states_the_path_and_a_foot_leads_on_along_it(
    domain: str, head: list[str], foot: list[str]
) -> None:
    def link(other: str) -> str:
        return f"[{other}]({other}.ipynb)"

    above = lesson_header.header(PROJECT, domain, "en", str, link)
    below = lesson_header.footer(PROJECT, domain, str, link)
    assert all(part in above for part in head)
    assert all(part in below for part in foot)
    assert ("Next lesson" in below) == bool(foot)


@pytest.mark.parametrize("wrong", ['lessons = ["03_third"]', 'lessons = []\nthen = "Keras"'])
def test_a_path_that_names_what_does_not_exist_is_an_error(wrong: str, tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("title", "# First\n"))
    table = f"[paths.Estimator]\n{wrong}\n{TABLE}"
    (tmp_path / "notebooks" / "course.toml").write_text(table, "utf-8")
    with pytest.raises(ToolError, match="the path Estimator names"):
        lesson_header.paths(project)


@pytest.mark.parametrize("domain", LESSONS)
def test_a_lesson_leads_to_three_to_five_texts(domain: str) -> None:
    lesson = COURSE[domain]
    assert 3 <= len(lesson.references) <= 5
    for kind, title, address in lesson.references:
        parts = urlsplit(address)
        assert (kind in lesson_header.KINDS, title == title.strip(), parts.scheme) == (
            True,
            True,
            "https",
        )
        assert re.fullmatch(r"[a-z0-9.]+\.[a-z]+", parts.netloc)
        assert not re.search(r"\s|[?&]hl=", address)  # the site selects the reader's own language


def cells_below_the_title(domain: str, lang: str) -> list[Json]:
    """All cells except the title and, if the course has an address, the badges."""
    cells = notebook.read(PROJECT.notebook(domain, lang))["cells"]
    return [cell for cell in cells[1:] if notebook.BADGES_TAG not in notebook.tags(cell)]


@pytest.mark.parametrize("lang", ["en", *PROJECT.languages])
@pytest.mark.parametrize("domain", LESSONS)
def test_each_lesson_begins_with_its_head_and_ends_with_its_foot(domain: str, lang: str) -> None:
    cells = cells_below_the_title(domain, lang)
    assert [cells[0]["id"], cells[-1]["id"]] == ["head", "foot"]
    head, foot = notebook.source(cells[0]), notebook.source(cells[-1])
    assert all(f"]({other}.ipynb)" in head for other in COURSE[domain].needs)
    assert f"](exercises/{domain}.ipynb)" in foot
    assert all(f"[{title}]({address})" in foot for _, title, address in COURSE[domain].references)


@pytest.fixture
def two_lessons(tmp_path: Path) -> Project:
    """A course of two lessons and a glossary, built in English and in Russian."""
    cells = [text_cell("title", "# First\n"), text_cell("head", "", "head")]
    project = make_project(tmp_path, *cells, text_cell("foot", "", "foot"))
    second = project.notebook("01_first").read_text("utf-8").replace("# First", "# Second")
    project.notebook("02_second").write_text(second, "utf-8")
    project.notebook("glossary").write_text(second.replace("Second", "Glossary"), "utf-8")
    exercise = project.notebook("exercises/01_first")
    exercise.parent.mkdir()
    for name in ("01_first", "02_second"):
        exercise.with_name(f"{name}.ipynb").write_text(second.replace("Second", name), "utf-8")
    (tmp_path / "notebooks" / "course.toml").write_text(ONE_PATH + TABLE, "utf-8")
    (tmp_path / "tools" / "l10n").mkdir(parents=True)
    source = ROOT / "tools" / "l10n" / "lesson_header.py"
    (tmp_path / "tools" / "l10n" / "lesson_header.py").write_text(
        source.read_text("utf-8"), "utf-8"
    )
    run(project, "update", "--lang", "ru")
    translate(project, "ru", {lesson_header.NEXT: "**Дальше:** {lesson}"}, domain="helpers")
    translate(project, "ru", {"Second": "Второй"}, domain="02_second")
    run(project, "build")
    return project


def test_titles_and_words_are_those_of_the_language(two_lessons: Project) -> None:
    project = two_lessons
    foot = notebook.source(cell_of(project, "ru", "foot"))
    assert "**Дальше:** [Второй](02_second.ipynb)" in foot
    assert "- [A guide](https://example.org/guide) (guide)" in foot
    head = notebook.source(cell_of(project, "en", "head"))
    assert lesson_header.BEGINNERS in head
    assert "2 min" in head
    assert "[Glossary](glossary.ipynb)" in head


def test_the_map_is_drawn_in_each_language_and_kept_fresh(two_lessons: Project) -> None:
    for lang, second in ("en", "Second"), ("ru", "Второй"):
        path = course_map.path_of(two_lessons, lang)
        assert f"{second}</text>" in path.read_text("utf-8")
        assert not list(map_problems(two_lessons, lang))
    path.write_text(path.read_text("utf-8").replace("Второй", "Третий"), "utf-8")
    assert "the map differs from the result of a build" in str(*map_problems(two_lessons, "ru"))


def test_new_words_lead_to_their_definitions() -> None:
    for lang, batch, section in (
        ("en", "batch", "A training step"),
        ("ru", "батч", "Шаг обучения"),
    ):
        page = notebook.read(PROJECT.notebook(glossary_links.GLOSSARY, lang))
        assert glossary_links.Word(batch, section) in glossary_links.entries(page)
        head = notebook.source(cells_below_the_title("01_train_on_two_workers", lang)[0])
        assert re.search(rf"{batch}[^]]*\]\(glossary\.ipynb#{section.replace(' ', '-')}\)", head)
    texts = [PROJECT.notebook(domain).read_text("utf-8") for domain in LESSONS]
    page_text = PROJECT.notebook(glossary_links.GLOSSARY).read_text("utf-8")
    uses = glossary_links.first_uses(page_text, tuple(texts))
    named = [number for new in uses for number in new]
    assert len(named) == len(set(named)) >= 60
    assert (
        uses[4] != glossary_links.first_uses(page_text, tuple(texts[4:]))[0]
    )  # some were known before


@pytest.mark.parametrize("lang", PROJECT.languages)
def test_the_glossary_has_the_same_words_in_each_language(lang: str) -> None:
    english, other = (
        glossary_links.entries(notebook.read(PROJECT.notebook(glossary_links.GLOSSARY, each)))
        for each in ("en", lang)
    )
    assert len(english) == len(other) >= 80


APPENDIX = """
[more]
appendix_to = "01_first"
needs = ["01_first"]
seconds = 5
references = [["guide", "Another guide", "https://example.org/more"]]
"""


def test_an_appendix_is_linked_from_its_lesson_and_is_no_lesson(two_lessons: Project) -> None:
    project = two_lessons
    text = project.notebook("01_first").read_text("utf-8").replace("# First", "# More")
    project.notebook("more").write_text(text, "utf-8")
    table = project.root / "notebooks" / "course.toml"
    table.write_text(ONE_PATH + TABLE + APPENDIX, "utf-8")
    run(project, "build", "--lang", "en")
    assert list(lesson_header.course(project)) == ["01_first", "02_second"]
    assert list(lesson_header.appendices(project, "02_second")) == []
    lesson = notebook.source(cell_of(project, "en", "foot"))
    assert "**Appendix:** [More](more.ipynb)\n\n**Next lesson:** [Second]" in lesson
    cells = {
        cell["id"]: notebook.source(cell)
        for cell in notebook.read(project.notebook("more"))["cells"]
    }
    assert "**Before this lesson:** [First](01_first.ipynb)." in cells["head"]
    assert cells["foot"].startswith(
        "**Further reading**\n\n- [Another guide](https://example.org/more)"
    )


def test_an_appendix_to_no_lesson_is_named(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("title", "# First\n"))
    table = TABLE + APPENDIX.replace('to = "01_first"', 'to = "09_gone"')
    (tmp_path / "notebooks" / "course.toml").write_text(table, "utf-8")
    with pytest.raises(ToolError, match="appendix to '09_gone'"):
        lesson_header.course(project)


def test_an_unknown_kind_of_reference_is_named(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("title", "# First\n"))
    (tmp_path / "notebooks" / "course.toml").write_text(TABLE.replace("guide", "book"), "utf-8")
    with pytest.raises(ToolError, match="'book'"):
        lesson_header.course(project)
