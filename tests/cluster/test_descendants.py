"""A worker ends all processes that a reader's function has started, however they detach."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers import LocalCluster
from helpers.cluster import processes
from helpers.cluster.fork_client import can_fork
from helpers.errors import ClusterError, UserCodeError
from tests.support.processes import is_running, wait_until

DEAF = """
import os, signal, sys, time
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""
DAEMON = """
import os, sys
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    sys.exit()
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
CHILDREN = {
    "deaf": [],
    "session": [],
    "daemon": ["-c", DAEMON],
    "daemon's daemon": ["-c", DAEMON] * 2,
}
DEADLINE = 120.0
ENDS = ("returns", "raises", "exits", "is killed", "runs on")


def start_children(folder: str, end: str) -> None:
    """Starts a child of each kind, waits until they run, and then acts according to `end`."""
    files = [Path(folder) / f"{name} {os.getpid()}" for name in CHILDREN]
    for file, (name, before) in zip(files, CHILDREN.items(), strict=True):
        command = [sys.executable, *before, "-c", DEAF, str(file)]
        subprocess.Popen(command, start_new_session=name == "session")
    while not all(file.exists() and file.read_text() for file in files):
        time.sleep(0.05)
    if end == "raises":
        raise ValueError("as told")
    if end == "exits":
        os._exit(0)
    if end == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "runs on":
        time.sleep(600)


PROGRAM = """
import functools, sys
from helpers import LocalCluster
from tests.cluster.test_descendants import start_children
with LocalCluster(workers=1) as cluster:
    cluster.run(functools.partial(start_children, sys.argv[1], "runs on"))
"""


def pids(folder: Path) -> list[int]:
    texts = (file.read_text() for file in folder.iterdir())
    return [int(text) for text in texts if text]


def end_of_a_run(folder: Path, end: str) -> None:
    function = functools.partial(start_children, str(folder), end)
    with LocalCluster(workers=1, max_restarts=0) as cluster:
        if end == "returns":
            cluster.run(function)
        elif end == "runs on":
            with pytest.raises(ClusterError):
                cluster.run(function, timeout=3)
        else:
            with pytest.raises((UserCodeError, ClusterError)):
                cluster.run(function)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "forks", [True, pytest.param(False, marks=pytest.mark.faults)], ids=["forked", "started anew"]
)
def test_nothing_that_a_function_started_outlives_its_worker(
    end: str, forks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not forks:
        monkeypatch.setattr(processes, "can_fork", lambda: False)
    if not forks and end in ("exits", "is killed"):
        pytest.skip("without a parent that outlives it, only its session can be found")
    end_of_a_run(tmp_path, end)
    found = pids(tmp_path)
    assert len(found) == len(CHILDREN)
    assert not [pid for pid in found if is_running(pid)]


@pytest.mark.faults
@pytest.mark.skipif(not can_fork(), reason="the server that forks workers survives the notebook")
def test_a_killed_notebook_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    started, temporary = tmp_path / "started", tmp_path / "temporary"
    started.mkdir()
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(started)], env=env) as notebook:
        assert wait_until(lambda: len(pids(started)) == len(CHILDREN), DEADLINE)
        assert any(temporary.iterdir())
        notebook.kill()
    found = pids(started)
    assert wait_until(lambda: not any(map(is_running, found)), DEADLINE)
    assert wait_until(lambda: not any(temporary.iterdir()), DEADLINE)
