"""Catalogs: an update keeps some entries, marks some, and leaves the others alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.l10n_project import (
    FOUR,
    LESSON,
    code_cell,
    make_project,
    run,
    text_cell,
    translate,
)
from tools.l10n import catalog
from tools.lessons.project import HELPERS, ToolError

FIRST = "Two workers share the work of one step, and both of them hold the whole model."
SECOND = "A checkpoint is written every hundred steps, and a restart begins there."


@pytest.mark.parametrize("lang", FOUR)
def test_one_command_makes_the_catalogs_of_a_language(tmp_path: Path, lang: str) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST), messages=True)
    assert run(project, "update", "--lang", lang) == 0
    assert project.languages == [lang]
    assert project.catalog(LESSON, lang).exists()
    panel = project.catalog(HELPERS, lang).read_text("utf-8")
    assert 'msgid_plural "{n} steps"' in panel
    forms = {"ru": 3, "zh": 1, "ko": 1, "es": 2}[lang]
    assert panel.count("msgstr[") == forms


def test_a_name_that_is_no_language_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST))
    assert run(project, "update", "--lang", "qqq") == 1
    assert "'qqq' is not a language code" in capsys.readouterr().err
    assert project.languages == []


def test_a_second_update_changes_no_byte(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST), text_cell("b", SECOND), messages=True)
    run(project, "update", "--lang", "ru")
    translate(project, "ru", {FIRST: "Два воркера делят работу."})
    path = project.catalog(LESSON, "ru")
    before = path.read_bytes()
    run(project, "update")
    assert path.read_bytes() == before
    assert b"Date" not in before


def test_a_catalog_says_the_kind_and_the_cell_of_each_use_and_no_line(tmp_path: Path) -> None:
    cells = [text_cell("a", f"# {FIRST}"), text_cell("b", f"- {FIRST}")]
    project = make_project(tmp_path, *cells)
    run(project, "update", "--lang", "ru")
    text = project.catalog(LESSON, "ru").read_text("utf-8")
    entry = "#. heading, cell a\n#. list item, cell b\n#: notebooks/en/01_first.ipynb\nmsgid"
    assert entry in text
    assert text.count("notebooks/en/01_first.ipynb") == 1


def test_prose_with_a_percent_sign_is_no_python_format(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", "It reaches 98 % on MNIST, 13 % of it."))
    run(project, "update", "--lang", "ru")
    assert "format" not in project.catalog(LESSON, "ru").read_text("utf-8")


def test_a_changed_sentence_is_fuzzy_and_remembers_its_english(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST), text_cell("b", SECOND))
    run(project, "update", "--lang", "ru")
    translate(project, "ru", {FIRST: "Первая.", SECOND: "Вторая."})
    path = project.catalog(LESSON, "ru")
    before = path.read_text("utf-8").splitlines()
    make_project(tmp_path, text_cell("a", FIRST.replace("Two", "Three")), text_cell("b", SECOND))
    run(project, "update")
    after = path.read_text("utf-8").splitlines()
    assert [line for line in before if line not in after] == [f'msgid "{FIRST}"']
    assert [line for line in after if line not in before] == [
        "#, fuzzy",
        f'#| msgid "{FIRST}"',
        f'msgid "{FIRST.replace("Two", "Three")}"',
    ]
    run(project, "update")
    assert path.read_text("utf-8").splitlines() == after


def test_a_sentence_written_anew_is_matched_by_its_cell(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST))
    run(project, "update", "--lang", "ru")
    translate(project, "ru", {FIRST: "Первая."})
    make_project(tmp_path, text_cell("a", "The two workers hold one model and share each step."))
    run(project, "update")
    text = project.catalog(LESSON, "ru").read_text("utf-8")
    assert "#, fuzzy" in text
    assert f'#| msgid "{FIRST}"' in text


def test_the_previous_english_survives_a_second_change(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST))
    run(project, "update", "--lang", "ru")
    translate(project, "ru", {FIRST: "Первая."})
    for number in ("Three", "Four"):
        make_project(tmp_path, text_cell("a", FIRST.replace("Two", number)))
        run(project, "update")
    assert f'#| msgid "{FIRST}"' in project.catalog(LESSON, "ru").read_text("utf-8")


def test_a_removed_sentence_comes_back_with_its_translation(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST), text_cell("b", SECOND))
    run(project, "update", "--lang", "ru")
    translate(project, "ru", {FIRST: "Первая.", SECOND: "Вторая."})
    path = project.catalog(LESSON, "ru")
    before = path.read_bytes()
    make_project(tmp_path, text_cell("b", SECOND))
    run(project, "update")
    assert f'#~ msgid "{FIRST}"\n#~ msgstr "Первая."' in path.read_text("utf-8")
    make_project(tmp_path, text_cell("a", FIRST), text_cell("b", SECOND))
    run(project, "update")
    assert path.read_bytes() == before


def test_a_sentence_moved_to_another_file_takes_its_translation_along(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST), text_cell("b", SECOND))
    run(project, "update", "--lang", "ru")
    translate(project, "ru", {FIRST: "Первая.", SECOND: "Вторая."})
    make_project(tmp_path, text_cell("b", SECOND))
    (tmp_path / "README.md").write_text(f"{FIRST}\n\nNew.\n\n{SECOND}\n", "utf-8")
    run(project, "update")
    moved = catalog.read(project.catalog("docs/README", "ru"), "ru")
    found = {message.id: message.string for message in moved if message.id}
    assert found == {FIRST: "Первая.", "New.": "", SECOND: "Вторая."}
    assert not any(message.fuzzy for message in moved if message.id)


def test_what_a_translator_notes_is_kept(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST))
    run(project, "update", "--lang", "ru")
    path = project.catalog(LESSON, "ru")
    path.write_text(path.read_text("utf-8").replace("#. para", "# Ask Mina.\n#. para"), "utf-8")
    run(project, "update")
    assert "# Ask Mina.\n#. paragraph" in path.read_text("utf-8")


def test_a_long_message_is_one_line_and_a_hard_break_makes_two(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", f"{FIRST} {SECOND} \\\n{FIRST}"))
    run(project, "update", "--lang", "ru")
    text = project.catalog(LESSON, "ru").read_text("utf-8")
    assert f'msgid ""\n"{FIRST} {SECOND} \\\\\\n"\n"{FIRST}"\n' in text


def test_a_damaged_catalog_is_named(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST))
    run(project, "update", "--lang", "ru")
    path = project.catalog(LESSON, "ru")
    path.write_text(path.read_text("utf-8").replace('msgstr ""\n', "msgstrx\n"), "utf-8")
    with pytest.raises(ToolError, match=r"01_first\.po is damaged"):
        catalog.read(path, "ru")


def test_extract_writes_a_template_for_a_translation_program(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST), code_cell("c", "print(1)"))
    assert run(project, "extract") == 0
    text = (tmp_path / ".artefacts" / "templates" / f"{LESSON}.pot").read_text("utf-8")
    assert f'msgid "{FIRST}"\nmsgstr ""' in text


def test_an_exercise_has_its_catalog_in_a_sub_folder(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", FIRST))
    folder = tmp_path / "notebooks" / "en" / "exercises"
    folder.mkdir()
    project.notebook(LESSON).rename(folder / "01_shards.ipynb")
    run(project, "update", "--lang", "ru")
    assert (tmp_path / "locales/ru/LC_MESSAGES/exercises/01_shards.po").exists()
    run(project, "build")
    assert (tmp_path / "notebooks/ru/exercises/01_shards.ipynb").exists()
