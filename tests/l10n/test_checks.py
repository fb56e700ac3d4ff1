"""`python -m tools.l10n check`, from the whole process down to each kind of finding."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.l10n_project import (
    FOUR,
    LESSON,
    Cell,
    code_cell,
    make_project,
    notebook_text,
    run,
    text_cell,
    translate,
    whats,
)
from tools.l10n import catalog_checks, checks
from tools.lessons import notebook
from tools.lessons.project import HELPERS, Project, ToolError

TITLE = "A title"
SENTENCE = "All of them read the data and the [end](#The-end)."
END = "The end"
CHANGED = SENTENCE.replace("All", "Most")
TEXTS = {
    "ru": ("Заголовок", "Все читают данные и [конец](#Конец).", "Конец"),
    "zh": ("标题", "全部读取数据和[结尾](#结尾)。", "结尾"),
    "ko": ("제목", "모두 데이터와 [끝](#끝)을 읽습니다.", "끝"),
    "es": ("Un título", "Todos leen los datos y el [final](#El-final).", "El final"),
}


def lesson(sentence: str = SENTENCE, end: str = END) -> list[Cell]:
    return [
        text_cell("title", f"# {TITLE}"),
        text_cell("body", f"{sentence}\n\n## {end}"),
        code_cell("code", "1"),
    ]


def copy_outputs(project: Project) -> None:
    """Replaces `build --execute`."""
    for lang in project.languages:
        path = project.notebook(LESSON, lang)
        built = notebook.read(path)
        notebook.copy_outputs(notebook.read(project.notebook(LESSON)), built)
        path.write_text(notebook.dumps(built), "utf-8")


@pytest.fixture
def released(tmp_path: Path) -> Project:
    """A project that is complete in four languages."""
    project = make_project(tmp_path, *lesson())
    run(project, "update", "--lang", *FOUR)
    for lang, texts in TEXTS.items():
        translate(project, lang, dict(zip((TITLE, SENTENCE, END), texts, strict=True)))
    run(project, "build")
    copy_outputs(project)
    return project


def findings(project: Project, *langs: str) -> str:
    return whats(list(checks.check(project, langs or ("en", *FOUR))))


def test_a_complete_project_has_no_finding(
    released: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(released, "check") == 0, capsys.readouterr().out
    assert "en, es, ko, ru, zh: 0 findings, 0 notes" in capsys.readouterr().out


def test_one_changed_sentence_is_one_fuzzy_message_per_language_until_it_is_mended(
    released: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    make_project(released.root, *lesson(CHANGED))
    run(released, "update")
    for lang in FOUR:
        assert released.catalog(LESSON, lang).read_text("utf-8").count("#, fuzzy") == 1

    run(released, "build")
    printed = capsys.readouterr().out
    assert printed.count("English kept in cell body, changed in English") == 4
    for lang in FOUR:
        assert CHANGED in released.notebook(LESSON, lang).read_text("utf-8")

    assert run(released, "check") == 1
    printed = capsys.readouterr().out
    assert printed.count("the English text has changed since it was translated (fuzzy)") == 4
    assert "4 findings" in printed

    for lang, texts in TEXTS.items():
        translate(released, lang, {CHANGED: texts[1]})
    run(released, "build")
    assert run(released, "check") == 0, capsys.readouterr().out


def test_a_finding_names_the_file_the_cell_the_text_and_the_remedy(released: Project) -> None:
    translate(released, "ru", {TITLE: ""})
    assert findings(released, "ru").startswith("notebooks/ru/01_first.ipynb")
    assert (
        "locales/ru/LC_MESSAGES/01_first.po: heading, cell title: it is not translated. "
        "Translate it.\n    'A title'"
    ) in findings(released, "ru")


def test_an_unreleased_language_may_be_incomplete(released: Project) -> None:
    run(released, "update", "--lang", "fr")
    run(released, "build", "--lang", "fr")
    assert findings(released, "fr") == ""


def spoil_form(project: Project) -> None:
    path = project.catalog(LESSON, "ru")
    path.write_text(path.read_text("utf-8") + '\nmsgid "A title"\nmsgstr "Опять"\n', "utf-8")


def forget_update(project: Project) -> None:
    make_project(project.root, *lesson(CHANGED))


def forget_build(project: Project) -> None:
    translate(project, "ru", {TITLE: "Другой заголовок"})


def remove_notebook(project: Project) -> None:
    project.notebook(LESSON, "ru").unlink()


def remove_catalog(project: Project) -> None:
    project.catalog(LESSON, "ru").unlink()


def edit_built_code(project: Project) -> None:
    path = project.notebook(LESSON, "ru")
    path.write_text(path.read_text("utf-8").replace('"1"', '"2"'), "utf-8")


def clear_outputs(project: Project) -> None:
    path = project.notebook(LESSON, "ru")
    built = notebook.read(path)
    notebook.clear_outputs(built)
    path.write_text(notebook.dumps(built), "utf-8")


def leave_a_notebook(project: Project) -> None:
    shutil.copy(project.notebook(LESSON, "ru"), project.notebook("00_old", "ru"))


def leave_a_catalog(project: Project) -> None:
    shutil.copy(project.catalog(LESSON, "ru"), project.catalog("00_old", "ru"))


def rename_a_heading(project: Project) -> None:
    translate(project, "ru", {END: "Финал"})
    run(project, "build")
    copy_outputs(project)


def lose_a_link(project: Project) -> None:
    translate(project, "ru", {SENTENCE: "Все читают данные и конец."})


def write_a_slip(project: Project) -> None:
    translate(project, "ru", {TITLE: 'Это "заголовок"'})


def translate_badly_by_glossary(project: Project) -> None:
    shutil.copy(ROOT / "locales" / "glossary.csv", project.root / "locales")
    make_project(project.root, *lesson(), text_cell("more", "A worker waits."))
    run(project, "update")
    translate(project, "ru", {"A worker waits.": "Работник ждёт."})


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (spoil_form, "msgfmt --check"),
        (forget_update, "01_first.po: the catalog is not up to date with the English text"),
        (forget_build, "01_first.ipynb: the notebook differs from the result of a build"),
        (remove_notebook, "01_first.ipynb: the notebook has not been built"),
        (remove_catalog, "01_first.po: the catalog does not exist"),
        (edit_built_code, "the notebook differs from the result of a build"),
        (clear_outputs, "cell code: the cell has not been executed"),
        (leave_a_notebook, "00_old.ipynb: no English notebook has this name"),
        (leave_a_catalog, "00_old.po: no English notebook or page has its name"),
        (rename_a_heading, "the link #Конец leads nowhere"),
        (lose_a_link, "link to # is missing or does not render"),
        (write_a_slip, "quotes that are not Russian"),
        (translate_badly_by_glossary, "“Работник” stands for “worker”"),
    ],
)
def test_check_fails_where_something_is_wrong(
    released: Project,
    spoil: Callable[[Project], None],
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil(released)
    assert run(released, "check", "--lang", "ru") == 1
    assert expected in capsys.readouterr().out


def test_outputs_do_not_make_a_notebook_stale(released: Project) -> None:
    path = released.notebook(LESSON, "ru")
    built = notebook.read(path)
    built["cells"][2]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["9\n"]}]
    path.write_text(notebook.dumps(built), "utf-8")
    assert findings(released, "ru") == ""


def test_a_heading_and_its_link_in_other_lessons_are_checked(released: Project) -> None:
    links = "[a](01_first.ipynb#The-end), [b](01_first.ipynb#No), [c](03_x.ipynb), [d](a.svg)"
    text = notebook_text(text_cell("links", links))
    released.notebook("02_second").write_text(text, "utf-8")
    found = findings(released, "en")
    assert "#The-end leads" not in found
    assert "01_first.ipynb has no heading #No" in found
    assert "there is no 03_x.ipynb" in found
    assert "there is no a.svg" in found


def test_a_tagged_cell_that_names_no_language_is_found(tmp_path: Path) -> None:
    project = make_project(tmp_path, code_cell("code", "Panel()", "l10n-lang"))
    assert "names no language" in findings(project, "en")


def test_an_exercise_need_not_be_executed(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson())
    path = project.notebook("exercises/01_x")
    path.parent.mkdir()
    path.write_text(notebook_text(code_cell("todo", "...", count=None)), "utf-8")
    assert findings(project, "en") == ""


def test_the_compiled_messages_of_helpers_must_be_fresh(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson(), messages=True)
    run(project, "update", "--lang", "fr")
    assert "helpers.mo: it differs from the compiled helpers.po" in findings(project, "fr")
    run(project, "build")
    assert findings(project, "fr") == ""


def test_a_plural_form_for_several_numbers_keeps_the_number(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson(), messages=True)
    run(project, "update", "--lang", "ru", "es")
    for lang, forms in (("ru", ("шаг", "{n} шага", "{n} шагов")), ("es", ("{n} paso", "pasos"))):
        translate(project, lang, {"{n} step": forms}, domain=HELPERS)  # type: ignore[dict-item]
        found = whats(list(catalog_checks.message_problems(project, HELPERS, lang)))
        assert found.count("placeholder {n} is missing") == 1


def test_a_missing_msgfmt_is_said_in_a_sentence(
    released: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(ToolError, match="msgfmt is not installed"):
        findings(released, "ru")


def test_a_folder_that_is_no_repository_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ToolError, match=r"pyproject\.toml does not exist"):
        Project.load(tmp_path)


def test_the_links_of_this_repository_lead_somewhere() -> None:
    project = Project.load(ROOT)
    found = whats(list(checks.check(project, ["en"])))
    assert "leads nowhere" not in found
    assert "differs from the result of a build" not in found
