"""One cluster for all programs of a module, because each start takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.cluster.local import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(workers=2) as group:
        yield group


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalCluster]:
    """A chief, a worker and a parameter server."""
    with LocalCluster(workers=1, ps=1) as group:
        yield group
