"""Projects with real processes: right designs, wrong ones, faults, and what is left behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import psutil
import pytest

from helpers.course.check import check, find_task
from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, WORKER, ProcessGroup
from helpers.course.projects.report import report
from helpers.errors import ConfigError
from tests.projects.designs import NAME, reference, right, wrong
from tests.support import ROOT
from tests.support.processes import children_of, command_of, is_running, wait_until
from tools.l10n import build
from tools.lessons.project import Project
from tools.teaching.course import Course, grade_all
from tools.teaching.grading import sandbox_is_permitted

SECONDS = 60.0
POINTS = find_task(NAME).points
# A case that takes two seconds, for `make test`.
SHORT: dict[str, Any] = {
    "sizes": [(3, [(5, "float32")])],
    "lengths": [(3, [(0, "float32"), (2, "float64")])],
    "large": [(2, [(1000, "float64")])],
    "traffic": [(3, [(30_000, "float32")])],
    "repeated": [(2, [(5, "float32"), (6, "float64")])],
    "faulty": (500_000, "float64"),
    "timeout": 0.5,
}


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The notebook's folder is empty, and all processes of projects end."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not workers()


def workers() -> list[psutil.Process]:
    return [child for child in children_of(psutil.Process()) if WORKER in command_of(child)]


def module(code: str) -> Path:
    path = Path(f"{NAME}.py")
    path.write_text(code, "utf-8")
    return path


def test_the_reference_earns_all_points_in_a_short_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module(reference())
    assert check(NAME, **SHORT) == POINTS
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{NAME}: 20 of 20 points"
    assert [line[:3] for line in printed[1:]] == ["  ✓"] * 8


def test_a_missing_and_an_empty_module_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(NAME) == 0
    assert "found: no file of that name" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="There is no file ring_all_reduce"):
        report(NAME)
    module("def connect(*arguments):\n    raise NotImplementedError()\n")
    assert check(NAME) == 0
    assert "found: no answer yet" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="does not work with N = 2 yet"):
        report(NAME)


STUBBORN = """
import os, subprocess, time

class Stubborn:
    def all_reduce(self, array):
        if array[0] == 1:
            time.sleep(600)
        if array[0] == 2:
            print("farewell", flush=True)
            os._exit(4)
        if array[0] == 3:
            raise ValueError("three")
        return array

def connect(rank, listener, addresses, timeout):
    if rank == 0:
        child = subprocess.Popen(["sleep", "601"], start_new_session=True)
        open("child", "w").write(str(child.pid))
    return Stubborn()
"""


def test_a_process_that_hangs_ends_or_fails_is_told_apart_and_all_end() -> None:
    with ProcessGroup(module(STUBBORN), NAME, 4) as group:
        assert [reply.kind for reply in group.open(SECONDS)] == [RETURNED] * 4
        child = int(Path("child").read_text())
        group.put([[np.full(2, float(rank))] for rank in range(4)])
        replies = group.call("all_reduce", SECONDS)
        assert [reply.kind for reply in replies] == [RETURNED, LATE, DEAD, RAISED]
        assert replies[2].text == "farewell"
        assert replies[3].text == "ValueError: three (ring_all_reduce.py, line 12)"
        pids = [member.pid for member in group.members]
    assert wait_until(lambda: not any(map(is_running, [*pids, child])), SECONDS)


def test_an_interrupt_leaves_no_process() -> None:
    with pytest.raises(KeyboardInterrupt), ProcessGroup(module(STUBBORN), NAME, 2) as group:
        pids = [member.pid for member in group.members]
        raise KeyboardInterrupt
    assert wait_until(lambda: not any(map(is_running, pids)), SECONDS)


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
@pytest.mark.parametrize("name", right())
def test_the_chart_of_a_module_shows_all_numbers_next_to_their_formulas(name: str) -> None:
    module(right()[name])
    drawing = report(NAME)
    assert drawing.svg().count("<circle") == 1 + (9 if os.path.exists("/proc") else 6)
    assert "MB sent by each process: 1.4 with N = 2 (formula 1.4), 2.1 with" in drawing.label
    assert "2.45 with N = 8 (formula 2.45)" in drawing.label


class OnlyProjects(Project):
    """The repository, as if its only assignments were projects."""

    @property
    def assignments(self) -> list[str]:
        """The assignments of that repository."""
        return self.projects


@pytest.mark.grading
@pytest.mark.skipif(not sandbox_is_permitted(), reason="no namespaces on this machine")
@pytest.mark.parametrize("domain", Project.load(ROOT).projects)
def test_submissions_are_graded_in_the_sandbox_and_reach_no_solution(
    domain: str, tmp_path: Path
) -> None:
    """A student who copies the reference solution, wherever it is, would earn all points."""
    project = OnlyProjects.load(ROOT)
    course = Course(tmp_path / "course")
    course.release(project, "en")
    name = domain.partition("/")[2]
    assert name in course.assignments
    solution = project.solution(domain)
    assert solution
    thief = (
        "import json, pathlib\n"
        f"folders = map(pathlib.Path, {[str(course.folder), str(solution.parent)]})\n"
        f"for path in [path for folder in folders for path in folder.rglob('{name}.ipynb')]:\n"
        "    for cell in json.loads(path.read_text())['cells']:\n"
        "        magic, file = (*''.join(cell['source'][:1]).split(), '', '')[:2]\n"
        "        if magic == '%%writefile':\n"
        "            pathlib.Path(file).write_text(''.join(cell['source'][1:]))\n"
    )
    exec(thief)  # outside of the sandbox, it works
    task = name.partition("_")[2]
    assert "BEGIN SOLUTION" in Path(f"{task}.py").read_text("utf-8")
    texts = {
        "honest": build.solution(project, domain, "en"),
        "thief": project.notebook(domain).read_text("utf-8"),
    }
    for student, text in texts.items():
        notebook = nbformat.reads(text, as_version=4)
        for cell in notebook.cells:
            if student == "thief" and cell["source"].startswith("%%writefile"):
                cell["source"] = thief
        folder = tmp_path / "submissions" / student
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{name}.ipynb")
    marks, _ignored = grade_all(course, tmp_path / "submissions")
    found = {mark.student: (mark.score, mark.max_score) for mark in marks if mark.score is not None}
    points = find_task(task).points
    assert found == {"honest": (points, points), "thief": (0, points)}
