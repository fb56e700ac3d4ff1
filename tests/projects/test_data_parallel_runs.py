"""Project 2 with real processes: right designs, wrong ones, and the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.course.check import check, find_task
from helpers.course.projects import data_parallel_runs
from helpers.course.projects.report import report
from helpers.errors import ConfigError
from tests.projects.data_parallel_designs import NAME, RING, reference, right, ring, solution, wrong

POINTS = find_task(NAME).points
# A case that takes two seconds, for `make test`.
SHORT: dict[str, Any] = {
    "steps": [[((3, 2, 2), [[1, 1]] * 2, 1)]],
    "uneven": [[((3, 2, 2), [[1, 2], [0, 1]], 1)]],
    "starts": [[((3, 2, 2), [[1, 1]], 1, False)]],
    "traffic": ((40, 40, 30), [[1, 1]] * 2, 5000),
    "timeout": 0.5,
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook's folder has only the module of project 1."""
    monkeypatch.chdir(tmp_path)
    Path(f"{RING}.py").write_text(ring(), "utf-8")


def module(code: str) -> None:
    Path(f"{NAME}.py").write_text(code, "utf-8")


def test_the_reference_earns_all_points_in_a_short_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_parallel_runs, "EARLY", 0.01)
    module(reference())
    assert check(NAME, **SHORT) == POINTS
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{NAME}: 20 of 20 points"
    assert [line[:3] for line in printed[1:]] == ["  ✓"] * 9


def test_the_solution_imports_the_solution_of_project_1() -> None:
    assert solution("ring") == ring()


def test_an_empty_module_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    module("def connect(*arguments):\n    raise NotImplementedError()\n")
    assert check(NAME) == 0
    assert "found: no answer yet" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="does not work with N = 2 yet"):
        report(NAME)


@pytest.mark.grading
@pytest.mark.parametrize("name", right())
def test_a_right_design_earns_all_points(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module(right()[name])
    assert check(NAME) == POINTS, capsys.readouterr().out


@pytest.mark.grading
@pytest.mark.parametrize("name", wrong())
def test_a_wrong_design_loses_points_and_gets_a_useful_message(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = wrong()[name]
    module(case.code)
    earned, printed = check(NAME), capsys.readouterr().out
    assert earned == case.points < POINTS, printed
    for text in case.says:
        assert text in printed
    failed = printed.count("✗")
    for word in ("expected: ", "found: ", "hint: "):
        assert printed.count(word) == failed > 0


@pytest.mark.grading
@pytest.mark.parametrize("name", ["thread pool", "star and queue"])
def test_the_chart_of_a_module_shows_all_numbers_next_to_their_formulas(name: str) -> None:
    module(right()[name])
    drawing = report(NAME)
    assert drawing.svg().count("<circle") == 1 + 9
    assert "MB sent in a step: 1.316 with N = 2 (formula 1.316)" in drawing.label
