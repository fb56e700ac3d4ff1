"""Faults, each made on purpose with real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import is_running, wait_until, worker_pids
from functions import PARAMS, tiny_input_fn, tiny_model_fn

import helpers.cluster
import helpers.processes
from helpers import LocalCluster
from helpers.errors import ClusterError, ConfigError, StoppedError, UserCodeError
from helpers.events import Event
from helpers.result import TrainingResult

STEPS, SAVE = 3000, 100


class Saboteur:
    """Does something once, at a known step, and notes when the training went on."""

    def __init__(self, cluster: LocalCluster, step: int, deed: Any) -> None:
        self.cluster = cluster
        self.step = step
        self.deed = deed
        self.done_at: float | None = None
        self.known_at: float | None = None
        self.back_at: float | None = None
        self.known_step = 0

    def __call__(self, event: Event) -> None:
        if event["event"] == "step" and event["step"] >= self.step and self.done_at is None:
            self.done_at = time.time()
            self.deed(self.cluster)
        if event["event"] == "restart" and self.known_at is None:
            self.known_at = event["time"]
        if event["event"] == "step" and event["attempt"] == 1 and self.back_at is None:
            self.back_at = event["time"]

    @property
    def detection(self) -> float:
        assert self.done_at and self.known_at
        return self.known_at - self.done_at

    @property
    def recovery(self) -> float:
        assert self.known_at and self.back_at
        return self.back_at - self.known_at


def train(cluster: LocalCluster, **options: Any) -> TrainingResult:
    defaults: dict[str, Any] = {
        "steps": STEPS,
        "params": PARAMS,
        "save_checkpoints_steps": SAVE,
        "progress": False,
    }
    return cluster.train(tiny_model_fn, tiny_input_fn, **defaults | options)


def assert_recovered(result: TrainingResult, restarts: int = 1) -> None:
    assert len(result.restarts) == restarts
    assert result.evaluations[-1].step == STEPS
    assert result.evaluation["error"] < 0.05
    assert restarts in result.resumed_at
    for attempt in sorted(result.resumed_at)[1:]:
        before = max(
            (p.step for points in result.history.values() for p in points if p.attempt < attempt),
            default=0,
        )
        assert before - result.resumed_at[attempt] <= SAVE - 1 + 50  # 50: unreported, at 10 Hz


def kill(task: int) -> Any:
    return lambda cluster: os.kill(cluster.processes[task].pid, signal.SIGKILL)


@pytest.mark.parametrize("task", [0, 1], ids=["the chief", "a worker"])
def test_a_killed_process_restarts_the_group_from_the_checkpoint(task: int) -> None:
    with LocalCluster(workers=2, collective="RING") as cluster:
        saboteur = Saboteur(cluster, 500, kill(task))
        result = train(cluster, on_event=saboteur)
    assert f"worker {task} ended with signal 9 (SIGKILL)" in result.restarts[0]
    assert_recovered(result)
    assert saboteur.detection < 0.5
    assert saboteur.recovery < 20  # 4 s alone; this machine runs other tests too


def test_a_frozen_worker_is_known_within_the_deadline() -> None:
    with LocalCluster(workers=2, step_timeout=6) as cluster:
        freeze = lambda c: os.kill(c.processes[1].pid, signal.SIGSTOP)  # noqa: E731
        saboteur = Saboteur(cluster, 500, freeze)
        result = train(cluster, on_event=saboteur)
    assert "worker 1 gave no sign of life for 6 s" in result.restarts[0]
    assert_recovered(result)
    assert 5 < saboteur.detection < 7.5


def test_a_worker_that_never_starts_is_named_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    real = helpers.cluster.start_processes

    def freeze_one(configs: Any, work: Path, folder: Path) -> Any:
        processes = real(configs, work, folder)
        if folder.name == "attempt-0":
            os.kill(processes[1].pid, signal.SIGSTOP)
        return processes

    monkeypatch.setattr(helpers.cluster, "start_processes", freeze_one)
    with LocalCluster(workers=2, start_timeout=15, step_timeout=30) as cluster:
        result = train(cluster)
    assert "worker 1 was not ready within 15 s" in result.restarts[0]
    assert_recovered(result)


def test_a_taken_port_is_answered_with_other_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    real = helpers.processes.free_ports
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        taken = squatter.getsockname()[1]
        answers = iter([[real(1)[0], taken]])
        monkeypatch.setattr(helpers.cluster, "free_ports", lambda n: next(answers, None) or real(n))
        with LocalCluster(workers=2) as cluster:
            result = train(cluster)
    assert "worker 1 raised UnknownError" in result.restarts[0]
    assert "Could not start gRPC server" in result.restarts[0]
    assert_recovered(result)


def test_a_fault_during_the_restart_costs_one_more_restart() -> None:
    def kill_again(event: Event) -> None:
        saboteur(event)
        if event["event"] == "started" and event["attempt"] == 1 and event["task"] == "worker 1":
            os.kill(event["pid"], signal.SIGKILL)

    with LocalCluster(workers=2) as cluster:
        saboteur = Saboteur(cluster, 500, kill(0))
        result = train(cluster, on_event=kill_again)
    assert_recovered(result, restarts=2)


def test_too_many_faults_end_the_run_with_the_last_lines_of_the_log() -> None:
    with LocalCluster(workers=2, max_restarts=0) as cluster:
        with pytest.raises(ClusterError, match="restarted 0 time") as caught:
            train(cluster, on_event=Saboteur(cluster, 100, kill(1)))
        assert "worker 1 ended with signal 9" in str(caught.value)
        assert "Its last lines" in str(caught.value)
        assert "eval_strategy" in str(caught.value)  # something that TensorFlow logged


def test_an_exception_in_the_readers_function_is_shown_once_and_restarts_nothing() -> None:
    def broken_model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        return features.no_such_method()

    restarts: list[Event] = []
    with LocalCluster(workers=2) as cluster, pytest.raises(UserCodeError) as caught:
        cluster.train(
            broken_model_fn,
            tiny_input_fn,
            steps=10,
            params=PARAMS,
            progress=False,
            on_event=lambda e: restarts.append(e) if e["event"] == "restart" else None,
        )
    text = str(caught.value)
    assert "features.no_such_method()" in text
    assert text.count("Traceback") == 1
    assert "site-packages" not in text
    assert not restarts


def test_stop_from_another_thread_ends_everything_within_a_second() -> None:
    stopped_at: list[float] = []
    with LocalCluster(workers=2) as cluster:

        def stop() -> None:
            stopped_at.append(time.monotonic())
            cluster.stop()
            cluster.stop()

        saboteur = Saboteur(cluster, 100, lambda c: threading.Thread(target=stop).start())
        with pytest.raises(StoppedError):
            train(cluster, steps=10**6, on_event=saboteur)
        assert time.monotonic() - stopped_at[0] < 1
        cluster.stop()
    cluster.close()


NOTEBOOK = """
    import sys
    sys.path.insert(0, {tests!r})
    from functions import PARAMS, tiny_input_fn, tiny_model_fn
    from helpers import LocalCluster

    def show(event):
        if event["event"] == "started":
            print("pid", event["pid"], flush=True)
        if event["event"] == "step":
            print("training", flush=True)

    cluster = LocalCluster(workers=2)
    cluster.train(tiny_model_fn, tiny_input_fn, steps=10**6, params=PARAMS, on_event=show,
                  progress=False)
