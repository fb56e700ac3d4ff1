"""Building notebooks: bytes kept, English kept and reported, outputs, badges, execution."""

from __future__ import annotations

import cProfile
import json
import pstats
import shutil
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT
from tests.support.l10n_project import (
    FOUR,
    LESSON,
    Cell,
    cell_of,
    code_cell,
    make_project,
    run,
    text_cell,
    translate,
    whats,
)
from tools.l10n import build, catalog, checks, citation
from tools.lessons import notebook
from tools.lessons.project import Project

NOTEBOOKS = Project.load(ROOT).notebooks
LINK = "https://github.com/a/b/blob/main/notebooks/en/02_x.ipynb"


def lesson() -> list[Cell]:
    return [
        text_cell("title", f"# A title\n\nTwo workers train, see [more]({LINK}).\n"),
        code_cell("code", "print('Two workers train')", output="Two workers train\n"),
        code_cell("panel", 'show(lang="en")  # lang', "l10n-lang"),
    ]


@pytest.mark.parametrize("domain", NOTEBOOKS)
def test_english_built_from_an_empty_catalog_is_its_source_byte_for_byte(domain: str) -> None:
    project = Project.load(ROOT)
    source = project.notebook(domain).read_bytes()
    built = build.build(project, domain, "en", catalog.from_messages([], "en"))
    assert built.text.encode() == source
    assert notebook.dumps(notebook.parse(source.decode(), domain)).encode() == source


def test_a_notebook_of_another_make_keeps_its_bytes_too(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson())
    path = project.notebook(LESSON)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=2), "utf-8")
    before = path.read_bytes()
    assert run(project, "build", "--lang", "en") == 0
    assert path.read_bytes() == before


def test_a_cell_without_an_id_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = text_cell("a", "Text")
    del cell["id"]
    assert run(make_project(tmp_path, cell), "build") == 1
    assert "cell 1 has no id" in capsys.readouterr().err


def test_an_untranslated_build_is_english_but_for_the_language_it_names(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson())
    run(project, "update", "--lang", "zh")
    run(project, "build")
    english, chinese = (notebook.read(project.notebook(LESSON, lang)) for lang in ("en", "zh"))
    assert [cell["id"] for cell in chinese["cells"]] == [cell["id"] for cell in english["cells"]]
    assert notebook.code(chinese) == [
        ("code", "print('Two workers train')"),
        ("panel", 'show(lang="zh")  # lang'),
    ]


def test_a_translation_is_put_in_place_and_links_stay_in_the_language(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson())
    run(project, "update", "--lang", "ru")
    english = f"Two workers train, see [more]({LINK})."
    translate(project, "ru", {"A title": "Заголовок", english: f"Учатся двое: [ещё]({LINK})."})
    run(project, "build")
    text = notebook.source(cell_of(project, "ru", "title"))
    assert text == f"# Заголовок\n\nУчатся двое: [ещё]({LINK.replace('/en/', '/ru/')}).\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('Panel(lang="en")', 'Panel(lang="ru")'),
        ("LANG = 'en'", "LANG = 'ru'"),
        ('set_language("en")', 'set_language("ru")'),
        ('slang("en"); x = "en"', 'slang("en"); x = "en"'),
    ],
)
def test_the_tagged_cell_names_the_language(code: str, expected: str) -> None:
    assert build.in_language(code, "ru") == expected


def test_a_second_build_changes_no_byte(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson(), messages=True)
    run(project, "update", "--lang", *FOUR)
    run(project, "build")
    files = [path for path in tmp_path.rglob("*.*") if path.suffix in (".ipynb", ".mo", ".po")]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    run(project, "update")
    run(project, "build")
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    assert len(files) == 5 + 4 + 4 + 4


def test_english_that_is_kept_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path, *lesson())
    run(project, "update", "--lang", "ko")
    translate(project, "ko", {"A title": "제목"})
    run(project, "build", "--lang", "ko")
    printed = capsys.readouterr().out
    assert "notebooks/ko/01_first.ipynb, 1 of 2 messages" in printed
    assert "English kept in cell title, not translated: 'Two workers train, see" in printed


def test_outputs_stay_while_the_code_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path, *lesson())
    run(project, "update", "--lang", "ru")
    run(project, "build")
    path = project.notebook(LESSON, "ru")
    assert "without outputs: it is new" in capsys.readouterr().out
    stored = notebook.read(path)
    stored["cells"][1]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["2\n"]}]
    stored["cells"][1]["execution_count"] = 7
    path.write_text(notebook.dumps(stored), "utf-8")
    translate(project, "ru", {"A title": "Заголовок"})
    run(project, "build")
    assert cell_of(project, "ru", "code")["execution_count"] == 7
    assert "without outputs" not in capsys.readouterr().out


