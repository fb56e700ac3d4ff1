"""Output of cells for the reader, in five languages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers import i18n, print_tr, tr
from tests.support import ROOT
from tests.support.l10n_project import (
    code_cell,
    make_project,
    notebook_text,
    run,
    text_cell,
    translate,
)
from tools.l10n import catalog, extract
from tools.lessons import claims, notebook
from tools.lessons.project import HELPERS, Project

PROJECT = Project.load(ROOT)
TEXTS = {
    "step {step:,}: loss {loss:.2f}": "шаг {step:,}: потери {loss:.2f}",
    "shards: {sizes}": "части: {sizes}",
    "ready": "готово",
}
WORD = re.compile(r"\b[a-z]{3,}\b")  # names of variables and classes are the same everywhere


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """One lesson whose cells print these texts, translated into Russian and compiled."""
    cells = [
        code_cell(f"c{n}", f"print_tr({text!r})\n", count=None) for n, text in enumerate(TEXTS)
    ]
    made = make_project(tmp_path, text_cell("a", "Text"), messages=True)
    made.notebook("01_x").write_text(notebook_text(text_cell("a", "Text"), *cells), "utf-8")
    run(made, "update", "--lang", "ru")
    translate(made, "ru", TEXTS, domain=HELPERS)
    run(made, "build")
    monkeypatch.setattr(i18n, "LOCALE_DIR", tmp_path / "helpers" / "locale")
    i18n.set_language("ru")
    yield made
    i18n.set_language("en")


def test_messages_of_cells_are_filed_with_those_of_the_package(project: Project) -> None:
    found = catalog.read(project.catalog(HELPERS, "ru"), "ru")
    message = found.get("ready")
    assert message is not None
    assert message.auto_comments == ["printed, cell c2"]
    assert "notebooks/en/01_x.ipynb" in [file for file, _ in message.locations]
    flags = found.get("shards: {sizes}")
    assert flags is not None
    assert "python-brace-format" in flags.flags


def test_a_cell_speaks_the_language_of_its_notebook(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    print_tr("step {step:,}: loss {loss:.2f}", step=1404, loss=np.float32(0.25))
    assert capsys.readouterr().out == "шаг 1404: потери 0,25\n"
    i18n.set_language("en")
    print_tr("step {step:,}: loss {loss:.2f}", step=1404, loss=np.float32(0.25))
    assert capsys.readouterr().out == "step 1,404: loss 0.25\n"


def test_what_is_not_translated_stays_as_it_was_written(project: Project) -> None:
    assert tr("a reader's own {thing}", thing="cell") == "a reader's own cell"


@pytest.mark.parametrize(
    ("lang", "sizes", "expected"),
    [
        ("ru", [1, 2], "части: 1, 2"),
        ("ru", (0.5, 0.25), "части: 0,5; 0,25"),
        ("en", ["a", "b"], "shards: a, b"),
        ("en", [], "shards: "),
    ],
)
def test_a_list_is_written_as_the_language_writes_lists(
    project: Project, lang: str, sizes: object, expected: str
) -> None:
    i18n.set_language(lang)
    assert tr("shards: {sizes}", sizes=sizes) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ring", "    ring: 1"), ("环", "      环: 1"), ("빠른 것", " 빠른 것: 1")],
)
def test_columns_stand_below_each_other_in_chinese_and_korean(name: str, expected: str) -> None:
    assert tr("{name:>8}: {n}", name=name, n=1) == expected


def test_claims_read_numbers_as_the_language_writes_them() -> None:
    printed = "1 работник: 13\u00a0599,5 примеров/с; 0,98; −7 мс; 12\u00a0%"
    output = [{"output_type": "stream", "name": "stdout", "text": [printed]}]
    assert claims.numbers(output, "ru") == [1, 13599.5, 0.98, 7, 12]


def printed_words(code: str) -> list[str]:
    """The words in the strings of print calls, except values in braces."""
    tree = ast.parse(notebook.python_code({"source": code}))
    prints = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    texts = [
        part.value
        for call in prints
        for argument in call.args
        for part in (argument.values if isinstance(argument, ast.JoinedStr) else [argument])
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    return [word for text in texts for word in WORD.findall(text)]


def test_words_of_prints_are_found() -> None:
    assert printed_words('print(f"{name}: began {epochs}")\nprint("A_B:", x, sep="and")') == [
        "began"
    ]
    assert printed_words('%%workers 0\nprint("began")') == ["began"]
    assert printed_words('%%writefile program.py\nprint("began")') == []


def test_every_lesson_speaks_through_say() -> None:
    lessons = [domain for domain in PROJECT.notebooks if domain not in PROJECT.assignments]
    assert len(lessons) >= 13
    found = {
        (domain, cell["id"]): words
        for domain in lessons
        for cell in notebook.cells(notebook.read(PROJECT.notebook(domain)), "code")
        if (words := printed_words(notebook.source(cell)))
    }
    assert not found
    assert len(list(extract._in_cells(PROJECT))) >= 80
