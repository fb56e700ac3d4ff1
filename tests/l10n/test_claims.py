"""Claims: the statements of a lesson about its numbers are true of the stored numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.l10n_project import make_project, notebook_text, text_cell
from tools.l10n import lesson_checks
from tools.l10n.build import Built
from tools.lessons import claims, execute
from tools.lessons.project import Project, ToolError

PROJECT = Project.load(ROOT)
PRINTED = """one worker: 13,599 examples/s, 98.5 %
  2 x 64: -7 ms"""


def code_cell(source: str, *held: str, printed: str = "") -> dict[str, object]:
    output = {"output_type": "stream", "name": "stdout", "text": [printed]}
    return {
        "cell_type": "code",
        "id": "speed",
        "metadata": {"assertions": list(held)},
        "source": [source],
        "outputs": [output] if printed else [],
        "execution_count": 1 if printed else None,
    }


def test_numbers_are_read_as_they_are_printed() -> None:
    cell = code_cell("print()", printed=PRINTED)
    assert claims.numbers(cell["outputs"]) == [13599, 98.5, 2, 64, -7]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claim", "holds"),
    [("n[0] > 13_000", True), ("n[0] < n[1]", False), ("n[9] > 0", False), ("results[0]", False)],
)
def test_a_claim_is_held_against_what_was_printed(claim: str, holds: bool) -> None:
    text = notebook_text(code_cell("print()", claim, printed=PRINTED))
    assert list(claims.broken(text, "x")) == ([] if holds else [("speed", claim)])


def claimed() -> list[tuple[str, str]]:
    """The lessons that have claims, in each language."""
    return [
        (domain, lang)
        for lang in ("en", *PROJECT.languages)
        for domain in PROJECT.notebooks
        if '"assertions"' in PROJECT.notebook(domain, lang).read_text("utf-8")
    ]


@pytest.mark.parametrize(("domain", "lang"), claimed())
def test_the_stored_outputs_hold_to_every_claim(domain: str, lang: str) -> None:
    path = PROJECT.notebook(domain, lang)
    assert not list(claims.broken(path.read_text("utf-8"), str(path)))


def test_every_language_has_the_claims_of_the_english_lessons() -> None:
    by_language = {
        lang: [domain for domain, other in claimed() if other == lang]
        for lang in ("en", *PROJECT.languages)
    }
    assert len(by_language["en"]) >= 4
    assert all(domains == by_language["en"] for domains in by_language.values())


def test_a_doctored_output_is_a_finding(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", "Text."))
    path = project.notebook("01_x")
    text = notebook_text(code_cell("print()", "n[0] > 13_000", printed=PRINTED))

    def found() -> list[str]:
        path.write_text(text, "utf-8")
        built = Built(text, messages=0, untranslated=[], outputs="kept")
        return [str(f) for f in lesson_checks.freshness_problems(project, "01_x", "en", built)]

    assert found() == []
    text = text.replace("13,599", "12,599")
    assert ["contradicts the claim" in finding for finding in found()] == [True]


@pytest.mark.lessons
def test_a_run_that_contradicts_a_claim_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = tmp_path / "runs"
    source = f"runs = open({str(counted)!r}, 'a'); runs.write('x'); runs.close()\n"
    source += f"print(len(open({str(counted)!r}).read()))"
    text = notebook_text(code_cell(source, "n[0] == 2"))
    done = json.loads(execute.execute(text, tmp_path / "x.ipynb"))
    assert done["cells"][0]["outputs"][0]["text"] == ["2\n"]  # the second run
    never = notebook_text(code_cell(source, "n[0] < 0"))
    with pytest.raises(ToolError, match=r"cell speed: n\[0\] < 0"):
        execute.execute(never, tmp_path / "x.ipynb")
    assert len(counted.read_text()) == 2 + execute.ATTEMPTS
