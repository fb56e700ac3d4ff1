"""Project 4, the runs: what the student's module does in each situation, as plain data.

The runs happen in the student's kernel. `model_parallel` judges them, in grading in another
process.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.course import process_memory
from helpers.course.projects.group import GRACE, HANG, ProcessGroup, Reply
from helpers.course.projects.model_parallel_clock import (
    IDLE_TOLERANCE,
    Clock,
    idle_share,
    wanted_share,
)
from helpers.course.projects.model_parallel_expected import (
    KIND,
    RATE,
    UPDATES,
    Block,
    Job,
    find_block_difference,
    find_difference,
    make_block,
    make_pass,
    make_training,
)
from helpers.course.projects.model_parallel_network import COUNTS
from helpers.course.projects.observations import (
    Observation,
    all_returned,
    from_data,
    is_right,
    raise_if_empty,
    subtract,
    to_data,
    until_failure,
)
from helpers.course.projects.printed import keep_output

NAME = "model_parallel"
CLOCK_HANG = 20.0  # seconds, in place of HANG, for a call that the clock stops
CLOCK_TIMEOUT = 60.0  # seconds, the timeout of processes that the clock stops
BROKEN = 1
Case = Mapping[str, Any]


@keep_output
def run(module: Path, case: Case) -> Observation:
    """Runs the module in every situation. What needs a part that does not work is omitted."""
    seed = case["seed"]
    pair = observe_pipeline(module, [Job((5, 4, 3), [8], 2)], seed)
    raise_if_empty(module, from_data(pair["opened"]))

    def pipeline(jobs: Any) -> Observation:
        return observe_pipeline(module, [Job(*job) for job in jobs], seed)

    def clock(job: Any) -> Observation:
        return observe_clock(module, Job(*job), seed)

    def block(case: Any) -> Observation:
        return observe_block(module, case, seed)

    first = block(((4, 6, 3), [5]))
    found: Observation = {"pair": [pair], "block": [first]}
    if works(pair):
        for stage in ("steps", "uneven", "traffic"):
            found[stage] = until_failure(pipeline, case[stage], works)
        found["bubble"] = until_failure(clock, case["bubble"], _works_without_pauses)
        *_others, last = found["bubble"]
        # Another wait for a deadlock would find nothing new.
        found["memory"] = until_failure(clock, case["memory"], works) if works(last) else [last]
        found["killed"] = observe_kill(module, case, seed)
    if works(first):
        for stage in ("updates", "exchange"):
            found[stage] = until_failure(block, case[stage], works)
        found["halves"] = observe_halves(module, case["halves"], seed)
        found["frozen"] = observe_freeze(module, case, seed)
    return found


def works(session: Mapping[str, Any]) -> bool:
    """Whether all calls of a session returned the right results."""
    returned = all_returned(from_data(session["opened"]))
    return bool(session["calls"]) and returned and all(map(_is_right, session["calls"]))


def observe_pipeline(module: Path, jobs: Sequence[Job], seed: int) -> Observation:
    """Connects once, and trains with each job until the first failure."""
    with ProcessGroup(module, NAME, jobs[0].workers) as group:
        session = _open(group)
        if all_returned(from_data(session["opened"])):
            session["calls"] = until_failure(lambda job: _train(group, job, seed), jobs, _is_right)
        return session


def observe_clock(module: Path, job: Job, seed: int) -> Observation:
    """Trains with one batch, while a clock states how long each operation takes."""
    with ProcessGroup(module, NAME, job.workers, timeout=CLOCK_TIMEOUT) as group:
        session = _open(group)
        if not all_returned(from_data(session["opened"])):
            return session
        # Libraries allocate memory for their first results.
        small = Job([2] * len(job.widths), [job.micro_batches], job.micro_batches)
        session["calls"].append(_train(group, small, seed))
        if not works(session):
            return session
        pids = [member.pid for member in group.members]
        _put(group, job, seed)
        base = group.reset_peaks()

        def grown(rank: int) -> int | None:
            used, before = process_memory.read(pids[rank]), base[rank]
            return None if used is None or before is None else used - before

        with Clock(job.workers, job.micro_batches, grown) as clock:
            _put(group, job, seed, clock.port)
            session["calls"].append(_call_stage(group, job, seed, CLOCK_HANG))
        session["operations"] = clock.operations
        return session


def observe_kill(module: Path, case: Case, seed: int) -> Observation:
    """Kills the second of three processes of a pipeline while it trains."""
    job = Job(*case["killed"])
    with ProcessGroup(module, NAME, job.workers, timeout=case["timeout"]) as group:
        session = _open(group)
        if all_returned(from_data(session["opened"])):
            session["calls"].append(_train(group, job, seed))  # without a fault, it works
        if works(session):
            _put(group, job, seed)
            survivors = [rank for rank in range(job.workers) if rank != BROKEN]
            session["broken"] = _break(
                group, "train_stage", job.sent[BROKEN] // 2, signal.SIGKILL, survivors
            )
        return session


def observe_block(module: Path, case: Any, seed: int) -> Observation:
    """Makes some steps of a block in two processes, up to the first failure.

    Args:
      case: the inputs, hidden outputs and outputs of the block, and the size of each batch.
    """
    widths, sizes = case
    with ProcessGroup(module, NAME, 2) as group:
        session = _open(group)
        if not _create(group, session, widths, seed):
            return session
        alone, sent = Block(make_block(widths, seed)), []
        others = {name: Block(alone.weights) for name in UPDATES}
        for turn, size in enumerate(sizes):
            before = group.sent
            arrays = make_pass(widths, size, seed, turn)
            for method, array in zip(("forward", "backward"), arrays, strict=True):
                mistakes = {name: getattr(other, method)(array) for name, other in others.items()}
                mistakes = mistakes if turn else {}
                if not _pass(group, session, method, array, alone, others=mistakes):
                    return session
                sent.append(subtract(group.sent, before))
                before = group.sent
            group.put([[np.array(RATE)]] * 2)
            if not _is_right(_call(group, session, "update", widths, size)):
                return session
            alone.update(RATE)
            for name, other in others.items():
                other.update(RATE, UPDATES[name])
            sent.append(subtract(group.sent, before))
        return {**session, "sent": sent, "widths": list(widths), "sizes": list(sizes)}


def observe_halves(module: Path, widths: Sequence[int], seed: int) -> Observation:
    """The memory that each process of a block needs for its part of the weights."""
    with ProcessGroup(module, NAME, 2) as group:
        session = _open(group)
        if not all_returned(from_data(session["opened"])):
            return session
        group.put([()] * 2)
        base = group.reset_peaks()
        if _create(group, session, widths, seed):
            group.put([()] * 2)
            pairs = zip(group.reset_peaks(), base, strict=True)
            session["held"] = [
                None if now is None or before is None else now - before for now, before in pairs
            ]
            session["size"] = sum(one.nbytes for one in make_block(widths, seed))
        return session


def observe_freeze(module: Path, case: Case, seed: int) -> Observation:
    """Freezes one of the two processes of a block during a forward pass."""
    widths, size = case["frozen"]
    with ProcessGroup(module, NAME, 2, timeout=case["timeout"]) as group:
        session = _open(group)
        inputs, alone = make_pass(widths, size, seed, 0)[0], Block(make_block(widths, seed))
        created = _create(group, session, widths, seed)
        if created and _pass(group, session, "forward", inputs, alone):  # without a fault
            more = KIND.itemsize * size * widths[-1] // 2
            session["broken"] = _break(group, "forward", more, signal.SIGSTOP, [1 - BROKEN])
        return session


def _break(
    group: ProcessGroup, method: str, more: int, number: int, survivors: Sequence[int]
) -> Observation:
    """Sends a signal to a process after it has sent some more bytes in a call."""
    assert group.relay
    group.relay.set_trigger(BROKEN, more, lambda: group.members[BROKEN].signal(number))
    seconds = group.timeout + GRACE
    replies = group.call(method, seconds, awaited=survivors, wait_for_all=True)
    return {
        "method": method,
        "ranks": list(survivors),
        "replies": to_data(replies),
        "timeout": group.timeout,
        "triggered": group.relay.is_triggered,
    }


def _open(group: ProcessGroup) -> Observation:
    opened = group.open(HANG)
    return {"workers": len(group.members), "opened": to_data(opened), "calls": []}


def _put(group: ProcessGroup, job: Job, seed: int, port: int = 0) -> None:
    """Sends each process its arguments of `train_stage`."""
    training = make_training(job, seed)
    examples, labels = (np.concatenate(parts) for parts in zip(*training.batches, strict=True))
    settings = np.array([RATE, job.micro_batches, port])
    shared = [settings, np.array(job.sizes), examples, labels]
    group.put([[*shared, weights] for weights in training.weights])


def _train(group: ProcessGroup, job: Job, seed: int) -> Observation:
    _put(group, job, seed)
    return _call_stage(group, job, seed, HANG)


def _call_stage(group: ProcessGroup, job: Job, seed: int, deadline: float) -> Observation:
    """Calls `train_stage` with arguments that the processes already have."""
    before = group.sent
    replies = group.call("train_stage", deadline)
    sent = subtract(group.sent, before)
    found = {**job._asdict(), "method": "train_stage", "replies": to_data(replies)}
    found |= {"sent": sent, "difference": None, "deadline": deadline, "counts": []}
    if all_returned(replies):
        results = group.fetch()
        found["difference"] = find_difference(make_training(job, seed), results)
        found["counts"] = [
            dict(zip(COUNTS, map(int, result), strict=False))
            for result in results
            if not isinstance(result, Reply)
        ]
    return found


def _create(group: ProcessGroup, session: Observation, widths: Sequence[int], seed: int) -> bool:
    if not all_returned(from_data(session["opened"])):
        return False
    group.put([make_block(widths, seed)] * 2)
    return _is_right(_call(group, session, "create_block", widths, 0))


def _call(
    group: ProcessGroup, session: Observation, method: str, widths: Sequence[int], size: int
) -> Observation:
    replies = to_data(group.call(method, HANG))
    call: Observation = {"method": method, "replies": replies, "difference": None}
    call |= {"deadline": HANG, "widths": list(widths), "size": size}
    session["calls"].append(call)
    return call


def _pass(
    group: ProcessGroup,
    session: Observation,
    method: str,
    array: Any,
    alone: Block,
    *,
    others: Mapping[str, Any] | None = None,
) -> bool:
    """Makes one pass of a block, and returns whether it equals that of one process.

    Args:
      others: what mistakes of earlier steps would return.
    """
    group.put([[array]] * 2)
    first, _biases, second, _last_biases = alone.weights
    call = _call(group, session, method, [*first.shape, second.shape[1]], len(array))
    wanted = getattr(alone, method)(array)
    if all_returned(from_data(call["replies"])):
        mistakes = {**_mistakes(method, wanted, alone), **(others or {})}
        call["difference"] = find_block_difference(method, wanted, group.fetch(), mistakes)
    return _is_right(call)


def _mistakes(method: str, wanted: Any, alone: Block) -> dict[str, Any]:
    """What frequent mistakes would return in place of the wanted array."""
    if method == "backward":
        return {"half": wanted / 2, "double": wanted * 2}
    biases = alone.weights[3]
    return {
        "bias": wanted + biases,
        "no bias": wanted - biases,
        "half": wanted / 2,
        "half but bias": (wanted + biases) / 2,
        "double": wanted * 2,
    }


def _is_right(call: Mapping[str, Any]) -> bool:
    """Whether all processes returned the right results, after the right operations."""
    count = len(call.get("sizes", ())) * call.get("micro_batches", 0)
    operations = dict(zip(COUNTS, (count, count, 0, 0), strict=True))
    return is_right(call) and all(counts == operations for counts in call.get("counts", ()))


def _works_without_pauses(session: Mapping[str, Any]) -> bool:
    """Whether a session with a clock works, and its processes wait as the formula says."""
    if not works(session):
        return False
    workers, count = session["workers"], session["calls"][-1]["micro_batches"]
    longest = wanted_share(workers, count) + IDLE_TOLERANCE
    return idle_share(session["operations"], workers) <= longest
