"""Losses of the global batch, with unequal parts on the workers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.keras_3.verdict import Verdict
from tests.support.faults import needs_keras_3

pytestmark = needs_keras_3

MEANS = (
    "a function that returns a mean",
    "Dice",
    "Keras's loss and a mean",
    "`reduction=None` in `compile`",
    "arrays that do not divide",
    "`mean_with_sample_weight`",
    "`mask_zero`",
    "two outputs",
    "BatchNormalization without examples",
    "BatchNormalization, synchronized, uneven",
    "batches of one, own mean",
)


@pytest.mark.keras_3
@pytest.mark.parametrize("name", MEANS)
def test_three_workers_compute_the_loss_of_one(
    name: str, verdict: Callable[[str], Verdict]
) -> None:
    found = verdict(name)
    assert found.holds, found
