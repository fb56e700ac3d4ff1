"""Workers are forked from a process that has TensorFlow, or import it if a fork is not safe."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.cluster import fork_client as forked
from helpers.cluster import processes
from helpers.cluster.fork_client import ForkedProcess, ForkServer, can_fork
from helpers.cluster.fork_server import (
    FAREWELL,
    READY_BYTE,
    Request,
    Server,
    claim,
    new_claim_token,
)
from helpers.errors import StoppedError
from helpers.worker.context import WorkerContext
from tests.support.faults import FaultAtStep, kill, train_tiny
from tests.support.processes import is_running, wait_until, worker_pids

pytestmark = pytest.mark.skipif(not can_fork(), reason="forks need Linux 5.3 and no GPU")


STANDARD, INSTALLED = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")


def about_myself(context: WorkerContext) -> dict[str, Any]:
    """Information about a worker's process, from inside."""
    loaded = "tensorflow" in sys.modules
    import random
    import tempfile

    import numpy as np
    import psutil
    import tensorflow as tf

    return {
        "loaded": loaded,
        "parent": os.getppid(),
        "session": os.getsid(0) == os.getpid(),
        "random": [random.random(), np.random.rand(), float(tf.random.uniform([]))],
        "temporary": tempfile.gettempdir(),
        "folder": os.getcwd(),
        "path": sys.path,
        "color": os.environ.get("COLOR"),
        "descriptors": psutil.Process().num_fds(),
    }


def run(function: Any = about_myself, workers: int = 2) -> list[Any]:
    with LocalCluster(workers) as cluster:
        return list(cluster.run(function))


def server_pid() -> int:
    return int(run(workers=1)[0]["parent"])


def test_workers_have_tensorflow_from_the_start_and_one_parent() -> None:
    first, second = run(), run()
    assert all(worker["loaded"] for worker in first + second)
    assert {worker["parent"] for worker in first} == {worker["parent"] for worker in second}
    assert os.getpid() not in {worker["parent"] for worker in first}


def test_workers_draw_random_numbers_of_their_own() -> None:
    drawn = [tuple(worker["random"]) for worker in run() + run()]
    assert all(len(set(numbers)) == 4 for numbers in zip(*drawn, strict=True))


def test_a_worker_works_where_the_notebook_does_and_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = server_pid()
    monkeypatch.chdir(tmp_path)
    [moved] = run(workers=1)
    assert moved["folder"] == str(tmp_path)
    path = moved["path"]
    assert path.index(STANDARD) < path.index(str(tmp_path)) < path.index(INSTALLED)
    assert moved["parent"] == before
    assert moved["session"]
    assert "attempt-0" in moved["temporary"]

    monkeypatch.setenv("COLOR", "blue")  # TensorFlow reads some variables when it is imported
    [blue] = run(workers=1)
    assert blue["color"] == "blue"
    assert blue["parent"] != before
    assert wait_until(lambda: not is_running(before), 5)


def test_workers_have_no_descriptors_of_each_other() -> None:
    alone, crowd = run(workers=1), run(workers=4)
    assert {worker["descriptors"] for worker in crowd} == {alone[0]["descriptors"]}


@pytest.mark.faults
def test_a_group_goes_on_when_the_server_is_killed() -> None:
    server = server_pid()
    with LocalCluster(workers=2) as cluster:
        saboteur = FaultAtStep(cluster, 100, lambda _cluster: os.kill(server, signal.SIGKILL))
        result = train_tiny(cluster, steps=300, on_event=saboteur)
    assert result.steps == 300
    assert len(result.restarts) == 1
    assert "SIGKILL" in result.restarts[0]
    assert server_pid() != server


def test_a_server_that_dies_unnoticed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_pid()
    os.kill(server, signal.SIGKILL)
    monkeypatch.setattr(ForkServer, "matches", lambda *_unused: True)
    assert wait_until(lambda: not is_running(server), 5)
    assert server_pid() != server


def test_a_run_is_stopped_at_once_while_the_server_still_imports() -> None:
    server = server_pid()
    os.kill(server, signal.SIGKILL)
    assert wait_until(lambda: not is_running(server), 5)
    kinds: set[str] = set()
    with LocalCluster(workers=2) as cluster:
        threading.Timer(0.3, cluster.stop).start()
        with pytest.raises(StoppedError):
            train_tiny(cluster, steps=10**6, on_event=lambda event: kinds.add(event["event"]))
    assert kinds == {"launched"}  # no worker started before the end
    assert not worker_pids()
    assert run() and not worker_pids()  # and the workers that were requested in vain are discarded


