"""Predictions in the lessons: what `record_prediction` and `compare_prediction` print."""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from helpers import compare_prediction, i18n, record_prediction
from helpers.course import predictions
from helpers.course.predictions import QUESTIONS
from helpers.errors import ConfigError
from tests.support import ROOT
from tools.lessons import notebook

LABEL = "average staleness with three workers, in updates"
RATIO_LABEL = "traffic in a step, in MB"


@pytest.fixture(autouse=True)
def new_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets what other tests have recorded."""
    monkeypatch.setattr(predictions, "_session", predictions._Session())
    yield
    i18n.set_language("en")


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_prediction_is_shown_next_to_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    record_prediction("staleness", 2)
    compare_prediction("staleness", 0.4836)
    assert lines(capsys) == [
        f"{LABEL}: your prediction is 2.",
        f"{LABEL}: prediction 2, result 0.484, difference -1.52",
    ]


def test_numbers_of_different_magnitude_are_compared_by_their_ratio(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record_prediction("step_traffic", 1.4)
    compare_prediction("step_traffic", np.float64(2.8))
    assert lines(capsys)[-1] == f"{RATIO_LABEL}: prediction 1.4, result 2.8, ratio 2"
    record_prediction("weak_scaling_2", 0)
    compare_prediction("weak_scaling_2", 1.5)
    assert lines(capsys)[-1].endswith("prediction 0, result 1.5, difference 1.5")


def test_without_a_prediction_the_lesson_still_runs(capsys: pytest.CaptureFixture[str]) -> None:
    record_prediction("staleness", None)
    compare_prediction("staleness", 0.48)
    assert lines(capsys) == [
        f"{LABEL}: no prediction yet. Replace None with a number, and run this cell again.",
        f"{LABEL}: no prediction, result 0.48",
    ]


def test_a_result_without_a_recorded_prediction_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    compare_prediction("staleness", 0.48)
    assert lines(capsys) == [f"{LABEL}: no prediction, result 0.48"]


def test_a_machine_that_cannot_measure_commits_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    record_prediction("step_traffic", 3)
    compare_prediction("step_traffic", None)
    record_prediction("step_traffic", 4)
    assert lines(capsys)[1:] == [
        f"{RATIO_LABEL}: prediction 3, no result on this machine",
        f"{RATIO_LABEL}: your prediction is 4.",
    ]


def test_a_prediction_after_the_result_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    compare_prediction("staleness", 0.48)
    record_prediction("staleness", 0.5)
    compare_prediction("staleness", 0.49)
    late = "You entered it after the result was shown."
    assert lines(capsys)[1:] == [
        f"{LABEL}: your prediction is 0.5. {late}",
        f"{LABEL}: prediction 0.5, result 0.49, difference -0.01",
        late,
    ]


def test_a_change_after_the_result_is_marked_with_the_first_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record_prediction("staleness", 1)
    record_prediction("staleness", 2)
    compare_prediction("staleness", 0.48)
    assert "after" not in "".join(lines(capsys)), "a change before the result is allowed"
    record_prediction("staleness", 0.5)
    late = "You changed it after the result was shown. It was 2 before."
    assert lines(capsys) == [f"{LABEL}: your prediction is 0.5. {late}"]
    record_prediction("staleness", 2)
    compare_prediction("staleness", 0.48)
    assert "after" not in "".join(lines(capsys)), "the same number again is no change"


def test_each_question_has_its_own_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    record_prediction("weak_scaling_2", 2)
    compare_prediction("weak_scaling_2", 1.5)
    record_prediction("weak_scaling_4", 4)
    assert lines(capsys)[-1] == "weak scaling, speed-up of four workers: your prediction is 4."


@pytest.mark.parametrize(
    "value",
    ["2", True, float("nan"), float("inf"), 10**5000, 1j, [2], "x" * 500],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number_is_reported_and_stops_nothing(
    value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    record_prediction("staleness", value)
    compare_prediction("staleness", 0.48)
    [first, second] = lines(capsys)
    assert "is not a number. Enter one number, with a decimal point, as in 0.5." in first
    assert len(first) < 200
    assert second == f"{LABEL}: no prediction, result 0.48"


def test_a_decimal_comma_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    record_prediction("staleness", 0, 5)
    assert lines(capsys)[0].startswith(f"{LABEL}: 0, 5 is not a number.")
    record_prediction("staleness", None, 5)
    assert lines(capsys)[0].startswith(f"{LABEL}: None, 5 is not a number.")


@pytest.mark.parametrize("value", [np.float32(0.5), Fraction(1, 2), 0.5])
def test_numbers_of_any_type_are_predictions(
    value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    record_prediction("staleness", value)
    assert lines(capsys) == [f"{LABEL}: your prediction is 0.5."]
    assert predictions.to_prediction(Decimal("0.5")) is None, "Decimal is no Real in Python"


def test_a_ratio_that_is_too_large_is_omitted(capsys: pytest.CaptureFixture[str]) -> None:
    record_prediction("step_traffic", 5e-324)
    compare_prediction("step_traffic", 2.8)
    assert lines(capsys)[-1] == f"{RATIO_LABEL}: prediction 4.94e-324, result 2.8"


def test_numbers_use_the_notation_of_the_language(capsys: pytest.CaptureFixture[str]) -> None:
    i18n.set_language("es")
    record_prediction("staleness", 0.5)
    compare_prediction("staleness", 12345.6)
    first, second = lines(capsys)
    assert "0,5" in first
    assert "12\u00a0346" in second


def test_an_unknown_question_is_an_error_that_lists_all() -> None:
    for function in (record_prediction, compare_prediction):
        with pytest.raises(ConfigError, match=r"name='stale' is unknown.*staleness"):
            function("stale", 1)


def calls(code: str, name: str) -> Iterator[str]:
    """The questions that a cell passes to a function. In an f-string, `*` is any text."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            match node.args[0]:
                case ast.Constant(value=str(question)):
                    yield question
                case ast.JoinedStr(values=parts):
                    yield "".join(
                        str(p.value) if isinstance(p, ast.Constant) else "*" for p in parts
                    )


def test_every_question_is_asked_once_before_its_result() -> None:
    asked: list[tuple[str, str]] = []
    for path in sorted((ROOT / "notebooks" / "en").glob("*.ipynb")):
        cells = notebook.cells(notebook.read(path), "code")
        pending: list[str] = []
        for cell in cells:
            source = notebook.source(cell)
            if "_prediction(" not in source:
                continue
            for name in calls(source, "record_prediction"):
                assert f'record_prediction("{name}", None)' in source.splitlines()
                asked.append((path.stem, name))
                pending.append(name)
            for pattern in calls(source, "compare_prediction"):
                compared = fnmatch.filter(pending, pattern)
                assert compared, f"{path.stem} compares {pattern} before it is asked"
                pending = [name for name in pending if name not in compared]
        assert not pending, f"{path.stem} never shows the result"
    assert asked == [(question.lesson, name) for name, question in QUESTIONS.items()]
