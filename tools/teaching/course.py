"""Homework: releases the exercises of a language, and grades a folder of submissions.

    python -m tools.teaching.course release --lang es
    python -m tools.teaching.course grade SUBMISSIONS --lang es

Both use an nbgrader course folder, course/es, which also works with `nbgrader` itself. A submission
is SUBMISSIONS/student/01_….ipynb. It may be in any language, because the code of an exercise is the
same in all languages. docs/TEACHING.md has the details.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

from tools.lessons.project import Project, ToolError
from tools.teaching import submissions
from tools.teaching.course_folder import ROOT, Course, CourseError, Score
from tools.teaching.grading import (
    NO_NAMESPACES,
    limits_are_permitted,
    sandbox_is_permitted,
    why_no_kernel,
)

__all__ = ["Course", "CourseError", "Score", "grade_all", "main"]
NOT_ALL_GRADED, INTERRUPTED = 3, 130  # exit codes


def grade_all(course: Course, folder: Path) -> tuple[list[Score], list[str]]:
    """Grades the submissions one by one, and exports the grades.

    Returns: the grades, and a sentence for each item in the folder that is not a submission.
    """
    found, ignored = submissions.find(folder, course.assignments)
    marks = []
    for submission in found:
        marks.append(course.grade_submission(submission))
        print(marks[-1], flush=True)
    for sentence in ignored:
        print(sentence, flush=True)
    if found:
        print(f"All marks: {course.export()}")
    return marks, ignored


def main(argv: list[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    args = _parse(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    os.umask(os.umask(0o077) & 0o077)  # the grader must be able to read the files
    folder = (args.course or ROOT / "course" / args.lang).resolve()
    sandboxed = args.command == "release" or not args.no_sandbox
    course = Course(folder, args.timeout, args.cell_timeout, args.memory_gb, sandboxed)
    try:
        if args.command == "release":
            with course.locked():
                for path in course.release(Project.load(ROOT), args.lang):
                    print(path)
            return 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PYTHONWARNINGS could make them errors
            return _grade(course, args.submissions)
    except (CourseError, ToolError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. The gradebook contains the grades so far.", file=sys.stderr)
        return INTERRUPTED


def _grade(course: Course, folder: Path) -> int:
    if not course.assignments:
        raise CourseError(f"{course.folder} has no assignments. Run: make assignments")
    if course.sandboxed and not sandbox_is_permitted():
        raise CourseError(
            f"{NO_NAMESPACES} In a place without valuable data, such as a dedicated "
            "container, add --no-sandbox."
        )
    if not limits_are_permitted():
        print(
            "This machine does not permit control groups: a submission may use all memory or "
            "start any number of processes. Grade on a machine without other important work."
        )
    with course.locked():
        course.configure(folder.resolve())
        if reason := why_no_kernel(sandboxed=course.sandboxed, seconds=course.seconds):
            raise CourseError(
                f"Nothing was graded: an empty notebook cannot be executed here. {reason}. Every "
                f"user must be able to read {sys.prefix} and {sys.base_prefix}."
            )
        marks, ignored = grade_all(course, folder)
    if not marks:
        print(
            f"No submissions: {folder} needs folders named after students, with "
            f"notebooks named {course.assignments[0]}.ipynb in them.",
            file=sys.stderr,
        )
        return 1
    return NOT_ALL_GRADED if ignored or not all(mark.graded for mark in marks) else 0


def _positive(text: str) -> float:
    """A finite number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.teaching.course",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    release = commands.add_parser("release", help="create the students' notebooks")
    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("submissions", type=Path, help="contains student/01_….ipynb")
    grade.add_argument(
        *["--no-sandbox"],
        action="store_true",
        help="give submissions access to all your files, if you have no valuable data",
    )
    for command in (release, grade):
        command.add_argument("--lang", default="en", help="en, ru, zh, ko or es")
        command.add_argument("--course", type=Path, help="default: course/LANGUAGE")
        command.add_argument(
            "--timeout", type=_positive, default=240.0, help="seconds per notebook (240)"
        )
        command.add_argument(
            "--cell-timeout", type=_whole, default=90, help="seconds per cell (90)"
        )
        command.add_argument("--memory-gb", type=_positive, default=6.0, help="per notebook (6)")
    return parser.parse_args(argv)


def _stop(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signal_number) is signal.SIG_DFL:  # nohup ignores one of them
            signal.signal(signal_number, _stop)
    sys.exit(main())
