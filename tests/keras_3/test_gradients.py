"""Gradients are summed before the program changes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.keras_3.verdict import Verdict
from tests.keras_3.selection import in_lanes
from tests.support.faults import needs_keras_3

pytestmark = needs_keras_3

GRADIENTS = (
    "clipped in `train_step`",
    "two tapes, one persistent",
    "each example's gradient clipped",
    "`apply` overridden",
    "`apply_gradients` overridden, own loop",
    "an Embedding's gradients clipped",
)
KEPT = ("clipped in `train_step`",)


@pytest.mark.parametrize("name", in_lanes(GRADIENTS, KEPT))
def test_three_workers_apply_the_gradients_of_one(
    name: str, verdict: Callable[[str], Verdict]
) -> None:
    found = verdict(name)
    assert found.holds, found
