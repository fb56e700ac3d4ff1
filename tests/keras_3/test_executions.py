"""Several steps per execution, with an execution that the data cuts short."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.keras_3.verdict import Verdict
from tests.keras_3.selection import in_lanes
from tests.support.faults import needs_keras_3

pytestmark = needs_keras_3

EXECUTIONS = (
    "an execution cut short, EarlyStopping",
    "`train_on_batch` in executions",
)


@pytest.mark.parametrize("name", in_lanes(EXECUTIONS, ()))
def test_executions_keep_their_results(name: str, verdict: Callable[[str], Verdict]) -> None:
    found = verdict(name)
    assert found.holds, found
