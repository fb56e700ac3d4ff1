"""Metrics of the global batch, including a single batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.keras_3.verdict import Verdict
from tests.keras_3.selection import in_lanes
from tests.support.faults import needs_keras_3

pytestmark = needs_keras_3

METRICS = (
    "a metric that keeps a maximum",
    "a function of the batch",
    "metrics of `train_on_batch`",
    "a step that returns a variable",
)


@pytest.mark.parametrize("name", in_lanes(METRICS, ()))
def test_three_workers_report_the_metrics_of_one(
    name: str, verdict: Callable[[str], Verdict]
) -> None:
    found = verdict(name)
    assert found.holds, found
