"""Losses of the global batch, where the workers' parts are not alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.keras_3.verdict import Verdict
from tests.keras_3.conftest import MEANS
from tests.support.faults import needs_keras_3

pytestmark = needs_keras_3


@pytest.mark.parametrize("name", MEANS)
def test_three_workers_compute_the_loss_of_one(
    name: str, verdict: Callable[[str], Verdict]
) -> None:
    found = verdict(name)
    assert found.holds, found
