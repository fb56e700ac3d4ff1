"""The chart of a project: its units are those of the current language."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.course import projects
from helpers.course.projects.panels import megabytes, milliseconds
from helpers.i18n import set_language


def test_units_are_translated() -> None:
    assert (megabytes(1.4), milliseconds(20)) == ("1.4 MB", "20 ms")
    set_language("ru")
    try:
        assert (megabytes(1.4), milliseconds(20)) == ("1,4 МБ", "20 мс")
    finally:
        set_language("en")


def test_no_formula_has_a_unit_that_is_not_translated() -> None:
    reports = list(Path(projects.__file__).parent.glob("*_report.py"))
    assert len(reports) == 6
    for path in reports:
        for formula in re.findall(r'f"[^"]*"', path.read_text("utf-8")):
            assert not re.search(r"\b(MB|ms)\b", re.sub(r"\{[^}]*\}", "", formula)), path.name
