"""The meaning of "equal" in the table of Keras 3."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.keras_3.verdict import AS_ONE, judge

NAN = float("nan")


def answer(*losses: float, not_numbers: bool = False) -> dict[str, Any]:
    about = {"claim": AS_ONE, "tolerance": 1e-6, "refused": "", "not_numbers": not_numbers}
    return {"case": about | {"given": {"history": list(losses)}}}


@pytest.mark.parametrize(
    ("one", "several", "holds"),
    [((1.0,), (1.0,), True), ((1.0,), (1.1,), False), ((1.0,), (NAN,), False)],
)
def test_what_differs_or_is_not_a_number_does_not_hold(
    one: tuple[float, ...], several: tuple[float, ...], holds: bool
) -> None:
    assert judge(answer(*one), [answer(*several)])["case"].holds is holds


def test_nan_on_both_sides_holds_only_where_it_is_expected() -> None:
    assert not judge(answer(NAN), [answer(NAN)])["case"].holds
    expected = answer(NAN, not_numbers=True)
    assert judge(expected, [expected])["case"].holds


def test_results_that_are_missing_do_not_hold() -> None:
    assert not judge(answer(1.0, 2.0), [answer(1.0)])["case"].holds
