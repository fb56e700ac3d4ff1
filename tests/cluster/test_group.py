"""A group of processes that send the events of workers, monitored like workers."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from typing import Any

import pytest

from helpers.cluster.group import WorkerGroup
from helpers.cluster.respawn import TaskFailure
from helpers.cluster.timeouts import SuspendSafeClock, Timeouts
from helpers.protocol.events import EventType
from helpers.tf_config import build_tf_configs
from tests.support.fake_worker import FakeWorkerProcess

TIMEOUTS = Timeouts(start=120.0, heartbeat=30.0, progress=30.0)


class Counted:
    """Timeouts that count how often they are read."""

    start = TIMEOUTS.start
    progress = TIMEOUTS.progress

    def __init__(self) -> None:
        self.looks = 0

    @property
    def heartbeat(self) -> float:
        self.looks += 1
        return TIMEOUTS.heartbeat


def test_deadlines_are_looked_at_some_times_a_second_not_at_every_event() -> None:
    workers = 40
    talkers = [
        FakeWorkerProcess(config)
        for config in build_tf_configs([f"host-{k}:2222" for k in range(workers)])
    ]
    timeouts: Any = Counted()
    clock = SuspendSafeClock()
    group = WorkerGroup(talkers, (), timeouts, clock=clock)
    silent, wake = os.pipe()
    began = clock.now
    with closing(group):
        events = group.monitor(silent)
        for count, event in enumerate(events):  # noqa: B007
            if event["event"] == EventType.STEP and event["step"] > 10:
                break
        seconds = clock.now - began
    os.close(silent)
    os.close(wake)
    rounds = timeouts.looks / workers
    assert rounds <= 10 * seconds + 1
    assert count > 4 * rounds


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN + 1, "SIGRTMIN+1")]
)
def test_a_death_is_a_fault_that_names_the_worker_and_the_signal(number: int, name: str) -> None:
    talkers = [
        FakeWorkerProcess(config)
        for config in build_tf_configs([f"host-{k}:2222" for k in range(3)])
    ]
    group = WorkerGroup(talkers, (), TIMEOUTS)
    silent, wake = os.pipe()
    told = re.escape(f"worker 1 ended with signal {number:d} ({name}) at step ")
    with closing(group), pytest.raises(TaskFailure, match=told):
        for event in group.monitor(silent):
            if event["event"] == EventType.STEP:
                talkers[1].signal(number)
    os.close(silent)
    os.close(wake)