def test_outputs_go_when_the_code_changes_and_the_build_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path, *lesson())
    run(project, "update", "--lang", "ru")
    run(project, "build")
    capsys.readouterr()
    make_project(tmp_path, *lesson(), code_cell("new", "1 + 1"))
    run(project, "build", "--lang", "ru")
    assert "without outputs: its code has changed" in capsys.readouterr().out
    assert cell_of(project, "ru", "code")["outputs"] == []


def test_what_differs_from_run_to_run_is_not_carried_over(tmp_path: Path) -> None:
    cell = code_cell("code", "1")
    cell["metadata"]["execution"] = {"iopub.status.busy": "2026-01-01T00:00:00Z"}
    project = make_project(tmp_path, text_cell("a", "Text"), cell)
    run(project, "update", "--lang", "ru")
    run(project, "build")
    assert cell_of(project, "ru", "code")["metadata"] == {}
    assert cell_of(project, "en", "code")["metadata"] != {}


def test_executing_stores_the_outputs_of_the_language(tmp_path: Path) -> None:
    code = 'lang="en"\nfrom pathlib import Path\nprint(lang, Path.cwd().name)'
    project = make_project(
        tmp_path, text_cell("a", "Text"), code_cell("who", code, "l10n-lang", count=None)
    )
    run(project, "update", "--lang", "es")
    assert run(project, "build", "--execute") == 0
    for lang in ("en", "es"):
        cell = cell_of(project, lang, "who")
        assert cell["outputs"][0]["text"] == [f"{lang} {lang}\n"]
        assert cell["execution_count"] == 1
        assert cell["metadata"] == {"tags": ["l10n-lang"]}
    before = project.notebook(LESSON, "es").read_bytes()
    run(project, "build")
    assert project.notebook(LESSON, "es").read_bytes() == before


def test_standalone_cells_are_executed_alone_and_the_others_keep_their_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = code_cell("trained", "print(open('nowhere'))", output="98 %\n", count=1)
    project = make_project(tmp_path, *lesson(), trained)
    run(project, "update", "--lang", "ko")
    run(project, "build", "--lang", "ko")
    korean = notebook.read(project.notebook(LESSON, "ko"))
    notebook.copy_outputs(notebook.read(project.notebook(LESSON)), korean)
    project.notebook(LESSON, "ko").write_text(notebook.dumps(korean), "utf-8")
    alone = code_cell(
        "ring",
        "from helpers.i18n import language\nprint(language())\n1",
        "self-contained",
        count=None,
    )
    make_project(tmp_path, *lesson(), alone, trained)
    capsys.readouterr()
    assert run(project, "build", "--lang", "ko") == 0
    assert "with cells without outputs" in capsys.readouterr().out
    assert run(project, "build", "--refresh", "--lang", "en", "ko") == 0
    assert "without outputs" not in capsys.readouterr().out
    for lang in ("en", "ko"):
        assert cell_of(project, lang, "ring")["outputs"][0]["text"] == [f"{lang}\n"]
        assert cell_of(project, lang, "trained")["outputs"][0]["text"] == ["98 %\n"]
        counts = [cell_of(project, lang, name)["execution_count"] for name in ("ring", "trained")]
        assert counts[1] == counts[0] + 1
        assert cell_of(project, lang, "ring")["outputs"][1]["execution_count"] == counts[0]
    before = project.notebook(LESSON, "ko").read_bytes()
    run(project, "build")
    assert project.notebook(LESSON, "ko").read_bytes() == before
    make_project(tmp_path, *lesson(), {**alone, "source": ["1"]}, trained)
    run(project, "build", "--lang", "ko")
    assert cell_of(project, "ko", "ring")["outputs"] == []
    assert cell_of(project, "ko", "trained")["outputs"] != []


def test_badges_lead_to_the_notebook_in_its_language(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson(), repository="https://github.com/a/b.git/")
    (tmp_path / "tools" / "l10n").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "l10n" / "badges.py", tmp_path / "tools" / "l10n")
    run(project, "update", "--lang", "ru")
    translate(project, "ru", {"Download": "Скачать"}, domain="helpers")
    run(project, "build")
    base = "https://colab.research.google.com/github/a/b/blob/v1.2/notebooks"
    for lang in ("en", "ru"):
        text = notebook.source(cell_of(project, lang, "badges"))
        assert f"[Open in Colab]({base}/{lang}/01_first.ipynb)" in text
        path = f"notebooks/{lang}/01_first.ipynb"
        assert f"(https://mybinder.org/v2/gh/a/b/v1.2?labpath={path})" in text
        assert f"(https://github.com/a/b/blob/v1.2/{path})" in text
        assert [cell["id"] for cell in notebook.read(tmp_path / path)["cells"]][:2] == [
            "title",
            "badges",
        ]
    assert "[Скачать](https://raw.githubusercontent.com/a/b/v1.2/notebooks/ru/" in text
    assert 'msgid "[Open' not in project.catalog(LESSON, "ru").read_text("utf-8")
    assert not whats(list(checks.check(project, ["en"])))