"""


@pytest.mark.parametrize("moment", ["pid", "training"])
def test_no_worker_outlives_the_process_that_started_it(moment: str) -> None:
    script = textwrap.dedent(NOTEBOOK).format(tests=str(Path(__file__).parent))
    notebook = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert notebook.stdout
    pids: list[int] = []
    try:
        for line in notebook.stdout:
            if line.startswith("pid"):
                pids.append(int(line.split()[1]))
            if len(pids) == 2 and line.startswith(moment):
                break
        os.kill(pids[1], signal.SIGSTOP)  # not even one that cannot run
    finally:
        notebook.kill()
        notebook.wait()
    assert len(pids) == 2
    assert wait_until(lambda: not any(map(is_running, pids)), 2), f"{pids} still run"


def test_ctrl_c_in_the_notebook_stops_the_workers() -> None:
    # Pytest in the background of a shell inherits an ignored SIGINT; a notebook never does.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt_a_training()
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_a_training() -> None:
    with LocalCluster(workers=2) as cluster:
        interrupt = lambda c: signal.raise_signal(signal.SIGINT)  # noqa: E731
        with pytest.raises(KeyboardInterrupt):
            train(cluster, steps=10**6, on_event=Saboteur(cluster, 100, interrupt))
        assert not worker_pids()


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
            train(cluster, steps=1)
        refused.append(str(caught.value))

    with LocalCluster(workers=1) as cluster:
        result = train(cluster, on_event=Saboteur(cluster, 100, again))
    assert result.steps == STEPS
    assert "is at work already" in refused[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "whole number from 1"),
        ({"collective": "MPI"}, "AUTO, RING, NCCL"),
        ({"strategy": "Mirrored"}, "unknown"),
    ],
)
def test_a_choice_that_cannot_work_is_refused_at_once(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LocalCluster(**options)
