"""What several tests use: a place for checkpoints, and proof that nothing is left running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from helpers.system.keras_2 import select_keras_2

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# A slow minute of the machine is no fault of an example.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")
select_keras_2()  # before a test module imports tensorflow


def pytest_configure() -> None:
    """A shell's background jobs inherit an ignored SIGINT, and so would what the tests start.

    Only here: where a test's function travels to, this module is imported in other threads.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Polls `condition` until it holds or the deadline passes; whether it held."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def worker_pids() -> set[int]:
    """The workers of this process: children that run helpers.worker, and what its server forked."""
    commands, parents = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = file.read()
            with open(f"/proc/{entry}/stat") as file:
                parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        commands[int(entry)] = command
    ours = {pid for pid, parent in parents.items() if parent == os.getpid()}
    servers = {pid for pid in ours if b"helpers.cluster.fork_server" in commands[pid]}
    forked = {pid for pid, parent in parents.items() if parent in servers and commands[pid]}
    return forked | {pid for pid in ours if b"helpers.worker" in commands[pid]}


@pytest.fixture(autouse=True)
def no_worker_outlives_its_test() -> Iterator[None]:
    yield
    left = worker_pids()
    assert not left, f"worker processes left running: {left}"
