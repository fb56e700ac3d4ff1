"""Project 2, the runs: what the student's module does in each situation, as plain data.

`data_parallel` judges them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from helpers.course.projects.data_parallel_expected import RATE, compare
from helpers.course.projects.data_parallel_gate import Gate
from helpers.course.projects.group import GRACE, HANG, ProcessGroup
from helpers.course.projects.observations import (
    all_returned,
    from_data,
    is_right,
    raise_if_empty,
    subtract,
    to_data,
    until_failure,
    works,
)
from helpers.course.projects.printed import keep_output

NAME = "data_parallel"
STOPPED_HANG = 20.0  # seconds, in place of HANG, for a call that the kernel stops
EARLY = 0.5  # seconds in which a module could send gradients before their bucket is full
WAIT = 5.0  # seconds until it is certain that a module sends no gradients, or waits for them
STOPPED_TIMEOUT = 30.0  # seconds, the timeout of processes that the kernel stops
VICTIM, SURVIVORS = 1, (0, 2)
Case = Mapping[str, Any]
Script = Callable[[ProcessGroup, Gate], None]


class Job(NamedTuple):
    """What the processes train in one call.

    Attributes:
      widths: the inputs of the network, and the outputs of each layer.
      sizes: for each step, the number of examples of each process.
      bucket: the size of a bucket in bytes.
      same_start: whether the networks of all processes start with the same weights.
    """

    widths: Sequence[int]
    sizes: Sequence[Sequence[int]]
    bucket: int
    same_start: bool = True

    @property
    def workers(self) -> int:
        """The number of processes."""
        return len(self.sizes[0])

    @property
    def layers(self) -> list[int]:
        """The bytes of the gradients of each layer."""
        return [4 * (inputs + 1) * outputs for inputs, outputs in _pairs(self.widths)]


@keep_output
def run(module: Path, case: Case) -> dict[str, Any]:
    """Runs the module in every situation. If two processes fail, the others are omitted."""
    seed = case["seed"]
    pair = observe_session(module, [Job((6, 5, 3), [[4, 4]], 64)], seed)
    for replies in (pair["opened"], *(call["replies"] for call in pair["calls"])):
        raise_if_empty(module, from_data(replies))
    if not works(pair):
        return {"pair": [pair]}

    def observe_jobs(jobs: Sequence[Any]) -> dict[str, Any]:
        return observe_session(module, [Job(*job) for job in jobs], seed)

    stages = ("steps", "uneven", "starts")
    return {
        "pair": [pair],
        **{name: until_failure(observe_jobs, case[name], works) for name in stages},
        "traffic": observe_traffic(module, case["traffic"], seed),
        "overlap": observe_overlap(module, case["overlap"], seed),
        "killed": observe_kill(module, case, seed),
    }


def make_arguments(job: Job, seed: int, port: int = 0) -> list[list[Any]]:
    """The arrays that `Training.train` receives in each process."""
    generator = np.random.default_rng([seed, job.workers, len(job.sizes)])
    starts = [_make_weights(job.widths, generator) for _rank in range(job.workers)]
    arguments = []
    for rank in range(job.workers):
        sizes = np.array([step[rank] for step in job.sizes])
        examples = generator.standard_normal((sizes.sum(), job.widths[0]), "float32")
        labels = generator.integers(job.widths[-1], size=sizes.sum())
        settings = np.array([RATE, job.bucket, port])
        weights = starts[0 if job.same_start else rank]
        arguments.append([settings, sizes, examples, labels, *weights])
    return arguments


def observe(group: ProcessGroup, job: Job, seed: int, script: Script | None = None) -> Any:
    """Trains once, and returns what happened.

    Args:
      script: what the kernel does while it stops the backward passes.
    """
    stops = Gate(job.workers, lambda gate: script(group, gate)) if script else nullcontext()
    with stops as gate:
        arguments = make_arguments(job, seed, gate.port if gate else 0)
        group.put(arguments)
        before = group.sent
        deadline = STOPPED_HANG if script else HANG
        replies = group.call("train", deadline)
    found = {**job._asdict(), "replies": to_data(replies), "deadline": deadline}
    found |= {"sent": subtract(group.sent, before), "difference": None}
    if all_returned(replies):
        found["difference"] = compare(arguments, group.fetch())
    return found


def observe_session(module: Path, jobs: Sequence[Job], seed: int) -> dict[str, Any]:
    """Starts a group, and trains with each job until the first failure."""
    with ProcessGroup(module, NAME, jobs[0].workers) as group:
        return observe_calls(group, jobs, seed)


def observe_calls(group: ProcessGroup, jobs: Sequence[Job], seed: int) -> dict[str, Any]:
    """Connects, and trains with each job until the first failure."""
    opened = group.open(HANG)
    calls: list[Any] = []
    for job in jobs if all_returned(opened) else ():
        calls.append(observe(group, job, seed))
        if not is_right(calls[-1]):
            break
    return {"workers": len(group.members), "opened": to_data(opened), "calls": calls}


def observe_traffic(module: Path, case: Any, seed: int) -> dict[str, Any]:
    """The bytes that each process sends in a step, without those at the start of training."""
    job = Job(*case)
    few = job._replace(sizes=job.sizes[:1])
    session = observe_session(module, [few, job], seed)
    found: dict[str, Any] = {"session": session, "gradients": sum(job.layers)}
    if works(session):
        one, all_steps = (call["sent"] for call in session["calls"])
        more = len(job.sizes) - 1
        found["step"] = [sent / more for sent in subtract(all_steps, one)]
    return found


def observe_overlap(module: Path, case: Any, seed: int) -> dict[str, Any]:
    """Stops the backward passes of two steps, or the data between the processes."""
    job = Job(*case)
    found: dict[str, Any] = {"bucket": job.bucket}

    def script(group: ProcessGroup, gate: Gate) -> None:
        stop_two_steps(group, gate, job, found)

    with ProcessGroup(module, NAME, job.workers, timeout=STOPPED_TIMEOUT) as group:
        opened = group.open(HANG)
        session = {"workers": job.workers, "opened": to_data(opened), "calls": []}
        if all_returned(opened):
            session["calls"] = [observe(group, job, seed, script)]
    return {"session": session, **found}


def stop_two_steps(group: ProcessGroup, gate: Gate, job: Job, found: dict[str, Any]) -> None:
    """Stops the backward pass in the first step, and the data in the second one."""
    _watch(group, gate, job, found)
    _hold(group, gate, found)
    while not gate.wait_for_all(HANG):
        gate.open()


def _watch(group: ProcessGroup, gate: Gate, job: Job, found: dict[str, Any]) -> None:
    """Stops the backward pass before and after its first bucket is full, and counts bytes."""
    last = full_after(job)
    found |= {"smaller": sum(job.layers[last + 1 :]), "full": sum(job.layers[last:])}
    start: list[int] = []

    def sent() -> int:
        return sum(group.sent) - sum(start)

    while not gate.wait_for_all(HANG):
        layer = gate.layer
        if layer == len(job.layers):
            start += group.sent
        elif layer == last:
            _wait_until(lambda: sent() > found["smaller"], EARLY)
            found["early"] = sent()
        elif layer == last - 1:
            _wait_until(lambda: sent() >= job.bucket // 2, WAIT)
            found["during"] = sent()
        gate.open()
        if not layer:
            return


def _hold(group: ProcessGroup, gate: Gate, found: dict[str, Any]) -> None:
    """Holds all data back until the backward pass of every process has reached the first layer."""
    assert group.relay
    if gate.wait_for_all(HANG):
        return
    group.relay.pause()
    try:
        while layer := gate.layer:
            gate.open()
            if waiting := gate.wait_for_all(WAIT):
                found["waits"] = {"rank": waiting[0], "layer": layer}
                return
        found["waits"] = None
    finally:
        group.relay.resume()
    gate.open()


def full_after(job: Job) -> int:
    """The layer whose gradients fill the first bucket."""
    layer, held = len(job.layers), 0
    while held < job.bucket:
        layer -= 1
        held += job.layers[layer]
    return layer


def observe_kill(module: Path, case: Case, seed: int) -> dict[str, Any]:
    """Kills one of three processes in the second step."""
    job = Job(*case["killed"])
    with ProcessGroup(module, NAME, job.workers, timeout=case["timeout"]) as group:
        session = observe_calls(group, [job], seed)  # without a fault, it works
        found: dict[str, Any] = {"session": session, "timeout": group.timeout}
        if works(session):
            assert group.relay
            group.put(make_arguments(job, seed))
            victim = group.members[VICTIM]
            # Every design must send more than that from each process.
            more = 2 * sum(job.layers)
            group.relay.set_trigger(VICTIM, more, lambda: victim.signal(signal.SIGKILL))
            seconds = group.timeout + GRACE
            replies = group.call("train", seconds, awaited=SURVIVORS, wait_for_all=True)
            found |= {"replies": to_data(replies), "triggered": group.relay.is_triggered}
    return found


def _make_weights(widths: Sequence[int], generator: np.random.Generator) -> list[Any]:
    return [
        (generator.standard_normal((inputs + 1, outputs)) / np.sqrt(inputs)).astype("float32")
        for inputs, outputs in _pairs(widths)
    ]


def _pairs(widths: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise(widths))


def _wait_until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)
