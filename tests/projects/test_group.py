"""Processes of a project: their failures are distinguished, and all of them end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, ProcessGroup
from helpers.course.projects.printed import MAX_CHARACTERS, keep_output
from tests.projects.designs import write
from tests.support.processes import is_running, wait_until

pytestmark = pytest.mark.usefixtures("project_folder")
NAME = "ring_all_reduce"
SECONDS = 60.0

STUBBORN = """
import os, subprocess, time

class Stubborn:
    def all_reduce(self, array):
        if array[0] == 1:
            time.sleep(600)
        if array[0] == 2:
            print("farewell", flush=True)
            os._exit(4)
        if array[0] == 3:
            raise ValueError("three")
        return array

def connect(rank, listener, addresses, timeout):
    if rank == 0:
        child = subprocess.Popen(["sleep", "601"], start_new_session=True)
        open("child", "w").write(str(child.pid))
    return Stubborn()
"""


def test_a_process_that_hangs_one_that_ends_and_one_that_fails_are_distinguished() -> None:
    with ProcessGroup(write(NAME, STUBBORN), NAME, 4) as group:
        assert [reply.kind for reply in group.open(SECONDS)] == [RETURNED] * 4
        child = int(Path("child").read_text())
        group.put([[np.full(2, float(rank))] for rank in range(4)])
        replies = group.call("all_reduce", SECONDS)
        assert [reply.kind for reply in replies] == [RETURNED, LATE, DEAD, RAISED]
        assert replies[2].text == "farewell"
        assert replies[3].text == "ValueError: three"
        assert (replies[3].file, replies[3].line) == ("ring_all_reduce.py", 12)
        pids = [member.pid for member in group.members]
    assert wait_until(lambda: not any(map(is_running, [*pids, child])), SECONDS)


PRINTS = """
import sys

class Prints:
    def all_reduce(self, array):
        print("number", array[0])
        print("to standard error", file=sys.stderr)
        print("x" * 9000)
        return array

def connect(rank, listener, addresses, timeout):
    return Prints()
"""


def test_what_processes_print_is_in_a_file_even_if_they_are_killed() -> None:
    module, path = write(NAME, PRINTS), Path(f"{NAME}-output.txt")
    path.write_text("of an earlier check")

    @keep_output
    def run(module: Path, case: Any) -> dict[str, Any]:
        for workers in (1, 2):
            with ProcessGroup(module, NAME, workers) as group:
                group.open(SECONDS)
                if workers == 2:
                    group.put([[np.full(1, 5)], [np.full(1, case)]])
                    group.call("all_reduce", SECONDS)
        return {}

    run(module, 7)
    text = path.read_text("utf-8")
    assert text.startswith("Group 2: 2 processes\nprocess 0 printed:\nxxx")  # nothing in group 1
    assert text.count("x" * MAX_CHARACTERS) == 2
    assert "x" * (MAX_CHARACTERS + 1) not in text
    module.write_text(PRINTS.replace('print("x" * 9000)', "pass"))
    run(module, 7)
    assert "process 1 printed:\nnumber 7\nto standard error\n" in path.read_text("utf-8")
    module.write_text(WAITS)
    run(module, 0)
    assert not path.exists()


def test_an_interrupt_leaves_no_process() -> None:
    with pytest.raises(KeyboardInterrupt), ProcessGroup(write(NAME, STUBBORN), NAME, 2) as group:
        pids = [member.pid for member in group.members]
        raise KeyboardInterrupt
    assert wait_until(lambda: not any(map(is_running, pids)), SECONDS)


WAITS = """
import time

class Waits:
    def all_reduce(self, seconds):
        time.sleep(seconds[0])
        return seconds

def connect(rank, listener, addresses, timeout):
    return Waits()
"""


def test_calls_in_some_processes_end_one_by_one() -> None:
    with ProcessGroup(write(NAME, WAITS), NAME, 3) as group:
        group.open(SECONDS)
        group.put([[np.array([0.5])], [np.array([0.0])]], ranks=[2, 1])
        group.start("all_reduce", [2, 1])
        first = group.wait_for_any([2, 1], SECONDS)
        assert {rank: reply.kind for rank, reply in first.items()} == {1: RETURNED}
        assert not group.wait_for_any([2], 0.01)
        assert group.wait_for_any([2], SECONDS)[2].kind == RETURNED
        assert [result.tolist() for result in group.fetch(ranks=[2, 1])] == [[0.5], [0.0]]
