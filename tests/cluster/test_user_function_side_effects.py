"""Side effects of a reader's function that the group survives, as listed in docs/FAULTS.md."""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from helpers import LocalCluster
from helpers.protocol.events import EventWriter


def start_thread() -> str:
    threading.Thread(target=time.sleep, args=[600]).start()
    return "done"


def be_deaf() -> str:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return "done"


def fork() -> str:
    return "done" if os.fork() else "the child's"


def use_multiprocessing(method: str) -> list[int]:
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(abs, [-1, 2])


def change_surroundings() -> list[str | None]:
    before = [os.getcwd(), os.environ.get("CHANGED")]
    os.chdir("/")
    os.environ["CHANGED"] = "1"
    return before


def register(file: Path) -> None:
    atexit.register(file.touch)


@pytest.mark.parametrize("function", [start_thread, be_deaf, fork])
def test_a_worker_ends_whatever_its_function_leaves_behind(function: object) -> None:
    assert callable(function)
    with LocalCluster(2) as cluster:
        assert cluster.run(function) == ["done", "done"]
        assert cluster.run(function) == ["done", "done"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_works(method: str) -> None:
    with LocalCluster(1) as cluster:
        assert cluster.run(lambda: use_multiprocessing(method)) == [[1, 2]]


def test_what_is_registered_with_atexit_is_not_called(tmp_path: Path) -> None:
    file = tmp_path / "called"
    with LocalCluster(1) as cluster:
        cluster.run(functools.partial(register, file))
    assert not file.exists()


def test_a_changed_directory_or_environment_is_the_workers_own() -> None:
    with LocalCluster(2) as cluster:
        for _time in range(2):
            assert cluster.run(change_surroundings) == [[os.getcwd(), None]] * 2
    assert "CHANGED" not in os.environ


def test_a_fork_of_a_worker_sends_no_events() -> None:
    reader, writer = os.pipe()
    events = EventWriter(writer)
    if not os.fork():
        events("heartbeat")
        os._exit(0)
    os.wait()
    os.close(writer)
    assert os.read(reader, 100) == b""
    os.close(reader)
