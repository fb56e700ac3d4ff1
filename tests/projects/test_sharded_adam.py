"""Project 3 with real processes: right designs, wrong ones, and the chart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from helpers.course.check import check, find_task
from helpers.course.projects.report import report
from tests.projects.sharded_adam_designs import NAME, reference, right, wrong

POINTS = find_task(NAME).points
# A case that takes about two seconds, for `make test`.
SHORT: dict[str, Any] = {
    "weights": [(3, [(6, 2)])],
    "lengths": [(3, [(4,), (1,)])],
    "traffic": [(2, [(100, 100)])],
    "memory": [(2, [(1000, 2000)])],
    "restore": [(2, 1, [(100, 20)])],
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook's folder is empty."""
    monkeypatch.chdir(tmp_path)


def module(code: str) -> None:
    Path(f"{NAME}.py").write_text(code, "utf-8")


def test_the_reference_earns_all_points_in_a_short_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module(reference())
    earned, printed = check(NAME, **SHORT), capsys.readouterr().out
    assert earned == POINTS, printed
    assert printed.startswith(f"{NAME}: 20 of 20 points")


@pytest.mark.grading
def test_an_empty_module_has_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    module("def create_optimizer(*arguments):\n    raise NotImplementedError()\n")
    assert check(NAME) == 0
    assert "found: no answer yet" in capsys.readouterr().out


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
def test_the_chart_of_a_module_shows_all_numbers_next_to_their_formulas() -> None:
    module(reference())
    drawing = report(NAME)
    assert drawing.svg().count("<circle") == 1 + (12 if os.path.exists("/proc") else 4)
    assert "MB sent in a step: 0 with N = 1 (formula 0), 16.0" in drawing.label
    assert "(formula 36.02)" in drawing.label
