"""Project 5 with real processes: right designs and wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers.course.check import check, find_task
from helpers.course.projects.group import WORKER
from helpers.course.projects.report import report
from helpers.errors import ConfigError
from tests.projects.parameter_server_designs import NAME, reference, right, wrong
from tests.support.processes import children_of, command_of

POINTS = find_task(NAME).points
# A case that takes two seconds, for `make test`.
SHORT: dict[str, Any] = {
    "rounds": 1,
    "concurrent": [(2, 2, "float32")],
    "slow_pull": [],
    "slow_push": [],
    "stragglers": [(2, 1, 1)],
    "synchronous": [(2, 2, "float64")],
    "dead_worker": [],
    "dead_server": [],
}
# Their threads may fail in other situations too, but fail for certain while a worker is frozen.
RACES = "reads before it receives", "sends what changes"
LIGHT: dict[str, Any] = {
    "rounds": 2,
    "concurrent": [(4, 6, "float32")],
    "stragglers": [(3, 2, 1)],
    "synchronous": [(3, 4, "float32")],
}


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The notebook's folder is empty, and all processes of projects end."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not [child for child in children_of(psutil.Process()) if WORKER in command_of(child)]


def module(code: str) -> None:
    Path(f"{NAME}.py").write_text(code, "utf-8")


def test_the_reference_earns_all_points_in_a_short_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module(reference())
    assert check(NAME, **SHORT) == POINTS == 20, capsys.readouterr().out


def test_an_empty_module_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    module("def serve(*arguments):\n    raise NotImplementedError\n\n\nconnect = serve\n")
    assert check(NAME) == 0
    assert "found: no answer yet" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="does not work with s = 0 yet"):
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
    earned, printed = check(NAME, **LIGHT), capsys.readouterr().out
    assert earned <= case.points if name in RACES else earned == case.points, printed
    assert earned < POINTS
    for text in case.says:
        assert text in printed
    failed = printed.count("✗")
    for word in ("expected: ", "found: ", "hint: "):
        assert printed.count(word) == failed > 0


@pytest.mark.grading
@pytest.mark.parametrize("name", right())
def test_the_chart_of_a_module_shows_all_numbers_next_to_their_formulas(name: str) -> None:
    module(right()[name])
    drawing = report(NAME)
    assert drawing.svg().count("<circle") == 1 + 12
    assert "7 with s = 4 (formula 7)" in drawing.label
    assert "4 with s = 4 (formula 4)" in drawing.label
    assert "2.8 with s = 0 (formula 2.8)" in drawing.label
