"""All projects: right designs earn all points, and wrong ones lose some with a useful message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.course.check import PROJECTS, check, find_task
from helpers.course.projects.report import report
from helpers.errors import ConfigError
from tests.projects import (
    data_parallel_designs,
    model_parallel_designs,
    parameter_server_designs,
    ring_all_reduce_designs,
    sharded_adam_designs,
    supervisor_designs,
)
from tests.projects.designs import Designs, write

ALL: tuple[Designs, ...] = (
    ring_all_reduce_designs.DESIGNS,
    data_parallel_designs.DESIGNS,
    sharded_adam_designs.DESIGNS,
    model_parallel_designs.DESIGNS,
    parameter_server_designs.DESIGNS,
    supervisor_designs.DESIGNS,
)
EACH = [pytest.param(one, id=one.project) for one in ALL]
RIGHT = [pytest.param(one, name, id=f"{one.project}, {name}") for one in ALL for name in one.right]
WRONG = [pytest.param(one, name, id=f"{one.project}, {name}") for one in ALL for name in one.wrong]
pytestmark = pytest.mark.usefixtures("project_folder")


def prepare(designs: Designs, code: str) -> str:
    """Writes a module and those that it needs, and returns the name of the project."""
    for name, other in designs.files.items():
        Path(name).write_text(other, "utf-8")
    write(designs.project, code)
    return designs.project


def grade(name: str, capsys: pytest.CaptureFixture[str], **case: Any) -> tuple[float, str]:
    """The points of a module, and the messages."""
    return check(name, **case), capsys.readouterr().out


def test_each_project_has_three_right_and_eight_wrong_designs() -> None:
    assert [designs.project for designs in ALL] == list(PROJECTS)
    for designs in ALL:
        assert len(designs.right) >= 3
        assert len(designs.wrong) >= 8
        assert set(designs.races) <= designs.wrong.keys()


@pytest.mark.parametrize("designs", EACH)
def test_the_reference_earns_all_points_in_a_short_case(
    designs: Designs, capsys: pytest.CaptureFixture[str]
) -> None:
    name = prepare(designs, next(iter(designs.right.values())))
    earned, printed = grade(name, capsys, **designs.short)
    assert earned == 20, printed
    first, *lines = printed.splitlines()
    assert first == f"{name}: 20 of 20 points"
    assert [line[:3] for line in lines] == ["  ✓"] * len(find_task(name).criteria)


@pytest.mark.parametrize("designs", EACH)
def test_a_missing_and_an_empty_module_are_reported(
    designs: Designs, capsys: pytest.CaptureFixture[str]
) -> None:
    earned, printed = grade(designs.project, capsys)
    assert earned == 0
    assert "found: no file of that name" in printed
    with pytest.raises(ConfigError, match=f"There is no file {designs.project}"):
        report(designs.project)
    name = prepare(designs, designs.empty)
    earned, printed = grade(name, capsys)
    assert earned == 0
    assert "found: no answer yet" in printed
    with pytest.raises(ConfigError, match=r"does not work with . = \d yet"):
        report(name)


RAISES = """
class Raises:
    def __getattr__(self, name):
        return self.fail

    def fail(self, *arguments, **names):
        print("about to fail")
        raise RuntimeError("always")


def connect(*arguments, **names):
    return Raises()


create_optimizer = connect
serve = supervise = Raises().fail
"""


@pytest.mark.parametrize("designs", EACH)
def test_a_module_without_functions_and_one_that_always_raises_earn_nothing(
    designs: Designs, capsys: pytest.CaptureFixture[str]
) -> None:
    earned, printed = grade(prepare(designs, ""), capsys)
    assert earned == 0
    assert "has no attribute" in printed
    assert "hint: Compare the functions of your module" in printed
    earned, printed = grade(prepare(designs, RAISES), capsys)
    assert earned == 0
    assert f"raised RuntimeError: always ({designs.project}.py, line 8)" in printed
    name = f"{designs.project}-output.txt"
    assert f"What your module printed is in the file {name}." in printed
    assert "printed:\nabout to fail\n" in Path(name).read_text("utf-8")


def test_an_empty_module_of_project_1_is_named_in_project_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = prepare(data_parallel_designs.DESIGNS, data_parallel_designs.reference())
    write("ring_all_reduce", ring_all_reduce_designs.DESIGNS.empty)
    earned, printed = grade(name, capsys)
    assert earned == 0
    assert "process 0 raised NotImplementedError (ring_all_reduce.py, line 2)" in printed
    assert "hint: Write your answer in place of the line that raises NotImpl" in printed


@pytest.mark.grading
@pytest.mark.parametrize(("designs", "name"), RIGHT)
def test_a_right_design_earns_all_points(
    designs: Designs, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    earned, printed = grade(prepare(designs, designs.right[name]), capsys)
    assert earned == 20, printed


@pytest.mark.grading
@pytest.mark.parametrize(("designs", "name"), WRONG)
def test_a_wrong_design_loses_points_and_gets_a_useful_message(
    designs: Designs, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = designs.wrong[name]
    earned, printed = grade(prepare(designs, wrong.code), capsys, **designs.case)
    if name in designs.races:
        assert earned <= wrong.points, printed
    else:
        assert earned == wrong.points, printed
    assert earned < 20
    missing = [text for text in wrong.says if text not in printed]
    assert missing == [], printed
    failed = printed.count("✗")
    for word in ("expected: ", "found: ", "hint: "):
        assert printed.count(word) == failed > 0


@pytest.mark.grading
@pytest.mark.parametrize(("designs", "name"), RIGHT)
def test_the_chart_of_a_module_shows_all_numbers_next_to_their_formulas(
    designs: Designs, name: str
) -> None:
    drawing = report(prepare(designs, designs.right[name]))
    assert drawing.svg().count("<circle") == designs.circles
    for text in designs.label:
        assert text in drawing.label


def test_the_solution_of_project_2_imports_that_of_project_1() -> None:
    assert data_parallel_designs.ring() == ring_all_reduce_designs.reference()
