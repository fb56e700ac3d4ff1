"""Injected faults: each fault is injected, detected, survived and reported."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import helpers.system.virtual_hosts
from helpers import LocalCluster
from helpers.errors import ClusterError, ConfigError, StoppedError
from helpers.protocol.events import Event, EventType, FaultType, supervisor_event
from helpers.results.fault_log import FaultLog
from helpers.results.training_result import TrainingResult
from helpers.system.virtual_hosts import virtual_hosts_supported
from helpers.worker.context import WorkerContext
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn
from tests.support.processes import wait_until

needs_hosts = pytest.mark.skipif(
    not virtual_hosts_supported(),
    reason="this machine forbids network namespaces, or virtual cables",
)
AT_STEP, STEPS, SAVE = 130, 400, 50
DEADLINE = 3.0


@dataclass
class Watched:
    """A training run and its events. `at_step` is called once at AT_STEP, `also` at every event."""

    cluster: LocalCluster
    at_step: Callable[[], Any] = lambda: None
    also: Callable[[Event], Any] = lambda event: None
    events: list[Event] = field(default_factory=list)
    _done: bool = False

    def train(self, steps: int = STEPS, **options: Any) -> TrainingResult:
        self.result = TrainingResult.for_run(
            self.cluster.strategy, self.cluster.workers, self.cluster.collective
        )
        chosen = {"params": PARAMS, "save_checkpoints_steps": SAVE, "evaluate": None} | options
        return self.cluster.train(
            tiny_model_fn,
            tiny_input_fn,
            steps=steps,
            progress=False,
            on_event=self.note,
            result=self.result,
            **chosen,  # type: ignore[arg-type]
        )

    def note(self, event: Event) -> None:
        self.events.append(event)
        if event["event"] == "step" and event["step"] >= AT_STEP and not self._done:
            self._done = True
            self.at_step()
        self.also(event)

    def told(self, *kinds: str) -> list[tuple[str, str]]:
        """The task and the fault, or the kind, of events of these kinds, in order."""
        return [
            (event["task"], str(event.get("fault", event["event"])))
            for event in self.events
            if event["event"] in kinds
        ]

    def time_of(self, kind: str, task: str, fault: str | None = None, attempt: int = 0) -> float:
        """The time of the first such event."""
        return next(
            float(event["time"])
            for event in self.events
            if (event["event"], event["task"], event.get("fault")) == (kind, task, fault)
            and event["attempt"] == attempt
        )


def whats(story: FaultLog) -> list[str]:
    return [line.message for line in story]


def test_a_worker_that_is_killed_is_noticed_and_the_story_tells_it() -> None:
    with LocalCluster(workers=2) as cluster:
        run = Watched(cluster, lambda: cluster.inject_fault("kill", "worker 1"))
        result = run.train()
    assert run.told("fault_injected", "group_restart") == [
        ("worker 1", "kill"),
        ("worker 1", "group_restart"),
    ]
    assert result.steps == STEPS
    [reason] = result.restarts
    assert reason.startswith("worker 1 ended with signal 9 (SIGKILL)")
    killed, noticed, went_on = result.fault_log
    assert (killed.task, killed.message) == ("worker 1", "killed (SIGKILL)")
    assert reason in noticed.message and "all processes were restarted" in noticed.message
    assert f"the next step is {result.resumed_at[1] + 1}, " in went_on.message
    reported = [p.step for points in result.history.values() for p in points if p.attempt == 0]
    lost = max(reported) - result.resumed_at[1]
    number = {0: "no step was", 1: "1 step was"}.get(lost, f"{lost} steps were")
    assert went_on.message.endswith(f", {number} lost")
    assert 0 < killed.seconds <= noticed.seconds < went_on.seconds < result.seconds


@pytest.mark.faults
def test_a_frozen_worker_is_noticed_at_the_deadline() -> None:
    with LocalCluster(workers=2, step_timeout=DEADLINE) as cluster:
        run = Watched(cluster, lambda: cluster.inject_fault("pause", "worker 1"))
        result = run.train()
    [reason] = result.restarts
    assert reason.startswith("worker 1 has not responded for 3 s")
    frozen, noticed, _went_on = result.fault_log
    assert frozen.message == "frozen (SIGSTOP)"
    assert frozen.seconds < noticed.seconds


def test_one_that_is_thawed_in_time_goes_on_and_nobody_is_restarted() -> None:
    def freeze() -> None:
        cluster.inject_fault("pause", "worker 1", seconds=0.5)
        cluster.inject_fault("pause", "worker 0")
        threading.Timer(1.0, cluster.clear_fault, ["pause", "worker 0"]).start()

    with LocalCluster(workers=2, step_timeout=10) as cluster:
        run = Watched(cluster, freeze)
        result = run.train()
    assert run.told("fault_injected", "group_restart") == [
        ("worker 1", "pause"),
        ("worker 0", "pause"),
    ]
    assert run.told("fault_cleared") == [("worker 1", "pause"), ("worker 0", "pause")]
    assert whats(result.fault_log)[:3] == [
        "frozen (SIGSTOP), for 0.5 s",
        "frozen (SIGSTOP)",
        "thawed (SIGCONT)",
    ]
    assert sum("the next step is" in what for what in whats(result.fault_log)) == 2


def test_the_group_goes_at_the_pace_of_a_slow_worker_which_never_counts_as_frozen() -> None:
    seconds = 1.5

    def in_turn(event: Event) -> None:
        now = event["time"]
        if event["event"] == "step" and event["step"] >= AT_STEP:
            turns.setdefault("fast", now)
            if "slow" not in turns and now > turns["fast"] + seconds:
                turns["slow"] = now
                cluster.inject_fault("throttle", "worker 1", factor=10)
            if "slow" in turns and "again" not in turns and now > turns["slow"] + 2.5 * seconds:
                turns["again"] = now
                cluster.clear_fault("throttle", "worker 1")
            if "again" in turns and now > turns["again"] + seconds:
                cluster.stop()

    turns: dict[str, float] = {}
    with LocalCluster(workers=2, step_timeout=2) as cluster:
        run = Watched(cluster, also=in_turn)
        with pytest.raises(StoppedError):
            run.train(steps=10**6)
    fast, slow, again = (
        steps_per_second(run.result, turns[name] + 0.3, turns[name] + seconds) for name in turns
    )
    print(f"{fast:.0f}, {slow:.0f} and {again:.0f} steps a second")
    assert run.result.restarts == []
    assert max(fast, again) > slow > 0  # 12 times on idle cores: docs/FAULTS.md
    assert whats(run.result.fault_log) == [
        "slowed down to 1/10 of its speed",
        "at full speed again",
    ]


def steps_per_second(result: TrainingResult, start: float, end: float) -> float:
    points = [p for p in result.history["worker 0"] if start < p.seconds + result.started < end]
    return (points[-1].step - points[0].step) / (points[-1].seconds - points[0].seconds)


@pytest.mark.faults
@needs_hosts
def test_one_that_is_cut_off_keeps_its_connections_and_is_noticed_by_the_others() -> None:
    places: dict[str, tuple[str | None, str]] = {}

    def cut() -> None:
        for process in cluster.processes:
            place = os.readlink(f"/proc/{process.pid}/ns/net")
            places[str(process.task)] = process.config.address, place
        cluster.inject_fault("partition", "worker 1")

    with LocalCluster(workers=2, network="per_task", step_timeout=DEADLINE) as cluster:
        run = Watched(cluster, cut)
        result = run.train()
    assert [address for address, _place in places.values()] == ["10.0.0.1:2222", "10.0.0.2:2222"]
    assert len({place for _address, place in places.values()}) == 2
    assert os.readlink("/proc/self/ns/net") not in {place for _address, place in places.values()}
    [reason] = result.restarts  # the replacement of worker 1 is connected
    assert "made no progress for 3 s" in reason and "though all processes are alive" in reason
    assert result.steps == STEPS
    cut_off, noticed, _went_on = result.fault_log
    assert cut_off.message == "disconnected from the network"
    assert cut_off.seconds < noticed.seconds


@pytest.mark.faults
@needs_hosts
def test_one_that_is_joined_again_in_time_goes_on_where_it_was() -> None:
    with LocalCluster(workers=2, network="per_task", step_timeout=20) as cluster:
        run = Watched(cluster, lambda: cluster.inject_fault("partition", "worker 1", seconds=1))
        result = run.train()
    assert run.told("fault_injected", "fault_cleared", "group_restart") == [
        ("worker 1", "partition"),
        ("worker 1", "partition"),
    ]
    assert {point.attempt for point in result.history["worker 1"]} == {0}
    joined = run.time_of("fault_cleared", "worker 1", "partition") - result.started
    assert result.fault_log[-1].seconds > joined
    assert "the next step is" in result.fault_log[-1].message


@pytest.mark.faults
def test_a_start_can_be_late_the_first_one_and_that_after_a_restart() -> None:
    def again() -> None:
        cluster.inject_fault("delay_start", "worker 0", seconds=1.5)
        cluster.inject_fault("kill", "worker 1")

    with LocalCluster(workers=2) as cluster:
        cluster.inject_fault("delay_start", "worker 1", seconds=2)
        run = Watched(cluster, again)
        result = run.train()
    assert run.told("fault_injected", "group_restart") == [
        ("worker 1", "delay_start"),
        ("worker 0", "delay_start"),
        ("worker 1", "kill"),
        ("worker 1", "group_restart"),
    ]
    for task, attempt, late in (("worker 1", 0, 2), ("worker 0", 1, 1.5)):
        asked = run.time_of("launched", task, attempt=attempt)
        assert late - 0.1 < run.time_of("started", task, attempt=attempt) - asked
    assert len(result.restarts) == 1
    assert result.fault_log[0].message == "its next start is delayed by 2 s"


def test_a_full_disk_ends_the_run_with_a_sentence() -> None:
    with LocalCluster(workers=2) as cluster:
        run = Watched(cluster, lambda: cluster.inject_fault("disk_full", "worker 0"))
        with pytest.raises(ConfigError, match="File too large") as caught:
            run.train()
    message = str(caught.value)
    assert message.startswith(f"A checkpoint could not be written: {run.result.model_dir}")
    assert "model.ckpt" in message  # and no file that is written at the end
    assert f"training resumes at step {run.result.checkpoints[-1]}." in message
    assert run.told("group_restart") == []
    assert whats(run.result.fault_log) == ["its disk is full: no write to a file succeeds"]


def test_a_disk_that_is_freed_before_the_next_checkpoint_costs_nothing() -> None:
    def fill_and_free() -> None:
        cluster.inject_fault("disk_full", "worker 0")
        cluster.clear_fault("disk_full", "worker 0")

    with LocalCluster(workers=2) as cluster:
        result = Watched(cluster, fill_and_free).train()
    assert result.checkpoints[-1] == STEPS
    assert result.restarts == []


def test_a_worker_beside_parameter_servers_comes_back_and_a_server_restarts_all() -> None:
    def go_on(event: Event) -> None:
        if run.told("group_restart"):
            if event["event"] == EventType.STEP:
                cluster.stop()
        elif (
            event["event"] == EventType.READY
            and event["task"] == "worker 0"
            and run.told("respawned")
        ):
            cluster.inject_fault("kill", "ps 0")

    with LocalCluster(workers=1, ps=1) as cluster:
        run = Watched(cluster, lambda: cluster.inject_fault("kill", "worker 0"), go_on)
        with pytest.raises(StoppedError):
            run.train(steps=10**6)
    assert run.told("fault_injected", "respawned", "group_restart") == [
        ("worker 0", "kill"),
        ("worker 0", "respawned"),
        ("ps 0", "kill"),
        ("ps 0", "group_restart"),
    ]
    _killed, replaced, back, _killed_too, restarted, went_on = whats(run.result.fault_log)
    assert "worker 0 ended with signal 9 (SIGKILL)" in replaced
    assert replaced.endswith("; it was restarted, and the others continued")
    assert back.startswith("back after ")
    assert "ps 0 ended with signal 9 (SIGKILL)" in restarted
    assert "the next step is" in went_on


def wait_to_be_harmed(context: WorkerContext) -> str:
    """In a worker or an evaluator: sleeps for a second, unless it is killed."""
    context.report("step", step=AT_STEP, loss=0.0, examples_per_second=None)
    time.sleep(1)
    return str(context.config.task)


def test_an_evaluator_beside_a_function_is_harmed_too_and_run_tells_its_events() -> None:
    with LocalCluster(workers=1) as cluster:
        run = Watched(cluster, lambda: cluster.inject_fault("kill", "evaluator 0"))
        values = cluster.run(wait_to_be_harmed, evaluator_fn=wait_to_be_harmed, on_event=run.note)
    assert values == ["worker 0", "evaluator 0"]
    assert run.told("fault_injected", "group_restart") == [
        ("evaluator 0", "kill"),
        ("evaluator 0", "group_restart"),
    ]


def test_what_cannot_be_done_is_refused_in_a_sentence_that_names_what_there_is() -> None:
    said: dict[str, str] = {}

    def refused(fault: str, task: str, **options: Any) -> str:
        with pytest.raises((ConfigError, ClusterError)) as caught:
            cluster.inject_fault(fault, task, **options)
        return f"{type(caught.value).__name__}: {caught.value}"

    def ask() -> None:
        said["host"] = refused("partition", "worker 1")
        with pytest.raises(ClusterError, match="'pause' is not active in worker 1"):
            cluster.clear_fault("pause", "worker 1")
        said["evaluator"] = refused("kill", "evaluator 0")
        cluster.processes[1].signal(9)
        cluster.processes[1].wait()
        said["ended"] = refused("pause", "worker 1")

    with LocalCluster(workers=2) as cluster:
        said["idle"] = refused("kill", "worker 1")
        said["fault"] = refused("kick", "worker 1")
        said["task"] = refused("kill", "worker 2")
        said["ps"] = refused("delay_start", "ps 0")
        said["option"] = refused("kill", "worker 1", seconds=1)
        for value in (0, -1, "2", float("nan")):
            assert "seconds=" in refused("pause", "worker 1", seconds=value)
        for value in (0.5, 1, 51, "4", float("nan"), True):
            assert "factor=" in refused("throttle", "worker 1", factor=value)
        with pytest.raises(ConfigError, match="kick"):
            cluster.clear_fault("kick", "worker 1")
        Watched(cluster, ask).train(steps=200)
        said["idle again"] = refused("kill", "worker 1")
    assert said["idle"] == said["idle again"]
    assert said["idle"].startswith("ClusterError: Nothing is running")
    assert "ConfigError" in said["fault"]
    assert all(fault.value in said["fault"] for fault in FaultType)
    assert "worker 0, worker 1, evaluator 0" in said["task"]
    assert "task='ps 0' is unknown" in said["ps"]
    assert "'kill' does not accept seconds=1" in said["option"]
    assert "ConfigError" in said["host"] and 'network="per_task"' in said["host"]
    assert "Choose one of worker 0, worker 1." in said["evaluator"]
    assert said["ended"].startswith("ClusterError: worker 1 is not running")
    assert said["ended"].endswith("Running: worker 0.")


def held() -> tuple[int, list[str]]:
    """The number of threads of this process, and the kinds of its open descriptors."""
    descriptors = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the folder itself
            descriptors.append(os.readlink(link).split(":")[0])
    return threading.active_count(), sorted(descriptors)


def stop_harmed_runs() -> None:
    """A program that stops runs with many faults, and compares its resources with before."""

    def harm_much() -> None:
        cluster.inject_fault("throttle", "worker 0", factor=4)
        cluster.inject_fault("pause", "worker 1", seconds=600)
        cluster.inject_fault("partition", "worker 1", seconds=600)
        cluster.inject_fault("delay_start", "worker 1", seconds=600)
        cluster.stop()

    with LocalCluster(workers=2, network="per_task") as cluster:
        Watched(cluster).train(steps=50)  # loads everything that stays loaded
        before = held()
        with pytest.raises(StoppedError):
            Watched(cluster, harm_much).train()
        assert wait_until(lambda: held() == before, 5), (before, held())
        cluster.inject_fault("delay_start", "worker 1", seconds=600)
        with pytest.raises(StoppedError):
            Watched(cluster, also=lambda event: cluster.stop()).train()
        assert wait_until(lambda: held() == before, 5), (before, held())
        assert Watched(cluster).train(steps=50).restarts == []


@pytest.mark.faults
@needs_hosts
def test_no_deed_outlives_its_run() -> None:
    # In a separate process, because modules imported by other tests open descriptors at any time.
    code = f"from {__name__} import stop_harmed_runs; stop_harmed_runs()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_done_while_no_process_speaks_is_told_at_once() -> None:
    def freeze_all() -> None:
        for task in ("worker 0", "worker 1"):
            cluster.inject_fault("pause", task)
        threading.Thread(target=thaw_all).start()

    def thaw_all() -> None:
        in_time.append(told.wait(15))  # all are silent until they are resumed, within 20 s
        for task in ("worker 0", "worker 1"):
            cluster.clear_fault("pause", task)

    def listen(event: Event) -> None:
        if event["event"] == EventType.FAULT_INJECTED and event["task"] == "worker 1":
            told.set()

    told = threading.Event()
    in_time: list[bool] = []
    with LocalCluster(workers=2, step_timeout=20) as cluster:
        result = Watched(cluster, freeze_all, listen).train()
    assert result.restarts == []
    assert in_time == [True]


def test_hosts_that_the_machine_forbids_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="network='virtual' is unknown"):
        LocalCluster(network="virtual")
    monkeypatch.setattr(helpers.system.virtual_hosts, "virtual_hosts_supported", lambda: False)
    with pytest.raises(ConfigError, match='network="per_task" is not supported'):
        LocalCluster(network="per_task")


BYTES = 1_000_000


def send_to_the_chief(context: WorkerContext) -> float:
    """In two workers: the time until worker 0 has received BYTES from worker 1."""
    host, _colon, port = context.config.address_of(context.config.chief).rpartition(":")
    if context.config.task != context.config.chief:
        assert wait_until(lambda: sends(host, int(port)), 20)
        return 0.0
    with socket.create_server(("", int(port))) as server:
        receiver, _address = server.accept()
        began = time.perf_counter()
        with receiver:
            while receiver.recv(1 << 16):
                pass
        return time.perf_counter() - began


def sends(host: str, port: int) -> bool:
    """Sends BYTES, if a receiver is listening."""
    try:
        client = socket.create_connection((host, port), 10)
    except ConnectionRefusedError:
        return False
    with client:
        client.sendall(b"\0" * BYTES)
    return True


@needs_hosts
def test_with_hosts_the_bandwidth_is_that_of_each_cable() -> None:
    with LocalCluster(workers=2, network="per_task", bandwidth=16e6) as cluster:
        seconds = cluster.run(send_to_the_chief)[0]
    expected = BYTES * 8 / 16e6
    assert seconds > 0.8 * expected


def a_story() -> Iterator[Event]:
    def step(number: int, at: float, task: str = "worker 0") -> Event:
        return supervisor_event(EventType.STEP, task, step=number) | {"time": at}

    def injected(fault: str, task: str, at: float, **options: float) -> Event:
        return supervisor_event(EventType.FAULT_INJECTED, task, fault=fault, options=options) | {
            "time": at
        }

    yield step(120, 3)
    yield injected("throttle", "worker 1", 4, factor=2.5)
    yield injected("pause", "worker <1>", 5)
    yield supervisor_event(EventType.GROUP_RESTART, "worker <1>", reason="worker <1> is gone") | {
        "time": 8.25
    }
    yield step(101, 9.25)
    yield injected("partition", "worker 0", 10, seconds=1.5)
    yield supervisor_event(EventType.FAULT_CLEARED, "worker 0", fault="partition") | {"time": 11.5}
    yield step(130, 11.5)  # it was complete before
    yield step(131, 12)
    yield supervisor_event(EventType.RESPAWNED, "worker 2", reason="worker 2 is gone") | {
        "time": 13
    }
    yield supervisor_event(EventType.READY, "worker 2", step=0) | {"time": 14.5}


def test_a_story_reads_as_sentences_one_a_line() -> None:
    story = FaultLog()
    for event in a_story():
        story.add(event, event["time"])
    assert repr(story).splitlines() == [
        " 4.0 s  worker 1    slowed down to 1/2.5 of its speed",
        " 5.0 s  worker <1>  frozen (SIGSTOP)",
        " 8.2 s  worker <1>  detected 3.2 s later: worker <1> is gone; "
        "all processes were restarted",
        " 9.2 s  worker 0    the next step is 101, after 1.0 s, 20 steps were lost",
        "10.0 s  worker 0    disconnected from the network, for 1.5 s",
        "11.5 s  worker 0    reconnected to the network",
        "12.0 s  worker 0    the next step is 131, after 0.50 s",
        "13.0 s  worker 2    detected: worker 2 is gone; "
        "it was restarted, and the others continued",
        "14.5 s  worker 2    back after 1.5 s",
    ]
    html = story._repr_html_()
    assert html.count("<tr>") == len(story) == 9
    assert "worker &lt;1&gt;" in html and "<1>" not in html
    assert repr(FaultLog()) == ""
