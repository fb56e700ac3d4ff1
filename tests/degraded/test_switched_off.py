"""Linux features that other systems lack, disabled: training runs, deaths, the fault lab."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cluster.test_faults_notebook import ENDLESS, Notebook, notebook
from tests.support import ROOT
from tests.support.degraded import ALL, EACH, TOGETHER, switch_off
from tests.support.faults import ESTIMATOR
from tests.support.processes import is_running, wait_until

FORKS_NEED = {"pidfd", "setsig"}
SHORT = ("--steps", "400")
LOOK = """
import json
from helpers import LocalCluster
from tests.support.degraded import missing

with LocalCluster(1) as cluster:
    print(json.dumps([missing(), *cluster.run(missing)]))
"""


def train_and_kill(folder: Path, without: tuple[str, ...]) -> None:
    """Runs briefly and kills one worker, on a system without some features."""
    with notebook(ESTIMATOR, 2, folder, *SHORT) as it:
        it.all_started(2)
        assert_it_does_without(it, set(without))
        it.read_until("step")
        os.kill(it.pids[1], signal.SIGKILL)
        end = it.read_until("end", "raised")
        assert end["event"] == "end", end
        assert len(end["restarts"]) == 1
        assert ("ports are open" in str(end["notices"])) == bool(
            {"namespaces", "proc"} & {*without}
        )
    assert wait_until(lambda: not any(map(is_running, it.pids)), 5), f"{it.pids} still run"


def assert_it_does_without(it: Notebook, without: set[str]) -> None:
    """Checks that the first events and the processes show the disabled features."""
    started_anew = psutil.Process(it.pids[0]).ppid() == it.process.pid
    assert started_anew == bool(FORKS_NEED & without)
    assert (it.last["cores"] == []) == ("affinity" in without)
    assert it.last["isolated"] == (not {"namespaces", "proc"} & without)


@pytest.mark.degraded
@pytest.mark.parametrize("without", EACH)
def test_a_killed_worker_is_survived_without_an_ability(
    without: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off(monkeypatch, *without)
    train_and_kill(tmp_path, without)


@pytest.mark.degraded
def test_a_killed_worker_is_survived_without_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off(monkeypatch, *ALL)
    train_and_kill(tmp_path, ALL)


@pytest.mark.degraded
@pytest.mark.parametrize("without", [*EACH, TOGETHER])
def test_what_is_switched_off_is_off_in_the_notebook_and_in_its_workers(
    without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off(monkeypatch, *without)
    done = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    here, there = json.loads(done.stdout)
    assert here == there == list(without)


def workers_and_guards(it: Notebook) -> list[int]:
    """The PIDs of the workers and of their children."""
    started = [child.pid for pid in it.pids for child in psutil.Process(pid).children()]
    return it.pids + started


@pytest.mark.degraded
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "starting"])
def test_no_worker_outlives_a_killed_notebook_without_the_kernels_signal(
    frozen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off(monkeypatch, *ALL)
    with notebook(ESTIMATOR, 2, tmp_path, *ENDLESS) as it:
        it.all_started(2)
        everyone = workers_and_guards(it)
        if frozen:
            it.read_until("step")
            os.kill(it.pids[1], signal.SIGSTOP)
    assert len(everyone) == 4
    assert wait_until(lambda: not any(map(is_running, everyone)), 2), f"{everyone} still run"
