"""Project 1, the runs: what the student's module does in each situation, as plain data.

The runs happen in the student's kernel. `ring_all_reduce` judges them, in grading in another
process.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.course.projects.group import RETURNED, ProcessGroup, Reply
from helpers.course.projects.judge import from_data, raise_if_empty, to_data

NAME = "ring_all_reduce"
HANG = 8.0  # seconds after which a call counts as one that never returns
GRACE = 6.0  # seconds beyond the timeout, because the machine may be busy
FAULTS = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}
VICTIM, SURVIVORS = 1, (0, 2, 3)
Case = Mapping[str, Any]
Size = tuple[int, str]  # the length and the type of an array


def run(module: Path, case: Case) -> dict[str, Any]:
    """Runs the module in every situation. If two processes fail, the others are omitted."""
    seed = case["seed"]
    pair = observe_session(module, 2, [(1000, "float64")], seed)
    for replies in (pair["opened"], *(call["replies"] for call in pair["calls"])):
        raise_if_empty(from_data(replies))
    if not works(pair):
        return {"pair": [pair]}
    stages = ("sizes", "lengths", "large", "traffic", "repeated")
    return {
        "pair": [pair],
        **{name: list(_sessions(module, case[name], seed)) for name in stages},
        **{kind: observe_fault(module, kind, case) for kind in FAULTS},
    }


def make_arrays(workers: int, size: Size, seed: int) -> list[Any]:
    """One array of random numbers for each process, with both signs."""
    length, kind = size
    generator = np.random.default_rng([seed, workers, length])
    return [generator.standard_normal(length).astype(kind) for _rank in range(workers)]


def find_difference(arrays: Sequence[Any], results: Sequence[Any]) -> dict[str, Any] | None:
    """The first difference between the results and NumPy's sum, or None.

    A sum of N numbers in any order is within N roundings of the sum of their absolute values
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2). All processes must
    have the same bits, because otherwise the copies of a model would drift apart.
    """
    exact = np.sum([array.astype("float64") for array in arrays], axis=0)
    size = np.sum([np.abs(array).astype("float64") for array in arrays], axis=0)
    allowed = 2 * len(arrays) * np.finfo(arrays[0].dtype).eps * size
    for rank, result in enumerate(results):
        if isinstance(result, Reply):
            return {"problem": "type", "rank": rank, "found": result.other or result.kind}
        if (result.dtype, result.shape) != (arrays[0].dtype, arrays[0].shape):
            found = f"{result.dtype}{list(result.shape)}"
            return {"problem": "shape", "rank": rank, "found": found}
        for problem, wanted, wrong in (
            ("value", exact, ~(np.abs(result - exact) <= allowed)),
            ("bits", results[0], result != results[0]),
        ):
            if wrong.any():
                place = int(np.argmax(wrong))
                pair = {"found": float(result[place]), "wanted": float(wanted[place])}
                return {"problem": problem, "rank": rank, "element": place, **pair}
    return None


def observe(group: ProcessGroup, size: Size, seed: int) -> dict[str, Any]:
    """Sums arrays of this size once, and returns what happened."""
    arrays = make_arrays(len(group.members), size, seed)
    group.put([[array] for array in arrays])
    before = group.sent
    replies = group.call("all_reduce", HANG)
    sent = [now - then for now, then in zip(group.sent, before, strict=True)]
    found: dict[str, Any] = {
        "size": size,
        "replies": to_data(replies),
        "sent": sent,
        "difference": None,
    }
    if all_returned(replies):
        found["difference"] = find_difference(arrays, group.fetch())
    return found


def observe_session(module: Path, workers: int, sizes: Iterable[Size], seed: int) -> dict[str, Any]:
    """Connects once, and sums arrays of these sizes until the first failure."""
    with ProcessGroup(module, NAME, workers) as group:
        opened = group.open(HANG)
        session: dict[str, Any] = {"workers": workers, "opened": to_data(opened), "calls": []}
        if all_returned(opened):
            session["calls"] = list(_calls(group, sizes, seed))
            assert group.relay
            session["connections"] = group.relay.connections
        if works(session):
            group.put([()] * workers)
            session["closed"] = to_data(group.call("close", HANG))
    return session


def observe_fault(module: Path, kind: str, case: Case) -> dict[str, Any]:
    """Kills or freezes one of four processes while they sum a large array."""
    workers, seed = 1 + len(SURVIVORS), case["seed"]
    with ProcessGroup(module, NAME, workers, timeout=case["timeout"]) as group:
        opened = group.open(HANG)
        session: dict[str, Any] = {"workers": workers, "opened": to_data(opened), "calls": []}
        if all_returned(opened):
            session["calls"] = list(_calls(group, [(1000, "float64")], seed))
        found: dict[str, Any] = {"session": session, "timeout": group.timeout}
        if works(session):
            assert group.relay
            arrays = make_arrays(workers, case["faulty"], seed)
            group.put([[array] for array in arrays])
            victim, signum = group.members[VICTIM], FAULTS[kind]
            # No other process can know the sum after that, because it needs the whole array.
            group.relay.set_trigger(VICTIM, arrays[0].nbytes // 4, lambda: victim.signal(signum))
            seconds = group.timeout + GRACE
            replies = group.call("all_reduce", seconds, ranks=SURVIVORS, wait_for_all=True)
            found |= {"replies": to_data(replies), "triggered": group.relay.is_triggered}
    return found


def works(session: Mapping[str, Any]) -> bool:
    """Whether all calls returned the right sums."""
    return bool(session["calls"]) and all(map(_is_right, session["calls"]))


def _is_right(call: Mapping[str, Any]) -> bool:
    """Whether a call returned the sum in every process, possibly with different roundings."""
    different = call["difference"] and call["difference"]["problem"] != "bits"
    return not different and all_returned(from_data(call["replies"]))


def _sessions(module: Path, groups: Iterable[Any], seed: int) -> Iterator[dict[str, Any]]:
    """Sessions of groups of different sizes, until one of them fails."""
    for workers, sizes in groups:
        session = observe_session(module, workers, sizes, seed)
        yield session
        if not works(session):
            return


def _calls(group: ProcessGroup, sizes: Iterable[Size], seed: int) -> Iterator[dict[str, Any]]:
    assert group.relay
    for turn, size in enumerate(sizes):
        call = observe(group, size, seed + turn)
        call["connections"] = group.relay.connections
        yield call
        if not _is_right(call):
            return


def all_returned(replies: Iterable[Reply]) -> bool:
    """Whether no process raised an error, ended or missed its deadline."""
    return all(reply.kind == RETURNED for reply in replies)
