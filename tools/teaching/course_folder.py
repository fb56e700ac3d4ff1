"""An nbgrader course folder, in which assignments are released and submissions are graded."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook

from tools.l10n import build
from tools.lessons.project import Project, ToolError
from tools.teaching import grades_table, submissions
from tools.teaching.grading import MEMORY, NOT_RUN_ERROR
from tools.teaching.root_filesystem import libc
from tools.teaching.sandbox import PARENT_DEATH_SIGNAL
from tools.teaching.submissions import Submission, SubmissionError

ROOT = Path(__file__).resolve().parents[2]
TUTOR_RULES = ROOT / "notebooks" / "AGENTS.md"  # rules that AI assistants in an editor read
SPARE_SECONDS = 60  # for nbgrader itself, in addition to the notebook
CONFIG = """\
# Written by `make assignments`. `nbgrader --help-all` explains the names.
import sys

sys.path.insert(0, {root!r})
try:
    from nbgrader.preprocessors import (
        AssignLatePenalties, CheckCellMetadata, ClearOutput, DeduplicateIds, GetGrades,
        IgnorePattern, LimitOutput, OverwriteKernelspec, SaveAutoGrades,
    )
    from nbconvert.preprocessors import ClearMetadataPreprocessor, CSSHTMLHeaderPreprocessor
    from nbconvert.preprocessors.sanitize import SanitizeHTML
    from tools.teaching.grading import SandboxedExecute
    from tools.teaching.restore_cells import RestoreCells
except Exception as error:
    # nbgrader would go on without this file, and execute submissions without a sandbox.
    raise SystemExit("nbgrader_config.py: " + str(error)) from None

