"""A group of processes that say what workers say, watched as workers are."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from typing import Any

import pytest

from benchmarks.scale import DEADLINES, Talker
from helpers.cluster.group import Fault, Group, Replacements
from helpers.messages.events import Kind
from helpers.tf_config import build


class Counted:
    """Deadlines that count how often they are looked at."""

    start = DEADLINES.start
    progress = DEADLINES.progress

    def __init__(self) -> None:
        self.looks = 0

    @property
    def silence(self) -> float:
        self.looks += 1
        return DEADLINES.silence


def test_deadlines_are_looked_at_some_times_a_second_not_at_every_event() -> None:
    workers = 40
    talkers = [Talker(config) for config in build([f"host-{k}:2222" for k in range(workers)])]
    deadlines: Any = Counted()
    group = Group(talkers, lambda config: False, deadlines, Replacements(_nobody, 0))
    silent, wake = os.pipe()
    began = group._clock.now
    with closing(group):
        events = group.watch(silent)
        for count, event in enumerate(events):  # noqa: B007
            if event["event"] == Kind.STEP and event["step"] > 10:
                break
        seconds = group._clock.now - began
    os.close(silent)
    os.close(wake)
    rounds = deadlines.looks / workers
    assert rounds <= 10 * seconds + 1
    assert count > 4 * rounds


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN + 1, "SIGRTMIN+1")]
)
def test_a_death_is_a_fault_that_names_the_worker_and_the_signal(number: int, name: str) -> None:
    talkers = [Talker(config) for config in build([f"host-{k}:2222" for k in range(3)])]
    group = Group(talkers, lambda config: False, DEADLINES, Replacements(_nobody, 0))
    silent, wake = os.pipe()
    told = re.escape(f"worker 1 ended with signal {number:d} ({name}) at step ")
    with closing(group), pytest.raises(Fault, match=told):
        for event in group.watch(silent):
            if event["event"] == Kind.STEP:
                talkers[1].signal(number)
    os.close(silent)
    os.close(wake)


def _nobody(lost: Any) -> Any:
    raise AssertionError(lost)
