"""Documents in other languages: their translated parts, and the targets of their links."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.l10n_project import LESSON, make_project, run, text_cell, translate, whats
from tools.l10n import checks, documents, structure
from tools.l10n.build import PAGE_LINK
from tools.lessons.project import Project

PAGE = "docs/FAULTS"
README = f"""\
# The course

Read [what can happen](docs/FAULTS.md#What-can-happen), [the licence](LICENSE),
[lesson 1](notebooks/en/{LESSON}.ipynb) and [this](https://example.org/docs/FAULTS.md).

| [English](README.md) | [русский](docs/ru/README.md) |
|---|---|
| [One](notebooks/en/{LESSON}.ipynb) | [Один](notebooks/ru/{LESSON}.ipynb) |

    make run
"""
READ = (
    f"Read [what can happen](docs/FAULTS.md#What-can-happen), [the licence](LICENSE), "
    f"[lesson 1](notebooks/en/{LESSON}.ipynb) and [this](https://example.org/docs/FAULTS.md)."
)
READ_IN_RUSSIAN = (
    f"Прочтите, [что бывает](docs/FAULTS.md#что-бывает), [лицензию](LICENSE), "
    f"[урок 1](notebooks/en/{LESSON}.ipynb) и [это](https://example.org/docs/FAULTS.md)."
)
FAULTS = "# What can happen\n\nSee [the start](../README.md) and [a lesson](../notebooks/en/)."


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository with a README, a page, and a lesson, translated into Russian."""
    found = make_project(tmp_path, text_cell("title", "# One\n\n[Faults](../../docs/FAULTS.md)"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "LICENSE").write_text("Free.", "utf-8")
    (tmp_path / "README.md").write_text(README, "utf-8")
    (tmp_path / "docs" / "FAULTS.md").write_text(FAULTS, "utf-8")
    assert run(found, "update", "--lang", "ru") == 0
    translate(found, "ru", {"The course": "Курс", READ: READ_IN_RUSSIAN}, "docs/README")
    start = "See [the start](../README.md) and [a lesson](../notebooks/en/)."
    texts = {
        "What can happen": "Что бывает",
        start: "Смотрите [начало](../README.md) и [урок](../notebooks/en/).",
    }
    translate(found, "ru", texts, PAGE)
    translate(
        found,
        "ru",
        {"One": "Один", "[Faults](../../docs/FAULTS.md)": "[Сбои](../../docs/FAULTS.md)"},
    )
    assert run(found, "build", "--lang", "ru") == 0
    return Project.load(tmp_path)


def test_the_readme_comes_first_and_a_page_has_a_file_for_each_language(project: Project) -> None:
    assert project.documents == ["docs/README", PAGE]
    assert project.document("docs/README") == project.root / "README.md"
    assert project.document("docs/README", "ru") == project.root / "docs" / "ru" / "README.md"
    assert project.document(PAGE, "ru") == project.root / "docs" / "ru" / "FAULTS.md"


def test_the_links_of_a_translation_lead_to_pages_of_its_language(project: Project) -> None:
    text = project.document("docs/README", "ru").read_text("utf-8")
    assert "# Курс" in text
    assert "[что бывает](FAULTS.md#что-бывает)" in text
    assert "[лицензию](../../LICENSE)" in text
    assert f"[урок 1](../../notebooks/ru/{LESSON}.ipynb)" in text
    assert "[это](https://example.org/docs/FAULTS.md)" in text
    assert "    make run" in text


def test_the_table_of_languages_stays_in_all_of_them(project: Project) -> None:
    text = project.document("docs/README", "ru").read_text("utf-8")
    assert "| [English](../../README.md) | [русский](README.md) |" in text
    english, russian = (f"../../notebooks/{lang}/{LESSON}.ipynb" for lang in ("en", "ru"))
    row = f"| [One]({english}) | [Один]({russian}) |"
    assert row in text
    assert [part.text for part in documents.messages(project, "docs/README")][2:] == []


def test_only_in_a_table_of_the_readme_does_a_link_to_a_notebook_stay(project: Project) -> None:
    alone = f"[The first](notebooks/en/{LESSON}.ipynb)"
    cell = f"See [One](../notebooks/en/{LESSON}.ipynb)."
    project.document("docs/README").write_text(f"{README}\n{alone}\n", "utf-8")
    project.document(PAGE).write_text(f"| {cell} |\n|---|\n", "utf-8")
    assert alone in [part.text for part in documents.messages(project, "docs/README")]
    assert [part.text for part in documents.messages(project, PAGE)] == [cell]


def test_a_page_of_docs_leads_up_one_folder_more(project: Project) -> None:
    text = project.document(PAGE, "ru").read_text("utf-8")
    assert "[начало](README.md) и [урок](../../notebooks/ru)" in text


def test_a_picture_is_shown_in_the_language_where_it_was_taken_in_it(project: Project) -> None:
    shown = "docs/pictures/panel.png"
    assert documents.in_language(project, shown, "ru") == shown
    own = project.root / "docs" / "ru" / "pictures" / "panel.png"
    own.parent.mkdir()
    own.write_bytes(b"")
    assert documents.in_language(project, shown, "ru") == "docs/ru/pictures/panel.png"


def test_a_translated_lesson_leads_to_the_page_in_its_language(project: Project) -> None:
    assert "(../../docs/ru/FAULTS.md)" in project.notebook(LESSON, "ru").read_text("utf-8")


def test_a_document_in_the_root_has_its_translations_in_docs() -> None:
    page = "[a](../../SECURITY.md) [b](../../docs/FAULTS.md) [c](../../tests/README.md)"
    links = "[a](../../docs/ru/SECURITY.md) [b](../../docs/ru/FAULTS.md) [c](../../tests/README.md)"
    assert PAGE_LINK.sub(r"\g<1>docs/ru/", page) == links
    assert structure.same_in_every_language("../../docs/ru/SECURITY.md") == "../../SECURITY.md"


def test_a_complete_translation_has_no_finding(project: Project) -> None:
    found = whats([finding for finding in checks.check(project, ["ru"]) if not finding.advisory])
    assert "docs" not in found


def test_a_document_that_was_edited_is_found(project: Project) -> None:
    path = project.document(PAGE, "ru")
    path.write_text(path.read_text("utf-8") + "Ещё.", "utf-8")
    assert "docs/ru/FAULTS.md: the document differs from the result of a build" in whats(
        list(checks.check(project, ["ru"]))
    )


def test_a_link_to_a_heading_that_is_not_there_is_found(project: Project) -> None:
    wrong = READ_IN_RUSSIAN.replace("#что-бывает", "#чего-не-бывает")
    translate(project, "ru", {READ: wrong}, "docs/README")
    found = whats(list(checks.check(project, ["ru"])))
    assert "FAULTS.md has no heading #чего-не-бывает" in found


def test_it_is_found_from_the_command_line_too(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = READ_IN_RUSSIAN.replace("#что-бывает", "#чего-не-бывает")
    translate(project, "ru", {READ: wrong}, "docs/README")
    monkeypatch.chdir(project.root)
    [(link, why)] = documents.broken_links(Project.load(Path()), "docs/README", "ru")
    assert (link, why) == ("FAULTS.md#чего-не-бывает", "FAULTS.md has no heading #чего-не-бывает")


def test_a_translation_that_lost_its_link_is_found(project: Project) -> None:
    translate(project, "ru", {READ: "Прочтите."}, "docs/README")
    assert "link to docs/FAULTS.md" in whats(list(checks.check(project, ["ru"])))


def test_a_stray_document_is_found(project: Project) -> None:
    (project.root / "docs" / "ru" / "OLD.md").write_text("Старое.", "utf-8")
    assert "docs/ru/OLD.md: no English page has this name" in whats(
        list(checks.check(project, ["ru"]))
    )


def test_what_is_not_translated_stays_english_and_is_told(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    page = project.root / "docs" / "FAULTS.md"
    page.write_text(FAULTS.replace("What can happen", "What could happen"), "utf-8")
    assert run(project, "update", "--lang", "ru") == 0
    assert run(project, "build", "--lang", "ru") == 0
    assert "# What could happen" in project.document(PAGE, "ru").read_text("utf-8")
    assert "English kept, changed in English: 'What could happen'" in capsys.readouterr().out
