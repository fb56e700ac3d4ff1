"""Project 6 with real processes: what a wrong supervisor leaves behind."""

from __future__ import annotations

import socket

import pytest

from helpers.course.check import find_task
from helpers.course.projects import supervisor_runs
from helpers.course.projects.fault_injector import Plan
from helpers.course.projects.group import LATE
from helpers.course.projects.supervised_worker import HOST
from tests.projects.designs import write
from tests.projects.supervisor_designs import DESIGNS, NAME

ABANDONED = """
import subprocess


def supervise(command, **other):
    rest = ["--rank", "1", "--port", "1", "--resume", "0"]
    subprocess.Popen([*command, *rest], stdout=subprocess.DEVNULL, start_new_session=True)
    return {"results": [], "faults": []}
"""


@pytest.mark.usefixtures("project_folder")
def test_a_worker_that_is_left_is_found_and_ends_even_in_another_session() -> None:
    """The fixture checks that it has ended."""
    case = {**find_task(NAME).case, **DESIGNS.short}
    seen = supervisor_runs.observe(write(NAME, ABANDONED), case, Plan(), max_restarts=1)
    assert seen["left"] == [{"rank": 1, "problem": "running"}]


@pytest.mark.usefixtures("project_folder")
def test_a_run_in_which_no_worker_starts_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer than that for the first worker."""
    monkeypatch.setattr(supervisor_runs, "QUIET", 0.3)
    module = write(NAME, "import time\n\ndef supervise(**arguments):\n    time.sleep(600)\n")
    case = {**find_task(NAME).case, **dict.fromkeys(supervisor_runs.TIMEOUTS, 0.1)}
    seen = supervisor_runs.observe(module, case, Plan(), max_restarts=1)
    assert [reply["kind"] for reply in seen["replies"]] == [LATE]
    assert seen["busy"]


def test_a_port_counts_as_left_while_something_listens_there() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert supervisor_runs._listens(port)
    assert not supervisor_runs._listens(port)
