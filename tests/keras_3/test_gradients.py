"""Gradients are summed before the program changes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.keras_3.verdict import Verdict
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


@pytest.mark.keras_3
@pytest.mark.parametrize("name", GRADIENTS)
def test_three_workers_apply_the_gradients_of_one(
    name: str, verdict: Callable[[str], Verdict]
) -> None:
    found = verdict(name)
    assert found.holds, found
