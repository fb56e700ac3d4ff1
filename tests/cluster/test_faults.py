"""Faults of the workers, each injected into real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import helpers.cluster.launcher
from helpers import LocalCluster
from helpers.cluster.launcher import Launcher
from helpers.cluster.processes import TaskProcess
from helpers.protocol.events import Event
from helpers.system.ports import free_ports
from tests.support.faults import (
    ESTIMATOR,
    KERAS,
    FaultAtStep,
    TrainingApi,
    api_matrix,
    assert_resumed_near,
    freeze,
    kill,
    print_latencies,
)
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn


@api_matrix(None, 2, keras_3=True)
def test_a_killed_chief_restarts_the_group_from_the_checkpoint(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    kill_at_a_step(api, workers, 0, tmp_path)


@api_matrix(ESTIMATOR, 2)
def test_a_killed_worker_restarts_the_group_from_the_checkpoint(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    kill_at_a_step(api, workers, workers - 1, tmp_path)


def kill_at_a_step(api: TrainingApi, workers: int, task: int, folder: Path) -> None:
    with LocalCluster(workers, collective="RING") as cluster:
        saboteur = FaultAtStep(cluster, api.fault_at, kill(f"worker {task}"))
        result = api.train(cluster, folder, saboteur)
    assert f"worker {task} ended with signal 9 (SIGKILL)" in result.restarts[0]
    assert len(result.restarts) == 1
    assert_resumed_near(api, result)
    print_latencies(saboteur)


@pytest.mark.faults
@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_killed_evaluator_restarts_the_group(workers: int) -> None:
    with LocalCluster(workers) as cluster:
        saboteur = FaultAtStep(cluster, ESTIMATOR.fault_at, kill("evaluator 0"))
        result = cluster.train(
            tiny_model_fn,
            tiny_input_fn,
            steps=ESTIMATOR.steps,
            params=PARAMS,
            save_checkpoints_steps=ESTIMATOR.save,
            evaluate="sidecar",
            progress=False,
            on_event=saboteur,
        )
    assert len(result.restarts) == 1
    assert "evaluator 0 ended with signal 9" in result.restarts[0]
    assert result.evaluations[-1].step == ESTIMATOR.steps
    assert_resumed_near(ESTIMATOR, result)
    print_latencies(saboteur)


@api_matrix(ESTIMATOR, 2)
def test_a_frozen_worker_is_known_within_the_deadline(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    with LocalCluster(workers, step_timeout=5) as cluster:
        saboteur = FaultAtStep(cluster, api.fault_at, freeze("worker 1"))
        result = api.train(cluster, tmp_path, saboteur)
    assert len(result.restarts) == 1
    assert "worker 1 has not responded for 5 s" in result.restarts[0]
    assert_resumed_near(api, result)
    print_latencies(saboteur)


@api_matrix(None, 2)
def test_a_worker_that_never_starts_is_named_and_replaced(
    api: TrainingApi, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Launcher.launch

    def freeze_one(launcher: Launcher, attempt: int, workers: int | None) -> list[TaskProcess]:
        processes = real(launcher, attempt, workers)
        if attempt == 0:
            os.kill(processes[1].pid, signal.SIGSTOP)
        return processes

    monkeypatch.setattr(Launcher, "launch", freeze_one)
    seconds = 6 * workers
    with LocalCluster(workers, start_timeout=seconds, step_timeout=60) as cluster:
        result = api.train(cluster, tmp_path)
    assert len(result.restarts) == 1
    assert f"worker 1 was not ready within {seconds} s" in result.restarts[0]


@pytest.mark.faults
@api_matrix(ESTIMATOR, 2)
def test_a_slow_start_under_load_is_no_fault(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    with load(3 * (os.cpu_count() or 1)), LocalCluster(workers) as cluster:
        result = api.train(cluster, tmp_path)
    assert not result.restarts


@contextmanager
def load(count: int) -> Iterator[None]:
    """Starts that many processes that compute endlessly."""
    with ExitStack() as stack:
        for _ in range(count):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        yield


@api_matrix(ESTIMATOR, 2)
def test_a_port_taken_at_a_start_or_a_restart_is_answered_with_other_ports(
    api: TrainingApi, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        taken = squatter.getsockname()[1]
        answers = iter([True, False, True])  # at the start, and after the fault of the second group

        def some_taken(count: int) -> list[int]:
            ports = free_ports(count)
            return [*ports[:-1], taken] if next(answers, False) else ports

        monkeypatch.setattr(helpers.cluster.launcher, "free_ports", some_taken)
        with LocalCluster(workers, network="host") as cluster:
            result = api.train(
                cluster, tmp_path, FaultAtStep(cluster, api.fault_at, kill("worker 0"))
            )
    first, second, third = result.restarts
    for reason in (first, third):
        assert f"worker {workers - 1} raised UnknownError" in reason
        assert "Could not start gRPC server" in reason
    assert "worker 0 ended with signal 9" in second
    assert_resumed_near(api, result)


@pytest.mark.faults
@api_matrix(ESTIMATOR, 2)
def test_two_faults_at_once_cost_one_restart(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    def both(cluster: LocalCluster) -> None:
        freeze("worker 0")(cluster)
        kill("worker 1")(cluster)

    with LocalCluster(workers) as cluster:
        result = api.train(cluster, tmp_path, FaultAtStep(cluster, api.fault_at, both))
    assert len(result.restarts) == 1
    assert_resumed_near(api, result)


@pytest.mark.faults
@api_matrix(KERAS, 2)
def test_a_fault_during_the_restart_costs_one_more_restart(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    def kill_again(event: Event) -> None:
        saboteur(event)
        if event["event"] == "started" and event["attempt"] == 1 and event["task"] == "worker 1":
            os.kill(event["pid"], signal.SIGKILL)

    with LocalCluster(workers) as cluster:
        saboteur = FaultAtStep(cluster, api.fault_at, kill("worker 0"))
        result = api.train(cluster, tmp_path, kill_again)
    assert len(result.restarts) == 2
    assert_resumed_near(api, result)


@pytest.mark.faults
@api_matrix(ESTIMATOR, 2)
def test_a_fault_in_the_last_step_loses_no_result(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    with LocalCluster(workers) as cluster:
        saboteur = FaultAtStep(cluster, api.steps, kill("worker 0"))
        result = api.train(cluster, tmp_path, saboteur)
    assert saboteur.done_at
    assert len(result.restarts) == 1
    assert_resumed_near(api, result)
