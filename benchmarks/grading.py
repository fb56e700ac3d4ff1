"""Measures the time to grade a submission: nbgrader in a sandbox, with each solution.

    python -m benchmarks.grading [--lang en] [--repeat 3] [--output FOLDER]

The solution trains as much as any good answer. Writes `results/grading.md`. The exit code is 1 if a
submission did not earn all its points, or took more than a minute, or three minutes for a project.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.machine import describe, sentence
from tools.l10n import build
from tools.lessons.project import PROJECTS, Project
from tools.teaching.course import Course, Score

MAX_SECONDS, MAX_PROJECT_SECONDS = 60.0, 180.0
STUDENT = "solution"


def hand_in(project: Project, language: str, folder: Path) -> None:
    """Writes the solution of every exercise and project as the submission of one student."""
    (folder / STUDENT).mkdir(parents=True)
    for domain in project.assignments:
        path = folder / STUDENT / project.notebook(domain).name
        path.write_text(build.solution(project, domain, language), "utf-8")


def grade(course: Course, assignment: str) -> tuple[float, Score]:
    """Returns the seconds for one submission, and its grade."""
    start = time.perf_counter()
    mark = course.grade(STUDENT, assignment)
    return time.perf_counter() - start, mark


def main() -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lang", default="en")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    machine, project = describe(None), Project.load(ROOT)
    lines, good = ["| assignment | points | seconds, median | maximum |", "|---|---|---|---|"], True
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder) / "course")
        course.release(project, args.lang)
        hand_in(project, args.lang, Path(folder) / "submissions")
        for assignment in course.assignments:
            is_project = f"{PROJECTS}/{assignment}" in project.projects
            limit = MAX_PROJECT_SECONDS if is_project else MAX_SECONDS
            course.collect(Path(folder) / "submissions", assignment)
            rounds = [grade(course, assignment) for _round in range(args.repeat)]
            seconds, mark = [taken for taken, _mark in rounds], rounds[-1][1]
            good = good and max(seconds) < limit and mark.score == mark.max_score
            lines.append(
                f"| {assignment} | {mark.score:g} of {mark.max_score:g} "
                f"| {statistics.median(seconds):.0f} | {max(seconds):.0f} |"
            )
            print(lines[-1], flush=True)
    args.output.mkdir(parents=True, exist_ok=True)
    text = f"# Grading a submission\n\n{sentence(machine)}\n\n" + "\n".join(lines) + "\n"
    (args.output / "grading.md").write_text(text, "utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
