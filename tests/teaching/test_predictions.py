"""The predictions of a class, which are read from notebooks without running anything in them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from helpers.course import predictions as course_predictions
from helpers.course.predictions import QUESTIONS, Scale, compare_prediction, record_prediction
from tools.teaching import prediction_report, predictions
from tools.teaching.predictions import main, read_predictions

LESSON = QUESTIONS["staleness"].lesson


def code_cell(source: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}


def hand_in(folder: Path, student: str, *sources: Any, lesson: str = LESSON) -> Path:
    path = folder / student / f"{lesson}.ipynb"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": [code_cell(source) for source in sources]}), "utf-8")
    return path


def entry(source: str) -> tuple[float | None, str]:
    return read_predictions([source])["staleness"]


@pytest.mark.parametrize(
    ("argument", "number"),
    [
        ("2", 2.0),
        ("-0.5", -0.5),
        ("+1e-3", 0.001),
        ("1_000", 1000.0),
        ("2 * 1.4", 2.8),
        ("(10 - 1) / 3", 3.0),
        ("10**-3", 0.001),
        ("2  # because", 2.0),
    ],
)
def test_a_number_may_be_written_as_arithmetic(argument: str, number: float) -> None:
    found, problem = entry(f'record_prediction("staleness", {argument}\n)')
    assert found == pytest.approx(number)
    assert not problem


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("None", "no number"),
        ("'2'", "not a number"),
        ("True", "not a number"),
        ("2j", "not a number"),
        ("(-8) ** 0.5", "not a number"),
        ("1e999", "not a number"),
        ("1e308 * 10", "not a number"),
        ("1e999 - 1e999", "not a number"),
        ("1 / 0", "not a number"),
        ("9**9**9**9", "not a number"),
        ("1" + "0" * 4000, "not a number"),
        ("1" + "0" * 9000, "cell with a syntax error"),
        ("1" + "0" * 90_000, "cell with a syntax error"),
        ("float('nan')", "not a number"),
        ("open('/tmp/x', 'w')", "not a number"),
        ("*[1]", "not a number"),
        ("0, 5", "not a number"),
        ("~5", "not a number"),
        ("5 // 2", "not a number"),
        ("'a' + 'b'", "not a number"),
        ("+".join(["1"] * 4000), "not a number"),
        ("-" * 5000 + "1", "not a number"),
        ("(" * 5000 + "1" + ")" * 4000, "cell with a syntax error"),
        ("about 2", "cell with a syntax error"),
        ("\ud800", "cell with a syntax error"),
        ("\0", "cell with a syntax error"),
    ],
    ids=lambda text: text[:12].encode("ascii", "backslashreplace").decode(),
)
def test_a_hostile_entry_is_a_problem_and_no_number(argument: str, problem: str) -> None:
    number, found = entry(f'record_prediction("staleness", {argument})')
    assert number is None
    assert found in (problem, "cell with a syntax error")  # a newer parser may give up earlier


def test_the_last_call_counts_and_unknown_questions_do_not() -> None:
    sources = [
        'record_prediction("staleness", 1)',
        'record_prediction("staleness", 2)\nrecord_prediction("../../etc", 3)',
        "record_prediction(name, 4)\nrecord_prediction()\nrecord_prediction(5, 6)",
        'print("record_prediction")',
        '# record_prediction("staleness", 7)',
    ]
    assert read_predictions(sources) == {"staleness": (2.0, "")}


def test_nothing_of_a_submission_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hand_in(tmp_path, "eve", f'record_prediction("staleness", [open({str(mark)!r}, "w"), 2][1])')
    predictions.collect(tmp_path)
    assert not mark.exists()


def test_notebooks_of_any_form_are_read_or_ignored(tmp_path: Path) -> None:
    hand_in(tmp_path, "ana", ["record_prediction(", '"staleness", 2)'])
    hand_in(tmp_path, "bob", None, 3, [4, {"a": 5}], {"a": 1})
    odd: dict[str, Any] = {"cells": [None, 5, [], {}, {"cell_type": "code"}, {"cell_type": []}]}
    (tmp_path / "carl").mkdir()
    (tmp_path / "carl" / f"{LESSON}.ipynb").write_text(json.dumps(odd))
    (tmp_path / "dora").mkdir()
    (tmp_path / "dora" / f"{LESSON}.ipynb").write_text("[" * 100_000)
    (tmp_path / "eve").mkdir()
    (tmp_path / "eve" / f"{LESSON}.ipynb").symlink_to(tmp_path / "ana" / f"{LESSON}.ipynb")
    found, ignored = predictions.collect(tmp_path)
    assert {one.student: (one.number, one.problem) for one in found} == {
        "ana": (2.0, ""),
        "bob": (None, "no call"),
        "carl": (None, "no call"),
    }
    assert ["it is a link" in sentence for sentence in ignored] == [True, False]
    assert "it is not a notebook" in ignored[1]


def test_the_page_and_the_table_show_a_class(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, value in enumerate(["2", "1", "2", "3", "2", "1e308", "None", "'<b>'"]):
        hand_in(folder, f"<i>student {number}", f'record_prediction("staleness", {value})')
    hand_in(folder, "=1+1", 'record_prediction("staleness", -5)')
    output = tmp_path / "out.html"
    assert main([str(folder), "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "predictions 7, no number 1, unreadable 1, median 2, outliers -5; 1e+308" in printed
    page = output.read_text("utf-8")
    assert "<td>-5; 1e+308</td>" in page
    assert page.count("<img ") == 1
    assert "student" not in page.replace("students", "")
    with output.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert rows["'=1+1"]["prediction"] == "-5.0"
    assert rows["<i>student 7"]["problem"] == "not a number"
    assert len(rows) == 9


def test_files_that_are_not_read_are_reported_in_the_exit_code(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    output = str(tmp_path / "out.html")
    assert main([str(folder), "--output", output]) == 1
    assert main([str(tmp_path / "missing"), "--output", output]) == 1
    hand_in(folder, "ana", 'record_prediction("staleness", 2)')
    (folder / "notes.txt").write_text("")
    assert main([str(folder), "--output", output]) == 3


def test_the_table_does_not_overwrite_the_page(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--output", str(tmp_path / "x.csv")])


@pytest.mark.parametrize(
    ("numbers", "scale", "outliers"),
    [
        ([], Scale.LINEAR, []),
        ([1, 1e6], Scale.LINEAR, []),  # too few to tell
        ([64] * 9 + [128], Scale.LINEAR, [128]),
        ([1, 2, 4, 8, 16, 50], Scale.LINEAR, [50]),
        ([1, 2, 4, 8, 16, 50], Scale.RATIO, []),
        ([1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2], Scale.RATIO, []),
        ([-1, 0, 1, 2], Scale.RATIO, [-1, 0]),
        ([-1e308, 1e308], Scale.LINEAR, [-1e308, 1e308]),
        ([5e-324, 1], Scale.RATIO, [5e-324]),
    ],
)
def test_outliers_are_far_from_the_others(
    numbers: list[float], scale: Scale, outliers: list[float]
) -> None:
    assert list(prediction_report.find_outliers(numbers, scale)) == outliers


def test_the_median_of_huge_numbers_is_finite() -> None:
    [summary] = prediction_report.summarize(
        [("staleness", 1.7e308, ""), ("staleness", 1.6e308, "")]
    )
    assert summary.median is not None
    assert math.isfinite(summary.median)


@pytest.mark.parametrize(
    ("numbers", "result"),
    [((), None), ((), 0.48), ((2.0, 2.0), 0.0), ((-5.0, 3.0), 0.48), ((1e-9, 1e9), None)],
)
@pytest.mark.parametrize("name", ["staleness", "step_traffic"])
def test_any_numbers_can_be_drawn(
    name: str, numbers: tuple[float, ...], result: float | None
) -> None:
    outliers = prediction_report.find_outliers(numbers, QUESTIONS[name].scale)
    summary = prediction_report.Summary(name, numbers, outliers, 0, 0, result)
    figure = prediction_report.histogram(summary)
    [axes] = figure.figure.axes
    heights = sum(patch.get_height() for patch in axes.patches)  # type: ignore[attr-defined]
    assert heights == len(numbers) - len(outliers)
    assert "<svg" in figure.svg()


@pytest.mark.parametrize("prediction", [None, 3])
def test_the_stored_result_is_what_a_lesson_prints(
    prediction: float | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(course_predictions, "_session", course_predictions._Session())
    for name, result in {"staleness": 0.484, "step_traffic": 12346.0, "nudged_loss": 2e-7}.items():
        record_prediction(name, prediction)
        compare_prediction(name, result)
        text = capsys.readouterr().out.splitlines(keepends=True)
        cells = [{"cell_type": "markdown"}, {"outputs": [{"data": {}}, {"text": text}]}]
        assert prediction_report.stored_result(name, tmp_path / "none") is None
        lesson = tmp_path / f"{QUESTIONS[name].lesson}.ipynb"
        lesson.write_text(json.dumps({"cells": cells}), "utf-8")
        assert prediction_report.stored_result(name, tmp_path) == result
