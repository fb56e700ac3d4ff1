"""Homework: releases the exercises of a language, and grades a folder of submissions.

    python -m tools.teaching.course release --lang es
    python -m tools.teaching.course grade SUBMISSIONS --lang es

Both work in a course folder of nbgrader, course/es, which `nbgrader` itself understands too. A
submission is SUBMISSIONS/student/01_….ipynb; it may be in any language, whatever that of the
course is, since the code of an exercise is the same in all. docs/TEACHING.md says more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook

from tools.l10n import build
from tools.lessons.project import EXERCISES, Project, ToolError
from tools.teaching.grading import MEMORY, NOT_RUN_ERROR, limits_are_permitted, sandbox_is_permitted

ROOT = Path(__file__).resolve().parents[2]
GRACE_SECONDS = 60  # for nbgrader around the notebook
CONFIG = """\
# Written by `make assignments`. `nbgrader --help-all` explains the names.
import sys

sys.path.insert(0, {root!r})
from nbgrader.preprocessors import (
    AssignLatePenalties, CheckCellMetadata, IgnorePattern, LimitOutput, SaveAutoGrades,
)
from nbconvert.preprocessors import ClearMetadataPreprocessor
from tools.teaching.grading import SandboxedExecute

c = get_config()
c.CourseDirectory.course_id = {name!r}
c.CourseDirectory.root = {course!r}
c.Autograde.autograde_preprocessors = [
    SandboxedExecute, IgnorePattern, ClearMetadataPreprocessor, LimitOutput, SaveAutoGrades,
    AssignLatePenalties, CheckCellMetadata,
]
c.OverwriteCells.add_missing_cells = True  # a graded cell that was deleted comes back
c.Execute.timeout = {cell_seconds}
c.SandboxedKernelManager.seconds = {seconds}
c.SandboxedKernelManager.memory = {memory}
c.SandboxedKernelManager.hidden = {hidden!r}
c.FileNameCollectorPlugin.named_regexp = r".*/extracted/(?P<student_id>[^/]+)/(?P<file_id>[^/]+)"
c.ZipCollectApp.strict = True
"""


@dataclass(frozen=True)
class Score:
    """What a student earned for one exercise.

    Attributes:
      notes: what stopped the notebook, if anything did.
    """

    student: str
    assignment: str
    score: float
    max_score: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        line = f"{self.student}: {self.assignment}: {self.score:g} of {self.max_score:g} points"
        return ", ".join([line, *self.notes])


@dataclass(frozen=True)
class Course:
    """A course folder of nbgrader.

    Attributes:
      seconds: the most that one notebook may take.
      cell_seconds: the most that one of its cells may; then it is interrupted.
      memory_gb: gigabytes that it may take, with its workers.
    """

    folder: Path
    seconds: float = 240.0
    cell_seconds: int = 90
    memory_gb: float = MEMORY / 10**9

    @property
    def assignments(self) -> list[str]:
        """The exercises that were released."""
        return sorted(path.name for path in (self.folder / "release").glob("*"))

    def release(self, project: Project, language: str) -> list[Path]:
        """Writes the sources and has nbgrader make the students' notebooks of them.

        Raises:
          ToolError: there are no exercises in that language.
          CourseError: nbgrader failed.
        """
        if language not in ["en", *project.languages]:
            raise ToolError(f"There is no language {language!r} in locales.")
        released = []
        self.configure()
        for domain in project.exercises:
            name = domain.removeprefix(f"{EXERCISES}/")
            source = self.folder / "source" / name / f"{name}.ipynb"
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(build.solution(project, domain, language), "utf-8")
            released.append(self.folder / "release" / name / f"{name}.ipynb")
        self.nbgrader("generate_assignment", "*", "--force")
        return released

    def configure(self, *hidden: Path) -> None:
        """Writes the configuration; nbgrader keeps its own records beside it.

        Args:
          hidden: folders that no submission may read, besides the course and the solutions.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        text = CONFIG.format(
            root=str(ROOT),
            name=self.folder.name,
            course=str(self.folder),
            hidden=[str(p) for p in (self.folder, ROOT / "notebooks" / "solutions", *hidden)],
            cell_seconds=self.cell_seconds,
            seconds=self.seconds,
            memory=int(self.memory_gb * 10**9),
        )
        (self.folder / "nbgrader_config.py").write_text(text, "utf-8")

    def collect(self, submissions: Path, assignment: str) -> list[str]:
        """Takes in what students handed in for an assignment; returns the students."""
        downloaded = self.folder / "downloaded" / assignment
        shutil.rmtree(downloaded, ignore_errors=True)
        # A link could lead to a solution.
        found = [p for p in sorted(submissions.glob(f"*/{assignment}.ipynb")) if not p.is_symlink()]
        for path in found:
            target = downloaded / "archive" / path.parent.name / path.name
            target.parent.mkdir(parents=True)
            shutil.copyfile(path, target)
        if found:
            self.nbgrader("zip_collect", assignment, "--force")
        return [path.parent.name for path in found]

    def grade(self, student: str, assignment: str) -> Score:
        """Grades one submission in processes of its own; what cannot be graded earns nothing."""
        notes: list[str] = []
        try:
            self.nbgrader(
                *["autograde", assignment, f"--student={student}", "--force"],
                seconds=self.seconds + GRACE_SECONDS,
            )
            graded = self.folder / "autograded" / student / assignment / f"{assignment}.ipynb"
            notes += self._notes(graded)
        except CourseError as error:
            notes.append(f"not graded: {error}")
            self._record_zero(student, assignment)
        with self.gradebook() as book:
            submission = book.find_submission(assignment, student)
            score, max_score = submission.score, submission.max_score
        return Score(student, assignment, score, max_score, tuple(notes))

    def gradebook(self) -> Gradebook:
        """The records of nbgrader."""
        return Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}")

    def export(self) -> Path:
        """Has nbgrader write all marks as a table."""
        path = self.folder / "marks.csv"
        self.nbgrader("export", f"--to={path}")
        return path

    def nbgrader(self, *command: str, seconds: float = 300.0) -> None:
        """Runs a command of nbgrader in the course folder.

        Raises:
          CourseError: it failed, or took too long; with its last words.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "nbgrader", *command],
            cwd=self.folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _none = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise CourseError(f"nbgrader {command[0]} took more than {seconds:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode != 0:
            lines = [line for line in output.splitlines() if line.strip()]
            raise CourseError(f"nbgrader {command[0]} failed: " + " | ".join(lines[-4:]))

    def _notes(self, graded: Path) -> Iterator[str]:
        notebook = nbformat.read(graded, as_version=4)
        for cell in notebook.cells:
            names = [output.get("ename") for output in cell.get("outputs", ())]
            if "CellTimeoutError" in names:
                yield f"cell {cell['id']} took more than {self.cell_seconds} s"
            if NOT_RUN_ERROR in names:
                yield f"the kernel ended in cell {cell['id']}"
                return

    def _record_zero(self, student: str, assignment: str) -> None:
        with self.gradebook() as book:
            book.update_or_create_student(student)
            submission = book.update_or_create_submission(assignment, student)
            for notebook in submission.notebooks:
                for grade in notebook.grades:
                    grade.auto_score, grade.needs_manual_grade = 0, False
            book.db.commit()


def _environment() -> dict[str, str]:
    """Of nbgrader, which calls programs of its environment, and imports modules of ours."""
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    modules = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PATH": os.pathsep.join(programs),
        "PYTHONPATH": os.pathsep.join(filter(None, modules)),
    }


class CourseError(Exception):
    """A command of nbgrader that failed; the message has its last words."""


def grade_all(course: Course, submissions: Path) -> list[Score]:
    """Collects and grades every submission, one after the other, and exports the marks."""
    marks = []
    for assignment in course.assignments:
        for student in course.collect(submissions, assignment):
            marks.append(course.grade(student, assignment))
            print(marks[-1], flush=True)
    print(f"All marks: {course.export()}")
    return marks


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    args = _parse(argv)
    folder = (args.course or ROOT / "course" / args.lang).resolve()
    course = Course(folder, args.timeout, args.cell_timeout, args.memory_gb)
    try:
        if args.command == "release":
            for path in course.release(Project.load(ROOT), args.lang):
                print(path)
            return 0
        if not course.assignments:
            raise CourseError(f"{folder} has no assignments. Run: make assignments")
        if not sandbox_is_permitted():
            print(
                "This machine permits no namespaces: submissions are not kept from the network and "
                "from your files. Grade in a container or a virtual machine that you can lose."
            )
        if not limits_are_permitted():
            print(
                "This machine permits no control groups: a submission may take all memory or "
                "start processes without end. Grade where nothing else runs that matters."
            )
        course.configure(args.submissions.resolve())
        marks = grade_all(course, args.submissions)
    except (CourseError, ToolError) as error:
        print(error, file=sys.stderr)
        return 1
    if not marks:
        print(
            f"No submissions: {args.submissions} needs folders named after students, with "
            f"notebooks named as {course.assignments[0]}.ipynb in them.",
            file=sys.stderr,
        )
    return 0 if marks else 1


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.teaching.course",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    release = commands.add_parser("release", help="make the students' notebooks")
    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("submissions", type=Path, help="holds student/01_….ipynb")
    for command in (release, grade):
        command.add_argument("--lang", default="en", help="en, ru, zh, ko or es")
        command.add_argument("--course", type=Path, help="default: course/LANGUAGE")
        command.add_argument("--timeout", type=float, default=240.0, help="for one notebook (240)")
        command.add_argument("--cell-timeout", type=int, default=90, help="for one cell (90)")
        command.add_argument("--memory-gb", type=float, default=6.0, help="for one notebook (6)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
