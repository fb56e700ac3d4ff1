"""Runs an answer in real workers that take part in an exchange."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.cluster import LocalCluster

PATIENCE = 10.0  # seconds to wait for the others at the end


def run_workers(function: Callable[[Any], Any], count: int = 2, **options: Any) -> list[Any]:
    """Calls `function` with its context in each worker of a cluster; returns what they return.

    A worker that has its sum may have it before its peers have theirs. If it ended then, their
    all-reduce would fail for a closed socket, so all stay until all have come to the end.

    Args:
      options: of `LocalCluster`.
    """
    with tempfile.TemporaryDirectory() as folder, LocalCluster(count, **options) as cluster:
        return cluster.run(_staying(function, Path(folder), count), timeout=60)


def _staying(function: Callable[[Any], Any], folder: Path, count: int) -> Callable[[Any], Any]:
    def run(context: Any) -> Any:
        value = function(context)
        (folder / str(context.config.task.index)).touch()
        deadline = time.monotonic() + PATIENCE
        while len(list(folder.iterdir())) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        return value

    return run
