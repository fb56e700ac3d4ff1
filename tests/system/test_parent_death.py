"""A process ends with the owner of its standard input, with and without the kernel's help."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from helpers.system import parent_death
from tests.support.processes import is_running, wait_until

PROGRAM = """
import ctypes, subprocess, sys, time
from helpers.system import capabilities, parent_death
if sys.argv[1] == "guard":
    capabilities.has_fcntl_setsig = lambda: False
parent_death.die_with_parent()
if sys.argv[2] == "leaves a child":
    subprocess.Popen(["sleep", "600"])
print("here", flush=True)
if sys.argv[2] == "busy":
    ctypes.PyDLL(None).sleep(600)  # with Python's lock, as TensorFlow while it waits for peers
time.sleep(600)
"""
WAYS = ["kernel", "guard"]


@pytest.fixture
def start() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        assert process.stdin and process.stdout
        process.stdin.close()
        process.stdout.close()


def begin(started: list[subprocess.Popen[str]], way: str, does: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, way, does],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started.append(process)
    assert process.stdout and process.stdout.readline() == "here\n"
    return process


@pytest.mark.parametrize("does", ["sleeps", "busy", "stopped"])
@pytest.mark.parametrize("way", WAYS)
def test_it_is_killed_when_the_pipe_closes(
    way: str, does: str, start: list[subprocess.Popen[str]]
) -> None:
    process = begin(start, way, does)
    guards = psutil.Process(process.pid).children()
    assert len(guards) == (way == "guard")
    if does == "stopped":
        os.killpg(process.pid, signal.SIGSTOP)  # like the fault-injection lab
    assert process.poll() is None
    assert process.stdin
    process.stdin.close()
    assert process.wait(5) == -signal.SIGKILL
    assert wait_until(lambda: not any(is_running(guard.pid) for guard in guards), 2)


@pytest.mark.parametrize("way", WAYS)
def test_the_pipe_closes_and_what_it_started_ends_too(
    way: str, start: list[subprocess.Popen[str]]
) -> None:
    process = begin(start, way, "leaves a child")
    children = psutil.Process(process.pid).children()
    assert [child.name() for child in children].count("sleep") == 1
    assert process.stdin
    process.stdin.close()
    assert process.wait(5) == -signal.SIGKILL
    assert wait_until(lambda: not any(is_running(child.pid) for child in children), 2)


IN_A_GROUP = """
import subprocess, sys
command = [sys.executable, "-c", *sys.argv[1:]]
process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
process.stdout.readline()
process.stdin.close()
print(process.wait(5))
"""


@pytest.mark.parametrize("way", WAYS)
def test_the_group_of_another_is_not_killed(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_GROUP, PROGRAM, way, "sleeps"],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{-signal.SIGKILL}\n")


def test_a_guard_kills_nobody_for_one_that_has_ended(start: list[subprocess.Popen[str]]) -> None:
    """Its PID may be reused by then. Here it is still the PID of a group with a child in it."""
    process = begin(start, "guard", "leaves a child")
    children = psutil.Process(process.pid).children()
    [heir] = [child for child in children if child.name() == "sleep"]
    guards = [child for child in children if child != heir]
    process.kill()
    process.wait()
    assert process.stdin
    parent_death.stop_guard(process.stdin.fileno())
    process.stdin.close()
    assert wait_until(lambda: not any(is_running(guard.pid) for guard in guards), 2)
    assert is_running(heir.pid)
    heir.kill()