@pytest.mark.faults
def test_nothing_is_left_of_a_run_that_is_stopped_while_its_workers_are_forked() -> None:
    run()  # the server has imported TensorFlow, so it forks immediately
    for _time in range(20):
        stop_at_the_first_event()
        assert not worker_pids()


def stop_at_the_first_event() -> None:
    with LocalCluster(workers=2) as cluster, pytest.raises(StoppedError):
        cluster.run(about_myself, on_event=lambda _event: cluster.stop())


def test_what_was_ended_before_the_server_came_to_it_is_not_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked in vain"))
    process, serve = asked_for(tmp_path / "worker-0.log")
    process.signal(signal.SIGKILL)
    serve()
    assert process.wait(5) == -signal.SIGKILL


def test_nobody_waits_for_a_ticket_whose_other_end_is_in_a_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[int] = []  # like a fork by another thread, which keeps descriptors open
    monkeypatch.setattr(os, "close", kept.append)
    token = new_claim_token()
    monkeypatch.undo()
    assert not os.get_blocking(token)
    assert [claim(token), claim(token)] == [True, False]
    for descriptor in (token, *kept):
        os.close(descriptor)


@pytest.mark.faults
def test_where_forks_are_not_safe_workers_import_for_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "can_fork", lambda: False)
    assert {worker["parent"] for worker in run()} == {os.getpid()}
    with LocalCluster(workers=2) as cluster:
        result = train_tiny(
            cluster, steps=300, on_event=FaultAtStep(cluster, 100, kill("worker 1"))
        )
    assert (result.steps, len(result.restarts)) == (300, 1)
    assert not worker_pids()


def test_a_gpu_is_not_shared_with_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "nvidia_gpus", lambda: 1)
    assert not can_fork.__wrapped__()


def test_a_system_without_pidfd_starts_workers_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    assert not can_fork.__wrapped__()


def asked_for(log: Path) -> tuple[ForkedProcess, Callable[[], None]]:
    """A process requested from a server in this process, and a function that serves it."""
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    (stdin, lifeline), (news, status), token = os.pipe(), os.pipe(), new_claim_token()
    with requests, log.open("wb") as output:
        message = Request([], {}, str(log.parent)).encode()
        sent = [stdin, output.fileno(), output.fileno(), status, token]
        socket.send_fds(requests, [message], sent)
    os.close(stdin)
    os.close(status)

    def serve() -> None:
        with theirs:
            Server(theirs).serve()

    return ForkedProcess(lifeline, news, token), serve


def test_a_fork_that_fails_is_said_in_the_log_and_ends_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fail)
    process, serve = asked_for(tmp_path / "worker-0.log")
    serve()
    assert process.wait(5) == -signal.SIGKILL
    assert "No process could be forked: [Errno 11]" in (tmp_path / "worker-0.log").read_text()
    process.close()


def test_an_endless_run_ends_with_the_program_and_its_server() -> None:
    program = (
        "import helpers; print(helpers.LocalCluster(1).run(lambda c: __import__('os').getppid()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    [server] = eval(done.stdout)
    assert wait_until(lambda: not is_running(server), 2)


def test_nothing_is_sent_to_a_process_that_was_ended_before_it_began() -> None:
    (_stdin, lifeline), (news, status) = os.pipe(), os.pipe()
    process = ForkedProcess(lifeline, news, new_claim_token())
    process.signal(signal.SIGKILL)
    assert process.wait(1) == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        _ = process.pid
    process.signal(signal.SIGTERM)
    process.close()
    for descriptor in (_stdin, status):
        os.close(descriptor)


def test_waiting_for_a_process_has_an_end() -> None:
    (_stdin, lifeline), (news, status) = os.pipe(), os.pipe()
    process = ForkedProcess(lifeline, news, new_claim_token())
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    os.write(status, b"4711\n0")
    assert (process.pid, process.poll()) == (4711, None)
    os.write(status, b"\n")
    assert process.wait(1) == 0
    process.close()
    for descriptor in (_stdin, status):
        os.close(descriptor)


def test_a_server_whose_message_was_never_read_ends_in_order() -> None:
    """An error here would end the server before its workers, and them with it."""
    client, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with requests:
        requests.send(READY_BYTE)
        client.close()
        Server(requests).serve()


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_folders_of_a_program_that_was_killed_are_deleted(
    is_killed: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "worker-0.log").touch()
    client, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    token = new_claim_token()
    assert claim(token)  # so that no worker is forked
    with requests:
        requests.send(READY_BYTE)  # which is never read
        request = Request([], {}, str(tmp_path), str(folder))
        socket.send_fds(client, [request.encode()], [token] * 5)
        if not is_killed:
            client.send(FAREWELL)
        client.close()
        Server(requests).serve()
    os.close(token)
    assert folder.exists() != is_killed
