"""The log of the package, which is quiet unless a program enables it."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from typing import Any

import pytest

from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.group_size import GroupSize
from helpers.cluster.supervisor import Supervisor
from helpers.cluster.timeouts import Timeouts
from helpers.errors import ClusterError
from helpers.protocol.events import EventType
from helpers.tf_config import build_tf_configs
from tests.support.fake_worker import FakeWorkerProcess

TIMEOUTS = Timeouts(start=60, heartbeat=60, progress=60)


class FakeLauncher:
    """Starts fake workers."""

    def __init__(self, *, ps: int = 0) -> None:
        addresses = [f"127.0.0.1:{port}" for port in range(2000, 2002 + 2 * ps)]
        self.configs = build_tf_configs(addresses, chief=ps > 0, ps=ps)

    def launch(self, attempt: int, workers: int) -> list[FakeWorkerProcess]:
        return [FakeWorkerProcess(config) for config in self.configs]

    def respawn(self, failed: FakeWorkerProcess) -> FakeWorkerProcess:
        return FakeWorkerProcess(failed.config)


def run_and_kill(launcher: Any, times: int, max_restarts: int = 1) -> None:
    """Supervises fake workers, and kills worker 1 after a step, that many times."""
    supervisor = Supervisor(
        launcher,
        lambda _config: False,
        TIMEOUTS,
        max_restarts,
        FaultInjector([]),
        size=GroupSize(2),
    )
    for event in supervisor.run():
        if event["event"] == EventType.STEP and event["task"] == "worker 1":
            if not times:
                break
            times -= 1
            [victim] = [one for one in supervisor.processes if str(one.task) == "worker 1"]
            victim.signal(signal.SIGKILL)
            victim.wait()
    supervisor.close()


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [
        f"{record.name}: {record.getMessage()}"
        for record in caplog.records
        if record.levelno == level
    ]


def test_starts_are_logged_at_info_and_a_restart_at_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "helpers")
    run_and_kill(FakeLauncher(), times=1)
    started = lines(caplog, logging.INFO)
    for attempt in (0, 1):
        assert f"helpers.cluster.supervisor: Attempt {attempt}: started 2 processes" in started
    assert sum("worker 1 started as process " in line for line in started) == 2
    assert "helpers.cluster.group: worker 1 is ready at step 0" in started
    [restart] = lines(caplog, logging.WARNING)
    assert restart.startswith(
        "helpers.cluster.group_size: Restart 1 of 1: worker 1 ended with signal 9 (SIGKILL)"
    )


def test_a_respawn_is_logged_at_warning_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "helpers")
    run_and_kill(FakeLauncher(ps=1), times=1)
    [respawn] = lines(caplog, logging.WARNING)
    assert respawn.startswith("helpers.cluster.group: Respawned worker 1: worker 1 ended with sig")


def test_a_failure_without_a_restart_is_raised_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "helpers")
    with pytest.raises(ClusterError, match="signal 9"):
        run_and_kill(FakeLauncher(), times=1, max_restarts=0)
    assert lines(caplog, logging.WARNING) == []


def test_an_injected_fault_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "helpers")
    injector = FaultInjector(["worker 0"])
    injector.attach(["worker 0"], GroupSize(1))
    injector.inject("delay_start", "worker 0", {"seconds": 2})
    injector.clear("delay_start", "worker 0")
    assert [line.partition(": ")[2] for line in lines(caplog, logging.INFO)] == [
        "fault_injected: worker 0, delay_start {'seconds': 2}",
        "fault_cleared: worker 0, delay_start ",
    ]


WARN = "logging.getLogger('helpers.cluster.supervisor').warning('Restart 1 of 3')"
TURN_ON = "logging.basicConfig(); logging.getLogger('helpers').setLevel('INFO')"


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (f"import helpers, logging; {WARN}", ""),
        (f"import helpers, logging; logging.basicConfig(); {WARN}", ""),  # as absl does
        (
            f"import helpers, logging; {TURN_ON}; {WARN}",
            "WARNING:helpers.cluster.supervisor:Restart 1 of 3\n",
        ),
    ],
)
def test_a_program_sees_the_log_only_if_it_asks_for_it(program: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout + done.stderr == printed
