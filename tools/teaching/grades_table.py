"""The table of all grades as CSV for spreadsheets."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

from tools.teaching.submissions import spreadsheet_cell

COLUMNS = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)


def write(book: Gradebook, path: Path) -> None:
    """Writes the columns of `nbgrader export`. Without a submission, the score is 0."""
    draft = path.with_name(f".{path.name}")
    with draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([*map(spreadsheet_cell, row)] for row in _rows(book))
    os.replace(draft, path)


def _rows(book: Gradebook) -> Iterator[tuple[object, ...]]:
    for assignment in book.assignments:
        for student in book.students:
            person = (student.id, student.last_name, student.first_name, student.email)
            try:
                found = book.find_submission(assignment.name, student.id)
                penalty = found.late_submission_penalty or 0.0
                score = max(0.0, found.score - penalty)
                when, scores = found.timestamp, (found.score, penalty, score)
            except MissingEntry:
                when, scores = None, (0.0, 0.0, 0.0)
            yield assignment.name, assignment.duedate, when, *person, *scores, assignment.max_score
