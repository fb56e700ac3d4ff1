"""Project 6 with real processes: right designs, wrong ones, and what is left behind."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from helpers.course.check import check, find_task
from helpers.course.projects import supervisor_runs
from helpers.course.projects.fault_injector import Plan
from helpers.course.projects.group import WORKER, ProcessGroup
from helpers.course.projects.report import report
from helpers.course.projects.supervised_worker import HOST
from tests.projects.supervisor_designs import NAME, reference, right, wrong
from tests.support.processes import children_of, command_of

POINTS = find_task(NAME).points
# A case that takes three seconds, for `make test`: runs without a fault are trivially right.
SHORT: dict[str, Any] = {
    "workers": 2,
    "steps": 4,
    "save_every": 2,
    "start_timeout": 20.0,
    "heartbeat_timeout": 0.4,
    "progress_timeout": 0.5,
    "killed": [(1, "killed", "compute", 2)],
    "start": [],
    "frozen": [(0, "frozen", "message", 2)],
    "silent": [],
    "saving": [(1, "killed", "save", 4, "digit")],
    "slow": [],
    "gives_up": (1, "crashed", "compute", 2),
    "max_restarts": 0,
}


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The notebook's folder is empty, and all processes end, also those of a wrong supervisor."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # for the folders of the workers
    yield
    own = [child for child in children_of(psutil.Process()) if WORKER in command_of(child)]
    assert not own
    commands = [command_of(process) for process in psutil.process_iter()]
    assert not [one for one in commands if any(str(tmp_path) in word for word in one)]


def module(code: str) -> Path:
    path = Path(f"{NAME}.py")
    path.write_text(code, "utf-8")
    return path


def test_the_reference_earns_all_points_in_a_short_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module(reference())
    assert check(NAME, **SHORT) == POINTS, capsys.readouterr().out
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{NAME}: 20 of 20 points"
    assert [line[:3] for line in printed[1:]] == ["  ✓"] * 9


ABANDONED = """
import subprocess


def supervise(command, **other):
    rest = ["--rank", "1", "--port", "1", "--resume", "0"]
    subprocess.Popen([*command, *rest], stdout=subprocess.DEVNULL, start_new_session=True)
    return {"results": [], "faults": []}
"""


def test_a_worker_that_is_left_is_found_and_ends_even_in_another_session() -> None:
    """The fixture checks that it has ended."""
    case = {**find_task(NAME).case, **SHORT}
    seen = supervisor_runs.observe(module(ABANDONED), case, Plan(), max_restarts=1)
    assert seen["left"] == [{"rank": 1, "problem": "running"}]


def test_an_empty_module_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    module("def supervise(**arguments):\n    raise NotImplementedError()\n")
    assert check(NAME) == 0
    assert "found: no answer yet" in capsys.readouterr().out


def test_a_port_counts_as_left_while_something_listens_there() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert supervisor_runs._listens(port)
    assert not supervisor_runs._listens(port)


def test_a_late_reply_can_be_waited_for() -> None:
    code = "import time\ndef supervise(**arguments):\n    time.sleep(0.3)\n    return 1\n"
    with ProcessGroup(module(code), NAME, 1, relayed=False) as group:
        group.open(60)
        group.put([[np.frombuffer(b"{}", "uint8")]])
        group.start("supervise")
        assert not group.wait_for_any([0], 0.01)
        assert group.wait_for_any([0], 60)[0].kind == "returned"
        assert group.fetch()[0].tobytes() == b"1"


@pytest.mark.grading
@pytest.mark.parametrize("name", right())
def test_a_right_design_earns_all_points(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module(right()[name])
    assert check(NAME) == POINTS, capsys.readouterr().out


@pytest.mark.grading
@pytest.mark.parametrize("name", wrong())
def test_a_wrong_design_loses_points_and_gets_a_useful_message(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = wrong()[name]
    module(case.code)
    earned, printed = check(NAME), capsys.readouterr().out
    assert earned == case.points < POINTS, printed
    for text in case.says:
        assert text in printed
    failed = printed.count("✗")
    for word in ("expected: ", "found: ", "hint: "):
        assert printed.count(word) == failed > 0


@pytest.mark.grading
def test_the_chart_shows_all_times_next_to_the_timeouts() -> None:
    module(reference())
    drawing = report(NAME)
    assert drawing.svg().count("<circle") == 1 + 9
    assert "with N = 8 (formula 1.5)" in drawing.label
