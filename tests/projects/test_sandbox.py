"""Projects are graded in the sandbox, in which no submission reaches a reference solution."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from helpers.course.check import find_task
from tests.support import ROOT
from tools.l10n import build
from tools.lessons.project import Project
from tools.teaching.course import Course, grade_all
from tools.teaching.grading import sandbox_is_permitted


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
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A student who copies the reference solution, wherever it is, would earn all points."""
    monkeypatch.chdir(tmp_path)
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