c = get_config()
c.CourseDirectory.course_id = {name!r}
c.CourseDirectory.root = {course!r}
c.Autograde.autograde_preprocessors = [
    SandboxedExecute, IgnorePattern, ClearMetadataPreprocessor, LimitOutput, SaveAutoGrades,
    AssignLatePenalties, CheckCellMetadata,
]
c.Autograde.sanitize_preprocessors = [
    ClearOutput, DeduplicateIds, OverwriteKernelspec, RestoreCells, CheckCellMetadata,
]
c.RestoreCells.add_missing_cells = True  # a graded cell that was deleted comes back
# A page to give back executes nothing of a submission.
c.GenerateFeedback.preprocessors = [GetGrades, SanitizeHTML, CSSHTMLHeaderPreprocessor]
c.SanitizeHTML.enabled = True
c.HTMLExporter.sanitize_html = True
c.Execute.timeout = {cell_seconds}
c.SandboxedKernelManager.seconds = {seconds}
c.SandboxedKernelManager.memory = {memory}
c.SandboxedKernelManager.hidden = {hidden!r}
c.SandboxedKernelManager.sandboxed = {sandboxed}
"""


@dataclass(frozen=True)
class Score:
    """The score of a student for one exercise.

    Attributes:
      notes: the reasons why the notebook was stopped, if any.
      graded: whether the notebook was graded, so that a score of 0 was earned.
    """

    student: str
    assignment: str
    score: float
    max_score: float
    notes: tuple[str, ...] = ()
    graded: bool = True

    def __str__(self) -> str:
        line = f"{self.student}: {self.assignment}: {self.score:g} of {self.max_score:g} points"
        return ", ".join([line, *self.notes])


@dataclass(frozen=True)
class Course:
    """A course folder of nbgrader.

    Attributes:
      seconds: the maximum time of one notebook.
      cell_seconds: the time after which a cell is interrupted.
      memory_gb: the maximum memory of a notebook with its workers, in GB.
      sandboxed: whether a notebook has no access to files and to the network.
    """

    folder: Path
    seconds: float = 240.0
    cell_seconds: int = 90
    memory_gb: float = MEMORY / 10**9
    sandboxed: bool = True

    @property
    def assignments(self) -> list[str]:
        """The exercises and projects that were released."""
        return sorted(path.name for path in (self.folder / "release").glob("*"))

    def release(self, project: Project, language: str) -> list[Path]:
        """Writes the sources, and generates the students' notebooks with nbgrader.

        Raises:
          ToolError: there are no assignments in this language.
          CourseError: nbgrader failed.
        """
        if language not in ["en", *project.languages]:
            raise ToolError(f"There is no language {language!r} in locales.")
        released = []
        self.configure()
        for domain in project.assignments:
            name = domain.rpartition("/")[2]
            source = self.folder / "source" / name / f"{name}.ipynb"
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(build.solution(project, domain, language), "utf-8")
            shutil.copy(TUTOR_RULES, source.parent)  # nbgrader copies it to the released notebook
            released.append(self.folder / "release" / name / f"{name}.ipynb")
        self.nbgrader("generate_assignment", "*", "--force")
        return released

    def configure(self, *hidden: Path) -> None:
        """Writes the configuration. nbgrader stores its records next to it.

        Args:
          hidden: folders that no submission may read, in addition to the course and solutions.
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
            sandboxed=self.sandboxed,
        )
        (self.folder / "nbgrader_config.py").write_text(text, "utf-8")

    def collect(self, folder: Path, assignment: str) -> list[str]:
        """Copies the submissions for an assignment, and returns the students."""
        found, _ignored = submissions.find(folder, [assignment])
        for submission in found:
            self.take_in(submission)
        return [submission.student for submission in found]

    def take_in(self, submission: Submission) -> None:
        """Copies a submission to the folder that nbgrader reads.

        Raises:
          SubmissionError: it is not a notebook, or cannot be read.
        """
        content = submission.read()
        target = self.folder / "submitted" / submission.student / submission.assignment
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        (target / f"{submission.assignment}.ipynb").write_bytes(content)
        if submission.student != submission.name:
            with self.gradebook() as book:
                book.update_or_create_student(submission.student, last_name=submission.name)

    def grade(self, student: str, assignment: str) -> Score:
        """Grades one submission in separate processes. If it cannot be graded, the score is 0."""
        self.nbgrader(
            *["autograde", assignment, f"--student={student}", "--force"],
            seconds=self.seconds + SPARE_SECONDS,
        )
        graded = self.folder / "autograded" / student / assignment / f"{assignment}.ipynb"
        return self._mark(student, assignment, tuple(self._notes(graded)))

    def grade_submission(self, submission: Submission) -> Score:
        """Copies and grades one submission. If it cannot be graded, the score is 0."""
        try:
            self.take_in(submission)
            mark = self.grade(submission.student, submission.assignment)
        except Exception as error:  # after any error, the next submission is graded
            kind = "" if isinstance(error, (CourseError, SubmissionError)) else type(error).__name__
            reason = f"{kind}: {error}" if kind else str(error)
            mark = self._give_nothing(submission, f"{submission.path}: not graded: {reason}")
        return replace(mark, student=submission.name)

    def gradebook(self) -> Gradebook:
        """The records of nbgrader."""
        return Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}")

    def export(self) -> Path:
        """Writes the table of all grades, and returns its path."""
        path = self.folder / "marks.csv"
        with self.gradebook() as book:
            grades_table.write(book, path)
        return path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevents other processes from grading in this folder.

        Raises:
          CourseError: another process is grading in it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CourseError(
                    f"Another process is grading in {self.folder}, or creating its assignments. "
                    "Run this command after it has ended."
                ) from None
            yield

    def nbgrader(self, *command: str, seconds: float = 300.0) -> None:
        """Runs a command of nbgrader in the course folder.

        Raises:
          CourseError: it failed or timed out. The message contains its last lines.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "nbgrader", *command],
            cwd=self.folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - this process has one thread
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
        for number, cell in enumerate(notebook.cells, 1):
            name = submissions.printable(str(cell.get("id", number)))
            names = [output.get("ename") for output in cell.get("outputs", ())]
            if "CellTimeoutError" in names:
                yield f"cell {name} took more than {self.cell_seconds} s"
            if NOT_RUN_ERROR in names:
                yield f"the kernel ended in cell {name}"
                return

    def _give_nothing(self, submission: Submission, note: str) -> Score:
        student, assignment = submission.student, submission.assignment
        with self.gradebook() as book:
            book.update_or_create_student(student)
            found = book.update_or_create_submission(assignment, student)
            for notebook in found.notebooks:
                for grade in notebook.grades:
                    grade.auto_score, grade.needs_manual_grade = 0, False
            book.db.commit()
        return replace(self._mark(student, assignment, (note,)), graded=False)

    def _mark(self, student: str, assignment: str, notes: tuple[str, ...]) -> Score:
        with self.gradebook() as book:
            submission = book.find_submission(assignment, student)
            return Score(student, assignment, submission.score, submission.max_score, notes)


def _environment() -> dict[str, str]:
    """The environment of nbgrader, which runs its programs and imports this package."""
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    modules = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    others = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return {
        **others,
        "PATH": os.pathsep.join(programs),
        "TRAITLETS_APPLICATION_RAISE_CONFIG_FILE_ERROR": "1",  # otherwise errors are ignored
        "PYTHONPATH": os.pathsep.join(filter(None, modules)),
    }


def _end_with_parent() -> None:
    """In the child process, makes it end with this process, however that ends."""
    if sys.platform == "linux":
        libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


class CourseError(Exception):
    """A command of nbgrader that failed. The message contains its last lines."""
