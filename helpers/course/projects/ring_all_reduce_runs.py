"""Project 1, the runs: what the student's module does in each situation, as plain data.

The runs happen in the student's kernel. `ring_all_reduce` judges them, in grading in another
process.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.course.projects.group import GRACE, HANG, RAISED, RETURNED, ProcessGroup
from helpers.course.projects.observations import (
    all_returned,
    find_difference,
    from_data,
    is_right,
    raise_if_empty,
    subtract,
    to_data,
    until_failure,
    works,
)
from helpers.course.projects.printed import keep_output

NAME = "ring_all_reduce"
FAULTS = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}
VICTIM, SURVIVORS = 1, (0, 2, 3)
Case = Mapping[str, Any]
Size = tuple[int, str]  # the length and the type of an array


@keep_output
def run(module: Path, case: Case) -> dict[str, Any]:
    """Runs the module in every situation. If two processes fail, the others are omitted."""
    seed = case["seed"]
    pair = observe_session(module, 2, [(1000, "float64")], seed)
    for replies in (pair["opened"], *(call["replies"] for call in pair["calls"])):
        raise_if_empty(module, from_data(replies))
    if not works(pair):
        return {"pair": [pair]}

    def observe_group(group: tuple[int, list[Size]]) -> dict[str, Any]:
        return observe_session(module, *group, seed)

    stages = ("sizes", "lengths", "large", "traffic", "repeated")
    return {
        "pair": [pair],
        **{name: until_failure(observe_group, case[name], works) for name in stages},
        **{kind: observe_fault(module, kind, case) for kind in FAULTS},
        "absent": observe_absence(module, case),
    }


def make_arrays(workers: int, size: Size, seed: int) -> list[Any]:
    """One array of random numbers for each process, with both signs."""
    length, kind = size
    generator = np.random.default_rng([seed, workers, length])
    return [generator.standard_normal(length).astype(kind) for _rank in range(workers)]


def compare(arrays: Sequence[Any], results: Sequence[Any]) -> dict[str, Any] | None:
    """The first difference between the results and NumPy's sum, or None.

    A sum of N numbers in any order is within N roundings of the sum of their absolute values
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2).
    """
    exact = np.sum([array.astype("float64") for array in arrays], axis=0)
    size = np.sum([np.abs(array).astype("float64") for array in arrays], axis=0)
    allowed = 2 * len(arrays) * np.finfo(arrays[0].dtype).eps * size
    return find_difference(results, exact, allowed, arrays[0].dtype)


def observe(group: ProcessGroup, size: Size, seed: int) -> dict[str, Any]:
    """Sums arrays of this size once, and returns what happened."""
    assert group.relay
    arrays = make_arrays(len(group.members), size, seed)
    group.put([[array] for array in arrays])
    before = group.sent
    replies = group.call("all_reduce", HANG)
    return {
        "size": size,
        "replies": to_data(replies),
        "sent": subtract(group.sent, before),
        "connections": group.relay.connections,
        "difference": compare(arrays, group.fetch()) if all_returned(replies) else None,
    }


def observe_session(module: Path, workers: int, sizes: Iterable[Size], seed: int) -> dict[str, Any]:
    """Starts a group, sums arrays of these sizes, and closes it unless a call failed."""
    with ProcessGroup(module, NAME, workers) as group:
        session = observe_calls(group, sizes, seed)
        if works(session):
            group.put([()] * workers)
            session["closed"] = to_data(group.call("close", HANG))
    return session


def observe_fault(module: Path, kind: str, case: Case) -> dict[str, Any]:
    """Kills or freezes one of four processes while they sum a large array.

    They first sum one of that size without a fault, because errors count only if that works.
    """
    workers, seed = 1 + len(SURVIVORS), case["seed"]
    with ProcessGroup(module, NAME, workers, timeout=case["timeout"]) as group:
        session = observe_calls(group, [case[kind]], seed)
        found: dict[str, Any] = {"session": session, "timeout": group.timeout}
        if works(session):
            assert group.relay
            arrays = make_arrays(workers, case[kind], seed)
            group.put([[array] for array in arrays])
            victim, signum = group.members[VICTIM], FAULTS[kind]
            # No other process can know the sum after that, because it needs the whole array.
            group.relay.set_trigger(VICTIM, arrays[0].nbytes // 4, lambda: victim.signal(signum))
            seconds = group.timeout + GRACE
            replies = group.call("all_reduce", seconds, awaited=SURVIVORS, wait_for_all=True)
            found |= {"ranks": SURVIVORS, "replies": to_data(replies)}
            found["triggered"] = group.relay.is_triggered
    return found


def observe_absence(module: Path, case: Case) -> dict[str, Any]:
    """Freezes one of four processes before it connects.

    Either `connect` or the first call must raise an error in each of the others.
    """
    workers = 1 + len(SURVIVORS)
    with ProcessGroup(module, NAME, workers, timeout=case["timeout"] / 2) as group:
        group.members[VICTIM].signal(signal.SIGSTOP)
        seconds = group.timeout + GRACE
        opened = group.open(seconds, SURVIVORS, wait_for_all=True)
        pairs = dict(zip(SURVIVORS, opened, strict=True))
        connected = [rank for rank, reply in pairs.items() if reply.kind == RETURNED]
        replies = {rank: reply for rank, reply in pairs.items() if rank not in connected}
        if connected and all(reply.kind == RAISED for reply in replies.values()):
            arrays = make_arrays(len(connected), (1000, "float64"), case["seed"])
            group.put([[array] for array in arrays], ranks=connected)
            called = group.call("all_reduce", seconds, awaited=connected, wait_for_all=True)
            replies |= zip(connected, called, strict=True)
    return {
        "timeout": group.timeout,
        "ranks": list(replies),
        "replies": to_data(replies.values()),
    }


def observe_calls(group: ProcessGroup, sizes: Iterable[Size], seed: int) -> dict[str, Any]:
    """Connects, and sums arrays of these sizes until the first failure."""
    opened = group.open(HANG)
    calls: list[dict[str, Any]] = []
    for turn, size in enumerate(sizes if all_returned(opened) else ()):
        calls.append(observe(group, size, seed + turn))
        if not is_right(calls[-1]):
            break
    return {"workers": len(group.members), "opened": to_data(opened), "calls": calls}
