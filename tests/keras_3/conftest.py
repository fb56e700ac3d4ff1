"""Cases of `benchmarks.keras_3` on three workers, which start once for all selected cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from benchmarks.keras_3.runs import verdicts
from benchmarks.keras_3.verdict import Verdict
from tests.keras_3.selection import selected_names


@pytest.fixture(scope="session")
def verdict(request: pytest.FixtureRequest) -> Callable[[str], Verdict]:
    """The verdict on a case, on three workers compared with one."""
    names = selected_names(request, "verdict")
    found: Mapping[str, Verdict] = verdicts(names=names, workers=(3,))[1]
    return lambda name: found[name]
