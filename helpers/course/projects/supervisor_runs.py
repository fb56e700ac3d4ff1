"""Project 6, the runs: what the student's supervisor does after each fault, as plain data.

The runs happen in the student's kernel. `supervisor` judges them, in grading in another process.
"""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from helpers.course.projects.fault_injector import Fault, FaultInjector, Plan, Start
from helpers.course.projects.group import LATE, RETURNED, ProcessGroup, Reply
from helpers.course.projects.observations import from_data, raise_if_empty, to_data
from helpers.course.projects.printed import keep_output
from helpers.course.projects.supervised_worker import HOST
from helpers.system import orphans, programs

NAME = "supervisor"
WORKER = "helpers.course.projects.supervised_worker"
OPEN_SECONDS = 20.0  # for the import of the module
QUIET = 3.5  # seconds without any event, beyond the longest timeout, that count as a hang
POLL = 0.2  # seconds between two looks at what happens
LIMIT = 25.0  # seconds of a run with events
EXTRA_STARTS = 2  # of the whole group, after which a supervisor counts as one that never gives up
END_SECONDS = 1.0  # for processes that were just killed
BEATS = 10  # in each heartbeat timeout
PATIENCE = 0.5  # seconds for which a fault at the start waits for all workers
SECONDS = ("start_delay", "step_seconds")  # the traits that are times
BUSY = 0.4  # of the heartbeat timeout: the machine is too busy for a pause of that length
SLOWER, MAX_REPEATS = 2.5, 3  # all timeouts of a repeated run, and how many runs are repeated
FIRST, FAULTY = "undisturbed", ("killed", "start", "frozen", "silent", "saving")
DIED = "died"
NAMES = {"killed": DIED, "crashed": DIED, "quit": DIED, "frozen": "frozen", "silent": "silent"}
TIMEOUTS = ("start_timeout", "heartbeat_timeout", "progress_timeout")
Case = Mapping[str, Any]


@keep_output
def run(module: Path, case: Case) -> dict[str, Any]:
    """Runs the module in every situation. If an undisturbed run fails, the others are omitted."""
    seen: dict[str, Any] = {}
    repeats = MAX_REPEATS
    for name, plan, restarts in plans(case):
        seen[name] = observe(module, case, plan, restarts)
        raise_if_empty(module, from_data(seen[name]["replies"]))
        if repeats and seen[name]["busy"] and not is_right(seen[name], plan):
            repeats -= 1
            seen[name] = observe(module, case, plan, restarts, SLOWER)
        if name == FIRST and not is_right(seen[name], plan):
            break
    return seen


def plans(case: Case) -> Iterator[tuple[str, Plan, int]]:
    """The name, the faults and the allowed restarts of all runs."""
    yield FIRST, Plan(), 1
    for name in FAULTY:
        faults = [Fault(*fault) for fault in case[name]]
        yield name, Plan(faults), len(faults)
    yield "slow", Plan(traits={rank: traits for rank, traits in case["slow"]}), 1
    yield "gives_up", Plan([Fault(*case["gives_up"])], always=True), case["max_restarts"]


def expected_faults(plan: Plan, restarts: int) -> list[list[Any]]:
    """The workers and kinds that a supervisor reports."""
    faults = [*plan.faults] * (restarts + 1) if plan.always else plan.faults
    return [[fault.rank, NAMES[fault.kind]] for fault in faults]


def is_right(seen: Mapping[str, Any], plan: Plan) -> bool:
    """Whether `supervise` returned the right faults."""
    [reply] = from_data(seen["replies"])
    expected = expected_faults(plan, seen["max_restarts"])
    return reply.kind == RETURNED and seen["returned"].get("faults") == expected


def observe(
    module: Path, case: Case, plan: Plan, max_restarts: int, scale: float = 1.0
) -> dict[str, Any]:
    """Calls `supervise` once, with workers that have these faults.

    Args:
      scale: all timeouts are multiplied by that.
    """
    timeouts = {name: scale * case[name] for name in TIMEOUTS}
    plan = plan._replace(traits=_scaled(plan.traits, scale))
    arguments = {"workers": case["workers"], **timeouts, "max_restarts": max_restarts}
    with _run(module, case, plan, arguments, scale * PATIENCE) as (group, injector, opened):
        if opened.kind != RETURNED:
            return _observation(opened, injector, max_restarts)
        starts = (max_restarts + 1 + EXTRA_STARTS) * case["workers"]
        quiet = scale * (max(timeouts.values()) + QUIET)
        reply = _call(group, injector, quiet, scale * LIMIT, starts)
        left: list[dict[str, Any]] = []
        returned: Any = {}
        if reply.kind == RETURNED:
            left = find_left(injector, group.members[0].pid, END_SECONDS)
            returned = _returned(group)
        seen = {**_observation(reply, injector, max_restarts), "quiet": quiet}
        gap = max(injector.largest_gap, *_spreads(injector), 0.0)
        busy = gap > scale * BUSY * case["heartbeat_timeout"] or injector.port_busy
        if reply.kind == LATE:  # more time would not help, unless no worker has started yet
            busy = not injector.starts
        times = detection_seconds(injector.starts)
        return {**seen, "returned": returned, "left": left, "busy": busy, "seconds": times}


