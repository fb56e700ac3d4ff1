"""The English checker: the findings of its rules, its sources, and the decreasing baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.l10n_project import LESSON, code_cell, make_project, text_cell
from tools.english import habits, sources
from tools.english.__main__ import main
from tools.english.rules import RULES, findings
from tools.english.sources import Passage

LONG = " ".join(["word"] * 31)


def found_in(text: str) -> list[str]:
    """The names of the rules that find something in a text."""
    passage = Passage("x.md", "", sources.plain(text))
    return [rule.name for rule in RULES for _ in findings(rule, passage)]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Nobody waits, for ever.", ["archaic", "people"]),
        ("Each worker has a process of its own.", ["of its own"]),
        ("Where there is no GPU, it runs on the CPU.", ["where"]),
        ("Keep the folder where the checkpoints are.", []),
        ("Where is the checkpoint? It is on worker 0, if any.", []),
        ("One; two; three.", ["semicolons"]),
        ("One; two.", []),
        (f"{LONG}.", ["long sentence"]),
        (f"{LONG[5:]}. {LONG[5:]}! {LONG[5:]}", []),
        (f"`{LONG}` [{LONG[10:]}](https://example.org/{LONG.replace(' ', '/')}).", []),
        ("A training ends.", ["training"]),
        ("A training run ends.", []),
        ("A deed is a lever.", ["home-made term", "home-made term"]),
        ("`nobody` and connection refused.", []),
    ],
)
def test_a_rule_finds_what_it_names(text: str, rules: list[str]) -> None:
    assert sorted(set(found_in(text))) == sorted(set(rules))


def test_a_home_made_term_is_reported_with_the_standard_one() -> None:
    [rule] = [rule for rule in RULES if rule.name == "home-made term"]
    assert findings(rule, Passage("x.md", "", "It gives no sign of life.")) == [
        "no sign of life → does not respond"
    ]


def test_every_kind_of_text_is_read(tmp_path: Path) -> None:
    project = make_project(
        tmp_path, text_cell("a", "A paragraph."), code_cell("b", "x = 1  # a remark"), messages=True
    )
    (tmp_path / "README.md").write_text("- A list item.\n\nA paragraph.\n\n    code\n", "utf-8")
    (tmp_path / "helpers" / "more.py").write_text('"""A module.\n\n    >>> code\n"""\n', "utf-8")
    found = {(each.file, each.text) for each in sources.passages(project)}
    assert found == {
        (f"notebooks/en/{LESSON}.ipynb", "A paragraph."),
        (f"notebooks/en/{LESSON}.ipynb", "a remark"),
        ("README.md", "A list item."),
        ("README.md", "A paragraph."),
        ("helpers/words.py", "ready"),
        ("helpers/words.py", "x step"),
        ("helpers/words.py", "x steps"),
        ("helpers/more.py", "A module."),
    }


def test_comments_of_a_block_are_one_text_and_those_behind_code_are_not() -> None:
    code = "# One\n# sentence.\nx = 1  # seconds\ny = 2  # bytes\n"
    texts = [found.text for found in sources.of_code(code, "a.py")]
    assert texts == ["One sentence.", "seconds", "bytes"]


def test_each_argument_of_a_docstring_is_a_paragraph() -> None:
    docstring = "One line.\n\nArgs:\n  steps: how many.\n  batch, size: of a worker,\n    in all.\n"
    found = list(sources.paragraphs(docstring))
    assert found == ["One line.", "how many.", "of a worker, in all."]


def test_the_baseline_may_fall_and_not_rise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*command: str) -> int:
        options = ["--root", str(tmp_path), "--baseline", str(tmp_path / "baseline.csv")]
        return main([*options, *command])

    make_project(tmp_path, text_cell("a", "Nobody waits. Nobody asks."))
    assert run("check") == 1
    assert "cell a: people: Nobody" in capsys.readouterr().out
    assert run("baseline") == 1
    assert run("check") == 1
    assert run("baseline", "--reset") == 0
    assert run("check") == 0
    make_project(tmp_path, text_cell("a", "Nobody waits."))
    assert run("check") == 0
    assert "1 ceilings can fall" in capsys.readouterr().out
    assert run("baseline") == 0
    make_project(tmp_path, text_cell("a", "Nobody waits. Nobody asks."))
    assert run("check") == 1


def test_habits_are_counted_in_1000_words() -> None:
    texts = [
        Passage("a.md", "", "one; two three four"),
        Passage("b.py", "docstring of f", "a b c d"),
    ]
    assert habits.rate(habits.HABITS["semicolons"], texts) == 125
    table = habits.table(texts).splitlines()
    assert "| semicolons | 250.00 | 0.00 | " in "\n".join(table)
    assert len(table) == 2 + len(habits.HABITS) + 1
