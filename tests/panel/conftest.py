from __future__ import annotations

import pytest

from tests.support.replay import replay


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters replay the events of a training run instead of starting workers."""
    replay(monkeypatch)
