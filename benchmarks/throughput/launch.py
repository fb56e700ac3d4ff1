"""Starts the processes of one contender, waits for them, and ends the remaining ones."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import ROOT
from benchmarks.contenders.report import Arguments, Report
from benchmarks.throughput.lineup import Contender
from helpers.params import DEFAULT_PARAMS
from helpers.system.ports import free_ports, without_proxies
from helpers.system.tensorflow_import import enable_onednn
from helpers.tf_config import build_tf_configs

TIMEOUT_SECONDS = 300.0
POLL_INTERVAL = 0.05
LOG_LINES = 15

Process = subprocess.Popen[bytes]


class BenchmarkError(Exception):
    """A contender failed. The message ends with its last lines."""


def arguments(
    folder: Path,
    workers: int,
    batch_size: int,
    epochs: int,
    *,
    limit: int | None = None,
    mnist: Path | None = None,
    ready: bool = False,
    stacks: bool = True,
) -> Arguments:
    """Returns the `Arguments` of a contender's processes, with the lessons' optimizer."""
    return Arguments(
        folder=folder,
        rank=0,
        workers=workers,
        batch_size=batch_size,
        epochs=epochs,
        limit=limit,
        learning_rate=DEFAULT_PARAMS["learning_rate"],
        momentum=DEFAULT_PARAMS["momentum"],
        mnist=mnist,
        ready=ready,
        stacks=stacks,
    )


def run(python: str, contender: Contender, args: Arguments) -> list[Report]:
    """Runs a contender in all its processes and returns their reports.

    Args:
      python: the interpreter.
      contender: the program to run.
      args: the arguments of all processes, except the rank, which is set here.

    Raises:
      BenchmarkError: one failed, or they took longer than `TIMEOUT_SECONDS`.
    """
    started: list[Process] = []
    with _killed_at_the_end(started):
        for rank, environment in enumerate(_environments(contender.processes)):
            argv = replace(args, rank=rank).to_argv()
            command = [python, "-m", f"benchmarks.contenders.{contender.module}", *argv]
            started.append(_start(command, environment, _log(args.folder, rank)))
        _wait(contender, started, args.folder)
    return [Report.load(args.folder, rank) for rank in range(contender.processes)]


def run_helper(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a program of the benchmarks that is not measured."""
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )


def _start(command: Sequence[str], environment: dict[str, str], log: Path) -> Process:
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its child processes can be killed with it
        )


@contextmanager
def _killed_at_the_end(processes: Sequence[Process]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        for process in processes:
            process.wait()


def _wait(contender: Contender, processes: Sequence[Process], folder: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        codes = [process.poll() for process in processes]
        for rank, code in enumerate(codes):
            if code:  # otherwise its peers would wait for it
                raise _failure(contender, f"process {rank} ended with code {code}", folder, rank)
        if None not in codes:
            return
        if time.monotonic() > deadline:
            late = codes.index(None)
            what = f"process {late} did not end within {TIMEOUT_SECONDS:g} s"
            raise _failure(contender, what, folder, late)
        time.sleep(POLL_INTERVAL)


def _failure(contender: Contender, what: str, folder: Path, rank: int) -> BenchmarkError:
    lines = _log(folder, rank).read_text("utf-8", "replace").splitlines()
    return BenchmarkError("\n".join([f"{contender}: {what}. Its last lines:", *lines[-LOG_LINES:]]))


def _log(folder: Path, rank: int) -> Path:
    return folder / f"log-{rank}.txt"


def _environments(processes: int) -> list[dict[str, str]]:
    """One environment for each process, with the addresses of its peers."""
    base = without_proxies(os.environ)
    base.pop("TF_CONFIG", None)
    base.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    enable_onednn(base)  # for all contenders, because the CPU is not compared
    if processes == 1:
        return [base]
    ports = free_ports(processes)
    base |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0]), "GLOO_SOCKET_IFNAME": "lo"}
    configs = build_tf_configs([f"127.0.0.1:{port}" for port in ports])
    return [base | {"TF_CONFIG": config.to_json()} for config in configs]
