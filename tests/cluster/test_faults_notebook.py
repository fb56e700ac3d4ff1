"""Faults of the notebook's process: interrupted, killed, suspended, or reading broken lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.errors import ClusterError, ConfigError, StoppedError
from tests.support.faults import (
    ESTIMATOR,
    KERAS,
    KERAS_3,
    FaultAtStep,
    TrainingApi,
    api_matrix,
    kill,
    needs_keras_3,
)
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn
from tests.support.processes import is_running, wait_until, worker_pids

PROGRAM = "tests.support.notebook_process"
ENDLESS = ("--steps", "1000000")


class Notebook:
    """A separate process that trains, and its output so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pids: list[int] = []
        self.last: dict[str, Any] = {}

    def read_until(self, *kinds: str) -> dict[str, Any]:
        """Returns the next event of one of these kinds."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.last = json.loads(line)
            if self.last["event"] == "started":
                self.pids.append(self.last["pid"])
            if self.last["event"] in kinds:
                return self.last
        raise AssertionError(f"the process ended after {self.last}")

    def all_started(self, workers: int) -> None:
        while len(self.pids) < workers:
            self.read_until("started")


@contextmanager
def notebook(api: TrainingApi, workers: int, folder: Path, *options: str) -> Iterator[Notebook]:
    process = subprocess.Popen(
        [sys.executable, "-m", PROGRAM, api.name, str(workers), str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            yield Notebook(process)
        finally:
            process.kill()


@api_matrix(ESTIMATOR, 2)
def test_no_worker_outlives_a_killed_notebook_not_even_a_frozen_one(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    with notebook(api, workers, tmp_path, *ENDLESS) as it:
        it.all_started(workers)
        it.read_until("step")
        os.kill(it.pids[1], signal.SIGSTOP)
    assert wait_until(lambda: not any(map(is_running, it.pids)), 2), f"{it.pids} still run"


def test_no_worker_outlives_a_notebook_that_is_killed_while_they_start(tmp_path: Path) -> None:
    with notebook(ESTIMATOR, 2, tmp_path) as it:
        it.all_started(2)
    assert wait_until(lambda: not any(map(is_running, it.pids)), 2), f"{it.pids} still run"


@api_matrix(KERAS, 2)
def test_sigterm_ends_the_notebook_and_all_workers(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    with notebook(api, workers, tmp_path, *ENDLESS) as it:
        it.all_started(workers)
        it.read_until("step")
        it.process.terminate()
        it.process.wait(5)
        assert wait_until(lambda: not any(map(is_running, it.pids)), 2), f"{it.pids} still run"


@api_matrix(ESTIMATOR, 2)
def test_sigint_stops_the_training_and_the_notebook_lives(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    with notebook(api, workers, tmp_path, *ENDLESS) as it:
        it.all_started(workers)
        it.read_until("step")
        it.process.send_signal(signal.SIGINT)
        assert it.read_until("raised", "end")["type"] == "KeyboardInterrupt"
        assert not any(map(is_running, it.pids))


@pytest.mark.parametrize(
    ("api", "workers", "seconds"),
    [
        pytest.param(ESTIMATOR, 2, 6, id="estimator", marks=pytest.mark.faults),
        pytest.param(KERAS_3, 2, 6, id="keras 3", marks=[pytest.mark.faults, needs_keras_3]),
        pytest.param(KERAS, 2, 60, id="keras, a minute", marks=pytest.mark.slow),
        pytest.param(ESTIMATOR, 4, 60, id="4 workers, a minute", marks=pytest.mark.slow),
    ],
)
def test_a_machine_that_slept_longer_than_the_deadlines_restarts_nothing(
    api: TrainingApi, workers: int, seconds: int, tmp_path: Path
) -> None:
    with notebook(api, workers, tmp_path, "--step-timeout", "5") as it:
        it.all_started(workers)
        it.read_until("step")
        everyone = [it.process.pid, *it.pids]
        for pid in everyone:
            os.kill(pid, signal.SIGSTOP)
        awake_at = time.monotonic() + seconds
        assert wait_until(lambda: time.monotonic() > awake_at, seconds + 10)
        for pid in everyone:
            os.kill(pid, signal.SIGCONT)
        end = it.read_until("end", "raised")
    assert end["event"] == "end"
    assert end["restarts"] == []


def test_ctrl_c_in_the_notebook_stops_the_workers() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a notebook
    try:
        with LocalCluster(workers=2) as cluster:
            interrupt = lambda c: signal.raise_signal(signal.SIGINT)  # noqa: E731
            with pytest.raises(KeyboardInterrupt):
                train(cluster, 10**6, FaultAtStep(cluster, 100, interrupt))
            assert not worker_pids()
    finally:
        signal.signal(signal.SIGINT, before)


def train(cluster: LocalCluster, steps: int, on_event: Any) -> Any:
    return cluster.train(
        tiny_model_fn,
        tiny_input_fn,
        steps=steps,
        params=PARAMS,
        progress=False,
        on_event=on_event,
    )


def test_stop_from_another_thread_ends_everything_at_once() -> None:
    with LocalCluster(workers=2) as cluster:

        def stop() -> None:
            cluster.stop()
            cluster.stop()

        saboteur = FaultAtStep(cluster, 100, lambda c: threading.Thread(target=stop).start())
        with pytest.raises(StoppedError):
            train(cluster, 10**6, saboteur)
        assert not worker_pids()
        cluster.stop()
    cluster.close()


def test_too_many_faults_end_the_run_with_the_last_lines_of_the_log() -> None:
    with LocalCluster(workers=2, max_restarts=0) as cluster:
        with pytest.raises(ClusterError, match="restarts are disabled") as caught:
            train(cluster, 10**6, FaultAtStep(cluster, 100, kill("worker 1")))
        assert "worker 1 ended with signal 9" in str(caught.value)
        assert "Its last lines" in str(caught.value)
        assert "eval_strategy" in str(caught.value)  # part of TensorFlow's log


def test_a_broken_event_line_does_not_stop_the_watching() -> None:
    def noisy_input_fn(mode: str, params: Any, input_context: Any = None) -> Any:
        for fd in range(3, 64):  # the event pipe is one of these
            try:
                os.write(fd, b'{"event": \xff\n[]\n{"event": "step"}\n\n')
            except OSError:
                continue
        return tiny_input_fn(mode, params, input_context)

    with LocalCluster(workers=2) as cluster:
        result = cluster.train(
            tiny_model_fn, noisy_input_fn, steps=50, params=PARAMS, progress=False
        )
    assert result.evaluations[-1].step == 50


def test_a_second_training_on_a_busy_cluster_is_refused() -> None:
    refused: list[str] = []

    def again(cluster: LocalCluster) -> None:
        with pytest.raises(ClusterError) as caught:
            train(cluster, 1, None)
        refused.append(str(caught.value))

    with LocalCluster(workers=1) as cluster:
        result = train(cluster, 500, FaultAtStep(cluster, 100, again))
    assert result.steps == 500
    assert "is already running" in refused[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "whole number of at least 1"),
        ({"collective": "MPI"}, "AUTO, RING, NCCL"),
        ({"strategy": "Mirrored"}, "unknown"),
        ({"workers": 1_000_000}, "do not fit into the free memory"),
        ({"ps": 1_000_000}, "ps=1000000 parameter servers do not fit"),
        ({"max_restarts": -1}, "max_restarts=-1 must be a whole number of at least 0"),
        ({"max_restarts": 1.5}, "whole number of at least 0"),
        ({"step_timeout": 0}, "step_timeout=0 must be a number of seconds above 0"),
        ({"start_timeout": -5}, "start_timeout=-5 must be a number of seconds above 0"),
        ({"start_timeout": "soon"}, "number of seconds above 0"),
    ],
)
def test_a_choice_that_cannot_work_is_refused_at_once(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LocalCluster(**options)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "soon"])
def test_a_time_for_a_function_that_is_none_is_refused(timeout: Any) -> None:
    with LocalCluster(1) as cluster, pytest.raises(ConfigError, match="number of seconds above 0"):
        cluster.run(print, timeout=timeout)