def test_a_page_has_the_badges_of_the_course_below_its_title_once(tmp_path: Path) -> None:
    page = "# The course\n\nText.\n"
    homeless = make_project(tmp_path, *lesson())
    (tmp_path / "README.md").write_text(page, "utf-8")
    project = make_project(tmp_path, *lesson(), repository="https://github.com/a/b")
    assert "its address or version differs" in whats(list(checks.check(project, ["en"])))
    run(project, "build")
    first = (tmp_path / "README.md").read_text("utf-8")
    title, line, rest = first.split("\n\n")
    assert (title, rest) == ("# The course", "Text.\n")
    assert "(https://codespaces.new/a/b?quickstart=1)" in line
    assert "(https://github.com/a/b/archive/refs/tags/v1.2.zip)" in line
    assert build.page(project, first, "en") == first
    assert build.page(homeless, first, "en") == page


@pytest.mark.parametrize("value", ["'https://example.org/x'", "7"])
def test_a_repository_that_colab_cannot_open_is_refused(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path, *lesson())
    path = tmp_path / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace('repository = ""', f"repository = {value}"))
    assert run(project, "build") == 1
    assert f"repository = {value} in pyproject.toml is not an address" in capsys.readouterr().err


def test_a_version_that_looks_like_a_number_is_cited_as_it_is() -> None:
    text = citation.written("version: 1.9\n", Project(ROOT, version="1.10"))
    assert yaml.safe_load(text) == {"version": "1.10"}


def test_the_messages_of_helpers_are_compiled_where_the_package_reads_them(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson(), messages=True)
    run(project, "update", "--lang", "es")
    translate(project, "es", {"ready": "listo"}, domain="helpers")
    run(project, "build")
    assert b"listo" in project.compiled_helpers("es").read_bytes()


def test_a_language_without_catalogs_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path, *lesson())
    assert run(project, "build", "--lang", "fr") == 1
    assert "python -m tools.l10n update --lang fr" in capsys.readouterr().err


def test_a_sixth_language_is_added_with_one_command(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson(), messages=True)
    run(project, "update", "--lang", *FOUR)
    (tmp_path / "locales" / "fr").mkdir()
    assert run(project, "update", "--lang", "fr") == 0
    translate(project, "fr", {"A title": "Un titre"})
    assert run(project, "build", "--lang", "fr") == 0
    assert notebook.source(cell_of(project, "fr", "title")).startswith("# Un titre\n")
    assert run(project, "check", "--lang", "fr") == 0  # not released, so it may be incomplete


def test_updating_and_building_four_languages_costs_no_more_for_a_cell_of_many(
    tmp_path: Path,
) -> None:
    def calls_for_a_cell(count: int) -> float:
        sentences = [f"# Part {n}\n\nA sentence about worker {n}." for n in range(count)]
        cells = [text_cell(f"c{n}", sentence) for n, sentence in enumerate(sentences)]
        folder = tmp_path / str(count)
        folder.mkdir()
        project = make_project(folder, *cells)
        with cProfile.Profile() as profile:
            run(project, "update", "--lang", *FOUR)
            run(project, "build")
        return float(pstats.Stats(profile).total_calls) / count  # type: ignore[attr-defined]

    assert calls_for_a_cell(200) < 1.2 * calls_for_a_cell(50)


def test_a_fresh_cell_is_executed_alone_once_and_then_keeps_its_outputs(tmp_path: Path) -> None:
    """It trains, so its output differs from run to run."""
    trained = code_cell("trained", "print(open('nowhere'))", output="98 %\n", count=1)
    random = code_cell("watch", "import time\nprint(time.time_ns())", "volatile", count=None)
    project = make_project(tmp_path, *lesson(), random, trained)
    run(project, "update", "--lang", "ko")
    assert run(project, "build", "--refresh", "--lang", "en") == 0
    first = cell_of(project, "en", "watch")
    assert first["outputs"] and first["execution_count"]
    assert cell_of(project, "en", "trained")["outputs"][0]["text"] == ["98 %\n"]
    run(project, "build", "--refresh", "--lang", "en")
    assert cell_of(project, "en", "watch") == first
    assert run(project, "build", "--refresh", "--lang", "ko") == 0
    korean = cell_of(project, "ko", "watch")
    assert korean["outputs"] and korean["outputs"] != first["outputs"]
    run(project, "build", "--refresh", "--lang", "ko")
    assert cell_of(project, "ko", "watch") == korean
    english = notebook.read(project.notebook(LESSON))
    [changed] = notebook.fresh(english)
    notebook.set_source(changed, "import time\nprint(1)")
    project.notebook(LESSON).write_text(notebook.dumps(english), "utf-8")
    run(project, "build", "--lang", "ko")
    assert cell_of(project, "ko", "watch")["outputs"] == []
