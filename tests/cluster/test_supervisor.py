"""Decisions of the supervisor without processes: restarts, replacements, timeouts, order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from helpers.cluster import group as group_module
from helpers.cluster.group import WorkerGroup
from helpers.cluster.respawn import RespawnPolicy, TaskFailure
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.cluster.timeouts import SuspendSafeClock
from helpers.errors import ClusterError, StoppedError, UserCodeError
from helpers.protocol.events import Event, EventType, FaultType, supervisor_event
from helpers.protocol.stack_dump import ThreadStack
from helpers.results.fault_log import FaultLog
from helpers.tf_config import build_tf_configs
from tests.support.fake_worker import FakeTime, ScriptedProcess, step
from tests.support.scripted_group import (
    ADDRESSES,
    TIMEOUTS,
    Launcher,
    clock,
    events_of,
    finish,
    is_last_launch,
    kinds,
    supervised,
)

__all__ = ["clock"]  # a fixture


@pytest.mark.usefixtures("clock")
def test_supervisor_yields_each_workers_events_in_their_order() -> None:
    launcher = Launcher()
    events = events_of(
        launcher, lambda e: finish(launcher) if is_last_launch(e, launcher) else None
    )
    for task in ("worker 0", "worker 1"):
        own = [kind for kind, name in kinds(events) if name == task]
        assert own == ["launched", "ready", "step", "exit"]
    assert {event["attempt"] for event in events} == {0}


@pytest.mark.usefixtures("clock")
def test_supervisor_restarts_all_when_one_is_killed() -> None:
    launcher = Launcher()

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            if event["attempt"] == 0:
                step(launcher.processes[1], 7)
                launcher.processes[1].end(-signal.SIGKILL)
            else:
                finish(launcher)

    events = events_of(launcher, react)
    [restart] = [event for event in events if event["event"] == EventType.GROUP_RESTART]
    assert (restart["task"], restart["attempt"]) == ("worker 1", 1)
    assert restart["reason"] == "worker 1 ended with signal 9 (SIGKILL) at step 7"
    assert launcher.attempts[0][0].signals == [signal.SIGKILL]
    assert len(launcher.attempts) == 2


@pytest.mark.usefixtures("clock")
def test_two_faults_at_once_cost_one_restart_and_one_meanwhile_another() -> None:
    launcher = Launcher()

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            if event["attempt"] < 2:
                for process in launcher.processes[event["attempt"] :]:
                    process.end(1)
            else:
                finish(launcher)

    events = events_of(launcher, react)
    restarts = [event["attempt"] for event in events if event["event"] == EventType.GROUP_RESTART]
    assert restarts == [1, 2]


@pytest.mark.usefixtures("clock")
def test_supervisor_gives_up_after_max_restarts_with_the_last_lines_of_the_log() -> None:
    launcher = Launcher()

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            launcher.processes[0].end(3)

    with pytest.raises(ClusterError, match=r"restarted 2 times(.|\n)*the log of worker 0"):
        events_of(launcher, react, max_restarts=2)
    assert len(launcher.attempts) == 3
    assert all(signal.SIGKILL in attempt[1].signals for attempt in launcher.attempts)


@pytest.mark.parametrize(("retryable", "attempts"), [(False, 1), (True, 2)])
@pytest.mark.usefixtures("clock")
def test_supervisor_restarts_after_an_error_only_if_it_may_pass(
    retryable: bool, attempts: int
) -> None:
    launcher = Launcher()
    error: Any = {"type": "ValueError", "message": "no good", "frames": [], "error_class": None}

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            if event["attempt"] == 0:
                launcher.processes[1].send(EventType.ERROR, retryable=retryable, **error)
                launcher.processes[1].end(1)
            else:
                finish(launcher)

    if retryable:
        events = events_of(launcher, react)
        [reason] = [event["reason"] for event in events if event["event"] == "group_restart"]
        assert "worker 1 raised ValueError" in reason and "no good" in reason
    else:
        with pytest.raises(UserCodeError, match="no good"):
            events_of(launcher, react)
    assert len(launcher.attempts) == attempts


@pytest.mark.usefixtures("clock")
def test_a_worker_beside_parameter_servers_gets_a_successor_until_none_is_left() -> None:
    launcher = Launcher(workers=1, ps=1)
    [_chief, _worker, _ps] = launcher.configs
    lost = []

    def react(event: Event) -> None:
        if is_last_launch(event, launcher) or event["event"] == EventType.RESPAWNED:
            if event["attempt"] == 0:
                lost.append(launcher.processes[1])
                launcher.processes[1].end(-signal.SIGKILL)
            else:
                finish(launcher)

    events = events_of(launcher, react, max_restarts=1)
    found = [kind for kind, _task in kinds(events) if kind in ("respawned", "group_restart")]
    assert found == ["respawned", "group_restart"]
    assert len(lost) == 2
    assert len(launcher.attempts) == 2


@pytest.mark.usefixtures("clock")
def test_supervisor_stops_before_it_reads_on() -> None:
    launcher = Launcher()
    supervisor = supervised(launcher)
    with pytest.raises(StoppedError):
        for event in supervisor.run():
            if event["event"] == EventType.LAUNCHED:
                supervisor.stop()
    assert all(process.signals == [signal.SIGKILL] for process in launcher.processes)
    supervisor.close()


def heartbeats(launcher: Launcher, *silent: int) -> None:
    """Sends a heartbeat from all workers except some."""
    for k, process in enumerate(launcher.processes):
        if k not in silent and process.is_running:
            process.send(EventType.HEARTBEAT)


def failure_of(
    launcher: Launcher, clock: FakeTime, react: Callable[[Event], None]
) -> tuple[str, float]:
    """The message of the failure that ends the first attempt, and its time."""
    supervisor = supervised(launcher, max_restarts=0)
    try:
        with pytest.raises(ClusterError) as caught:
            for event in supervisor.run():
                react(event)
    finally:
        supervisor.close()
    return str(caught.value), clock.now


def ready(launcher: Launcher) -> None:
    for process in launcher.processes:
        process.send(EventType.READY, step=0)


def test_a_silent_worker_is_lost_after_the_heartbeat_timeout(clock: FakeTime) -> None:
    launcher = Launcher()

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            ready(launcher)
        elif event["task"] == "worker 0" and event["event"] != EventType.LAUNCHED:
            step(launcher.processes[0], 5)  # it continues

    message, seconds = failure_of(launcher, clock, react)
    assert message.startswith("worker 1 has not responded for 30 s, at step 5")
    assert TIMEOUTS.heartbeat < seconds < TIMEOUTS.heartbeat + 10


def test_a_worker_slowed_down_on_purpose_has_a_longer_heartbeat_timeout(clock: FakeTime) -> None:
    launcher = Launcher()

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            ready(launcher)
            launcher.injected = [
                supervisor_event(
                    EventType.FAULT_INJECTED,
                    "worker 1",
                    fault=FaultType.THROTTLE,
                    options={"factor": 3.0},
                )
            ]
        elif event["task"] == "worker 0" and event["event"] != EventType.LAUNCHED:
            step(launcher.processes[0], 5)

    message, seconds = failure_of(launcher, clock, react)
    assert message.startswith("worker 1 has not responded for 90 s")
    assert seconds > 90


def test_of_those_that_are_not_ready_in_time_the_one_that_waits_for_none_is_named(
    clock: FakeTime,
) -> None:
    launcher = Launcher(workers=3)

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            for process in launcher.processes[::2]:
                process.send(EventType.CONNECTING)

    message, seconds = failure_of(launcher, clock, react)
    assert message.startswith("worker 1 was not ready within 60 s; worker 0, worker 2 may only")
    assert seconds > TIMEOUTS.start


def test_a_group_that_lives_and_makes_no_step_is_noticed(clock: FakeTime) -> None:
    launcher = Launcher()

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            ready(launcher)
        elif event["task"] == "worker 0" and event["event"] != EventType.LAUNCHED:
            heartbeats(launcher)

    message, seconds = failure_of(launcher, clock, react)
    assert "made no progress for 20 s since step 0, although all processes are alive" in message
    assert seconds > TIMEOUTS.progress


def test_a_machine_that_slept_longer_than_all_deadlines_restarts_nothing(clock: FakeTime) -> None:
    launcher = Launcher()
    clock.step = 0.0

    def react(event: Event) -> None:
        clock.now += 24 * 3600
        if is_last_launch(event, launcher):
            ready(launcher)
        elif event["event"] == EventType.READY and event["task"] == "worker 1":
            step(launcher.processes[1], 1)
        elif event["event"] == EventType.STEP:
            for process in launcher.processes:
                process.end()

    events = events_of(launcher, react)
    assert "group_restart" not in [kind for kind, _task in kinds(events)]


def test_a_successor_has_the_whole_timeout_before_it_counts_as_stuck(clock: FakeTime) -> None:
    [_chief, config, _ps] = build_tf_configs(ADDRESSES[:3], chief=True, ps=1)
    respawn = RespawnPolicy(lambda lost: ScriptedProcess(lost.config), 2)
    first = ScriptedProcess(config)
    first.send(EventType.READY, step=0)
    group = WorkerGroup([first], (), TIMEOUTS, respawn, clock=SuspendSafeClock(clock))
    times = [clock.now for event in watched(group) if event["event"] == EventType.RESPAWNED]
    assert len(times) == 2
    assert times[1] - times[0] >= TIMEOUTS.progress


def watched(group: WorkerGroup) -> Iterator[Event]:
    """Yields the events until the group fails."""
    import os

    silent, wake = os.pipe()
    try:
        with closing(group):
            yield from group.monitor(silent)
    except TaskFailure:
        return
    finally:
        os.close(silent)
        os.close(wake)


@pytest.mark.usefixtures("clock")
def test_stacks_are_collected_before_the_kill_and_the_reason_names_the_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = Launcher()
    signals: list[list[int]] = []
    threads = (ThreadStack(True, (("/home/me/train.py", 12, "step"),)),)

    def collect(
        processes: list[ScriptedProcess], steps: dict[str, int], *, before_kill: bool
    ) -> Stacks:
        assert before_kill
        signals.append([number for process in processes for number in process.signals])
        stack = TaskStack(
            "worker 1", WaitsFor.COLLECTIVE, threads[0].frames[0], steps["worker 1"], threads
        )
        return Stacks({"worker 1": stack})

    def react(event: Event) -> None:
        if is_last_launch(event, launcher):
            for process in launcher.processes:
                process.send(EventType.READY, step=0)
                step(process, 3)
        if event["event"] == EventType.GROUP_RESTART:
            monkeypatch.setattr(launcher, "launch", launch_and_finish)

    def launch_and_finish(attempt: int, workers: int) -> list[ScriptedProcess]:
        processes = Launcher.launch(launcher, attempt, workers)
        finish(launcher)
        return processes

    monkeypatch.setattr(group_module, "collect", collect)
    events = events_of(launcher, react)
    [restart] = [event for event in events if event["event"] == EventType.GROUP_RESTART]
    assert signals == [[]]
    assert restart["reason"].endswith("; worker 1 waits in a collective (train.py:12, in step)")
    log = FaultLog()
    log.add(restart, 5.0)
    assert "worker 1 waits in a collective (train.py:12, in step)" in repr(log)
