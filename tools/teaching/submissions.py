"""The submissions in a folder, with their students, and the files that are ignored."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SAFE = re.compile(r"\w[\w.+-]{0,99}")  # a single, safe name for nbgrader and other programs
OWN = re.compile(r"student-[0-9a-f]{16}")
MAX_BYTES = 50_000_000
NOTEBOOK = ".ipynb"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # first characters of a formula in a spreadsheet
# The names of second copies in browsers and JupyterLab.
COPY = re.compile(r"(.+?)(?: ?\(\d+\)|[-_ ]?[Cc]opy\d*|\.ipynb)+\.ipynb")


class SubmissionError(Exception):
    """A notebook that cannot be graded. The message states the fix."""


@dataclass(frozen=True)
class Submission:
    """A notebook that a student submitted.

    Attributes:
      student: the name in nbgrader, see `student_id`.
      name: the name of the student's folder, as printable text.
    """

    student: str
    name: str
    assignment: str
    path: Path

    def read(self) -> bytes:
        """The content of the notebook.

        Raises:
          SubmissionError: it is not a notebook, or cannot be read.
        """
        try:
            # A link could point to a solution, and a FIFO would never end.
            number = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise SubmissionError(f"{error.strerror}: check the permissions of the file") from None
        with os.fdopen(number, "rb") as file:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                raise SubmissionError("it is not a file")
            if status.st_size > MAX_BYTES:
                raise SubmissionError(
                    f"it has {status.st_size / 1e6:.0f} MB, more than {MAX_BYTES / 1e6:.0f}: open "
                    "it in Jupyter, clear all outputs, and save it"
                )
            content = file.read(MAX_BYTES + 1)
        try:
            cells = json.loads(content)["cells"]
        except Exception as error:
            raise SubmissionError(
                f"it is not a notebook ({type(error).__name__}: {str(error)[:100]}): ask for a "
                "file that opens in Jupyter"
            ) from None
        if not isinstance(cells, list):
            raise SubmissionError("it is not a notebook: ask for a file that opens in Jupyter")
        return content


def find(folder: Path, assignments: Sequence[str]) -> tuple[list[Submission], list[str]]:
    """The submissions, by assignment and student, and a sentence for each other file.

    Raises:
      OSError: the folder cannot be read.
    """
    found, ignored = [], []
    for entry in sorted(folder.iterdir()):
        name = printable(entry.name)
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            ignored.append(f"{name}: ignored: it is a link. Put a folder in its place.")
        elif not entry.is_dir():
            ignored.append(
                f"{name}: ignored: it is not in a student's folder. Unpack an archive, and put "
                "notebooks into a folder named after the student."
            )
        else:
            own, sentences = _in_folder(entry, assignments)
            found += own
            ignored += [f"{name}: {sentence}" for sentence in sentences]
    return sorted(found, key=lambda one: (one.assignment, one.name, one.student)), ignored


def student_id(name: str) -> str:
    """The name in nbgrader for the student with a folder of this name.

    nbgrader treats names as file patterns, strips blanks and quotes, and cannot store names that
    are not UTF-8. A student with such a name gets a name derived from a checksum, which is always
    the same.
    """
    if SAFE.fullmatch(name) and not OWN.fullmatch(name):
        return name
    return f"student-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def printable(name: str) -> str:
    """A file name as text without line breaks and control characters."""
    text = "".join(one if one.isprintable() or one >= "\ud800" else repr(one)[1:-1] for one in name)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def spreadsheet_cell(value: object) -> object:
    """A value for a CSV file, in which no text is a formula for a spreadsheet."""
    if value is None or isinstance(value, (int, float)):
        return value
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def _in_folder(folder: Path, assignments: Sequence[str]) -> tuple[list[Submission], list[str]]:
    """The submissions of a student, and sentences about other files."""
    student, name = student_id(folder.name), printable(folder.name)
    found: list[Submission] = []
    sentences: list[str] = []
    for path in _notebooks(folder):
        place = printable(str(path.relative_to(folder)))
        assignment = path.name.removesuffix(NOTEBOOK)
        copied = COPY.fullmatch(path.name)
        if path.is_symlink():
            sentences.append(f"{place} is ignored: it is a link. Put a copy in its place.")
        elif not path.is_file():
            sentences.append(f"{place} is ignored: it is not a file.")
        elif assignment in assignments and path.parent == folder:
            found.append(Submission(student, name, assignment, path))
        elif assignment in assignments:
            sentences.append(f"{place} is ignored: move it into the folder {name} itself.")
        elif copied and copied[1] in assignments:
            sentences.append(
                f"{place} is ignored: only the notebook {copied[1]}{NOTEBOOK} is read. "
                "Rename it to that name if it is the one to submit."
            )
        else:
            sentences.append(f"{place} is ignored: no notebook to submit has that name.")
    if not found and not sentences:
        sentences.append(
            f"ignored: there is no notebook in the folder. It needs {assignments[0]}{NOTEBOOK}, "
            "or another notebook to submit under its name."
        )
    return found, sentences


def _notebooks(folder: Path) -> Iterator[Path]:
    """Files with the name of a notebook, also in subfolders, except hidden ones."""
    for place, folders, files in os.walk(folder):  # os.walk follows no links
        for name in sorted(folders + files):
            if name.lower().endswith(NOTEBOOK):
                yield Path(place, name)
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__MACOSX")))