def worker_command(
    folder: str | Path,
    workers: int,
    steps: int,
    *,
    save_every: int = 4,
    seed: int = 0,
    beat: float = 0.1,
    control: str = "",
) -> list[str]:
    """The command that starts a worker, without the arguments that the supervisor adds.

    Args:
      folder: of the checkpoints.
      beat: the seconds between two heartbeats.
      control: the address of a fault injector, or nothing for a run without faults.
    """
    options = {
        "folder": folder,
        "workers": workers,
        "steps": steps,
        "save-every": save_every,
        "seed": seed,
        "beat": beat,
        "control": control,
    }
    pairs = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return programs.command(WORKER, *pairs)


@contextmanager
def _run(
    module: Path, case: Case, plan: Plan, arguments: Mapping[str, Any], patience: float
) -> Iterator[tuple[ProcessGroup, FaultInjector, Reply]]:
    """One process for the student's module, which has its arguments, and the fault injector."""
    with tempfile.TemporaryDirectory(prefix="supervisor-") as name:
        injector = FaultInjector(plan, case["workers"], patience)
        try:
            with ProcessGroup(module, NAME, 1, relayed=False) as group:
                beat = arguments["heartbeat_timeout"] / BEATS
                numbers = {one: case[one] for one in ("workers", "steps", "save_every", "seed")}
                command = worker_command(name, **numbers, beat=beat, control=injector.address)
                text = json.dumps({"command": command, "folder": name, **arguments})
                [opened] = group.open(OPEN_SECONDS)
                if opened.kind == RETURNED:
                    group.put([[np.frombuffer(text.encode(), "uint8")]])
                yield group, injector, opened
        finally:
            injector.close()


def _call(
    group: ProcessGroup, injector: FaultInjector, quiet: float, limit: float, starts: int
) -> Reply:
    """Calls `supervise`, and waits as long as it or a worker does something."""
    deadline = time.monotonic() + limit
    group.start("supervise")
    replies = group.wait_for_any([0], POLL)
    while (
        not replies
        and len(injector.starts) <= starts
        and time.monotonic() < min(injector.active_at + quiet, deadline)
    ):
        replies = group.wait_for_any([0], POLL)
    return replies.get(0, Reply(LATE))


def detection_seconds(starts: Iterable[Start]) -> list[float]:
    """The seconds from each fault to the next start of the group."""
    times: dict[int, float] = {}
    faults: dict[int, float] = {}
    for start in starts:
        times[start.number] = min(start.started_at, times.get(start.number, start.started_at))
        if start.fault_at is not None:
            faults[start.number] = start.fault_at
    return [times[number + 1] - at for number, at in faults.items() if number + 1 in times]


def find_left(injector: FaultInjector, pid: int, seconds: float) -> list[dict[str, Any]]:
    """The workers and ports that are left after `supervise` has returned.

    Args:
      pid: the process of the supervisor.
      seconds: the time that processes have to end.
    """
    deadline = time.monotonic() + seconds
    while orphans.descendants(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    running = injector.wait_for_ends(max(0.0, deadline - time.monotonic()))
    kept = set(orphans.descendants(pid))
    found = [{"rank": start.rank, "problem": "running"} for start in running]
    found += [
        {"rank": start.rank, "problem": "zombie"}
        for start in injector.starts
        if not start.alive and start.pid in kept
    ]
    ports = dict.fromkeys(start.port for start in injector.starts)
    return found + [{"port": port, "problem": "port"} for port in ports if _listens(port)]


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port)) as end:
        return end.getsockname() != end.getpeername()
    return False


def _returned(group: ProcessGroup) -> Any:
    [result] = group.fetch()
    if isinstance(result, Reply):
        return {"other": result.other}
    returned = json.loads(result.tobytes())
    if isinstance(returned, dict) and {"results", "faults"} <= returned.keys():
        return {name: returned[name] for name in ("results", "faults")}
    return {"other": json.dumps(returned)[:200]}


def _observation(reply: Reply, injector: FaultInjector, max_restarts: int) -> dict[str, Any]:
    return {
        "replies": to_data([reply]),
        "max_restarts": max_restarts,
        "returned": {},
        "starts": [[start.number, start.rank, start.resume] for start in injector.starts],
        "left": [],
        "busy": False,
        "port_busy": injector.port_busy,
        "quiet": OPEN_SECONDS,
        "seconds": [],
    }


def _spreads(injector: FaultInjector) -> Iterator[float]:
    """The seconds between the first and the last worker of each start of the group."""
    times: dict[int, list[float]] = {}
    for start in injector.starts:
        times.setdefault(start.number, []).append(start.started_at)
    return (max(found) - min(found) for found in times.values())


def _scaled(traits: Mapping[int, Mapping[str, float]], scale: float) -> dict[int, dict[str, float]]:
    """Traits whose seconds are multiplied by a factor."""
    return {
        rank: {name: scale * value if name in SECONDS else value for name, value in some.items()}
        for rank, some in traits.items()
    }
