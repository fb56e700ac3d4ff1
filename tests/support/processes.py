"""Process information for the tests: running processes, and children of this one."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

FORK_SERVER, WORKER = "helpers.cluster.fork_server", "helpers.worker"


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Polls `condition` until it holds or the deadline passes. Returns whether it held."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def command_of(process: psutil.Process) -> list[str]:
    """The command line of a process, empty if it has ended."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def children_of(process: psutil.Process) -> list[psutil.Process]:
    """The children of a process that still exist."""
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def worker_pids() -> set[int]:
    """The workers of this process: children that run the program, and forks of its server."""
    started = children_of(psutil.Process())
    servers = [process for process in started if FORK_SERVER in command_of(process)]
    forked = [child for server in servers for child in children_of(server)]
    workers = [process for process in started if WORKER in command_of(process)]
    return {process.pid for process in workers + [one for one in forked if command_of(one)]}
