"""The page that links the tutorials to the course, and the terms of other translations."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.l10n_project import (
    LESSON,
    cell_of,
    make_project,
    run,
    text_cell,
    translate,
)
from tools.l10n import documents, glossary_links, lesson_links, markdown, synonyms
from tools.lessons import notebook
from tools.lessons.project import Project, read_text
from tools.site import search

PROJECT = Project.load(ROOT)
PAGE = "docs/FROM_THE_TUTORIAL"
SEARCH = ROOT / "tools" / "site" / "theme" / "static" / "search.js"


def cells_of_links() -> list[str]:
    found = markdown.split(read_text(PROJECT.document(PAGE)))
    return [part.text for part in found if lesson_links.is_links(part.text)]


def test_links_are_named_as_the_lessons_and_headings_that_they_lead_to() -> None:
    cells = cells_of_links()
    assert len(cells) > 40
    different = [text for text in cells if lesson_links.write(PROJECT, text, "en", str) != text]
    assert not different


def test_links_lead_to_headings() -> None:
    assert not list(documents.broken_links(PROJECT, PAGE, "en"))


def test_a_cell_of_links_is_written_in_each_language_and_not_translated(tmp_path: Path) -> None:
    cells = [text_cell("title", "# One\n"), text_cell("more", "## Find shards: `shard`\n")]
    project = make_project(tmp_path, *cells)
    english = f"../notebooks/en/{LESSON}.ipynb"
    link = f"[Lesson 1, Find shards: shard]({english}#Find-shards:-shard)"
    page = f"# A page\n\n| where |\n|---|\n| {link} · [Lesson 1, One]({english}) |\n"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "A.md").write_text(page, "utf-8")
    (tmp_path / "tools" / "l10n").mkdir(parents=True)
    code = (ROOT / "tools" / "l10n" / "lesson_links.py").read_text("utf-8")
    (tmp_path / "tools" / "l10n" / "lesson_links.py").write_text(code, "utf-8")
    run(project, "update", "--lang", "ru")
    assert [part.text for part in documents.messages(project, "docs/A")] == ["A page", "where"]
    texts = {"One": "Один", "Find shards: `shard`": "Найти шарды: `shard`"}
    translate(project, "ru", texts)
    translate(project, "ru", {lesson_links.LESSON: "Урок {number}: {heading}"}, "helpers")
    run(project, "build", "--lang", "ru")
    russian = f"../../notebooks/ru/{LESSON}.ipynb"
    built = project.document("docs/A", "ru").read_text("utf-8")
    assert f"| [Урок 1: Найти шарды: shard]({russian}#Найти-шарды:-shard) · " in built
    assert f" · [Урок 1: Один]({russian}) |" in built
    assert not list(documents.broken_links(project, "docs/A", "ru"))
    (tmp_path / "docs" / "A.md").write_text(page.replace("#Find-shards", "#Lose-shards"), "utf-8")
    [(link, why)] = documents.broken_links(project, "docs/A", "en")
    assert "has no heading #Lose-shards" in why


ROWS = synonyms.read(PROJECT)
NAMED = [pytest.param(row, id=f"{row.lang}-{row.word}") for row in ROWS]


def prose(lang: str) -> str:
    paths = [PROJECT.notebook(domain, lang) for domain in PROJECT.notebooks]
    lessons = [path for path in paths if path.exists() and path.stem != glossary_links.GLOSSARY]
    texts = [
        notebook.source(cell) for path in lessons for cell in notebook.prose(notebook.read(path))
    ]
    return "\n".join(texts).lower()


def test_each_language_has_words_of_other_translations() -> None:
    with (ROOT / "locales" / synonyms.FILE).open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(ROWS) > 35
    assert {row.lang for row in ROWS} == set(PROJECT.languages)
    named = {row.word for row in ROWS}
    assert named > {"工作器", "集群通信", "에스티메이터", "학습 속도", "Оценщик", "capacitación"}
    page = notebook.read(PROJECT.notebook(glossary_links.GLOSSARY))
    terms = {word.name for word in glossary_links.entries(page)}
    assert {row.term for row in ROWS if row.term} <= terms


@pytest.mark.parametrize("row", NAMED)
def test_the_course_uses_its_own_word_and_never_the_other_one(row: synonyms.Synonym) -> None:
    text = prose(row.lang)
    start = r"(?<!\w)" if row.lang in ("ru", "es") else ""
    assert re.search(rf"{start}{row.pattern}", row.word, re.IGNORECASE)
    assert not re.search(rf"{start}(?:{row.pattern})(?!\w)", text, re.IGNORECASE)
    assert row.course[:6].lower() in text


@pytest.mark.parametrize("lang", PROJECT.languages)
def test_a_translated_glossary_and_page_list_the_words(lang: str, tmp_path: Path) -> None:
    rows = synonyms.of_language(PROJECT, lang)
    table = synonyms.expand(PROJECT, f"# A\n\n{synonyms.MARK}\n\nB\n", lang, str)
    assert all(f"| {row.word} | {row.course} |" in table for row in rows)
    assert synonyms.expand(PROJECT, synonyms.MARK, "en", str) == synonyms.MARK
    row = next(row for row in rows if row.term)
    source = f"| word | meaning |\n|---|---|\n| **{row.course}** (x) | Meaning. |\n| **y** | Z. |"
    built = synonyms.add_to_glossary(source, [row.term, "y"], rows, lang, str)
    assert re.search(rf"\*\* \(x\) \| Meaning\. Also called: .*{row.word}.*\. \|", built)
    assert "| **y** | Z. |" in built
    assert synonyms.add_to_glossary(source, [row.term, "y"], rows, "en", str) == source


def test_the_builder_adds_the_words_to_the_glossary(tmp_path: Path) -> None:
    text = "| word | meaning |\n|---|---|\n| **worker** | A task. |\n"
    project = make_project(tmp_path, text_cell("title", "# First\n"))
    path = project.notebook(glossary_links.GLOSSARY)
    source = project.notebook(LESSON).read_text("utf-8")
    page = json.loads(source)
    page["cells"].append(text_cell("processes", f"## Processes\n\n{text}"))
    path.write_text(notebook.dumps(page), "utf-8")
    run(project, "update", "--lang", "zh")
    (tmp_path / "locales" / synonyms.FILE).write_text(
        "lang,term,course,word,pattern\nzh,worker,工作进程,工作器,\n", "utf-8"
    )
    run(project, "build")
    cell = notebook.source(cell_of(project, "zh", "processes", glossary_links.GLOSSARY))
    assert "| **worker** | A task. Also called: 工作器. |" in cell
    english = notebook.source(cell_of(project, "en", "processes", glossary_links.GLOSSARY))
    assert "工作器" not in english


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize(
    ("lang", "asked", "found"),
    [
        ("zh", "工作器 数量", "工作进程 数量"),
        ("ko", "에스티메이터로 훈련", "Estimator 훈련"),
        ("ru", "Оценщика и рабочих процессов", "Estimator и воркер"),
        ("es", "la capacitación distribuida", "la entrenamiento distribuida"),
        ("en", "worker", "worker"),
    ],
)
def test_the_search_asks_for_the_word_of_the_course(lang: str, asked: str, found: str) -> None:
    """Runs the script of the search page, with a page and Pagefind as it uses them."""
    html_lang = "zh-CN" if lang == "zh" else lang
    program = f"""
        const INDEX_WORDS = {{}}, SYNONYMS = {search._synonyms(PROJECT)};
        const field = {{ setAttribute() {{}}, placeholder: "" }};
        let options, start;
        const documentElement = {{ lang: "{html_lang}" }};
        const document = {{ documentElement, querySelector: () => field }};
        const window = {{ addEventListener: (_event, call) => {{ start = call; }} }};
        const location = {{ search: "" }};
        function PagefindUI(given) {{ options = given; }}
        {SEARCH.read_text("utf-8")}
        start();
        console.log(options.processTerm({json.dumps(asked, ensure_ascii=False)}));
    """
    command = ["node", "--input-type=commonjs", "-e", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().replace("  ", " ") == found
