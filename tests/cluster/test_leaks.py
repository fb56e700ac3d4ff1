"""Many runs in one process leave nothing behind, and cost the notebook little."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from helpers import LocalCluster
from helpers.protocol.events import Event
from tests.support.faults import FaultAtStep, kill, train_tiny
from tests.support.processes import wait_until, worker_pids

MB = 2**20


@dataclass(frozen=True)
class Footprint:
    """The resources of this process, with `memory` in bytes."""

    workers: int
    threads: int
    descriptors: int
    files: int
    memory: int

    @classmethod
    def now(cls) -> Footprint:
        gc.collect()  # so that garbage from earlier tests does not count
        process = psutil.Process()
        return cls(
            workers=len(worker_pids()),
            threads=threading.active_count(),
            descriptors=process.num_fds(),
            files=len(os.listdir(tempfile.gettempdir())),
            memory=process.memory_info().rss,
        )


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate folder for temporary files, because other programs use the common one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def run_once(restarts: int) -> None:
    """A run with a worker that is killed at a step `restarts` times."""
    with LocalCluster(workers=2, max_restarts=restarts) as cluster:
        result = train_tiny(cluster, 100 + 50 * restarts, Killer(cluster, restarts))
    assert len(result.restarts) == restarts


class Killer:
    """Kills worker 1 in each of the first attempts."""

    def __init__(self, cluster: LocalCluster, times: int) -> None:
        self._saboteurs = [FaultAtStep(cluster, 1 + 50 * i, kill("worker 1")) for i in range(times)]

    def __call__(self, event: Event) -> None:
        if event.get("attempt", 0) < len(self._saboteurs):
            self._saboteurs[event["attempt"]](event)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("runs", "restarts"),
    [
        pytest.param(6, 3, id="few runs"),
        pytest.param(50, 20, id="many runs", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("temporary")
def test_runs_and_restarts_leave_nothing_in_the_notebooks_process(runs: int, restarts: int) -> None:
    run_once(restarts=1)  # loads everything that stays loaded
    before = Footprint.now()
    for _ in range(runs - 1):
        run_once(restarts=0)
    run_once(restarts)
    after = Footprint.now()
    print(before, after, sep="\n")
    assert (after.workers, after.files) == (before.workers, before.files) == (0, before.files)
    assert after.threads == before.threads
    assert after.descriptors == before.descriptors
    assert after.memory - before.memory < 10 * MB


@contextmanager
def cpu_share() -> Iterator[Callable[[], float]]:
    """Yields a function that returns the share of a core used since the block began."""
    cpu, wall = time.process_time(), time.monotonic()
    yield lambda: (time.process_time() - cpu) / (time.monotonic() - wall)


@pytest.mark.training
@pytest.mark.parametrize(
    ("workers", "steps"), [(4, 1500), pytest.param(16, 30, marks=pytest.mark.slow)]
)
def test_the_notebooks_process_uses_less_than_a_tenth_of_a_core(workers: int, steps: int) -> None:
    with LocalCluster(workers, step_timeout=120) as cluster, cpu_share() as share:
        result = train_tiny(cluster, steps)
        used = share()
    print(f"{workers} workers: {used:.1%} of a core, {result.seconds:.0f} s")
    assert result.steps == steps
    assert not result.restarts
    assert set(result.history) == {f"worker {index}" for index in range(workers)}
    assert used < 0.1
    assert wait_until(lambda: not worker_pids(), 5)
