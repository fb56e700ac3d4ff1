"""Project 5, the runs: what the student's module does in each situation, as plain data.

The runs happen in the student's kernel. `parameter_server` judges them, in grading in another
process.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from helpers.course.projects.observations import (
    from_data,
    raise_if_empty,
    subtract,
    to_data,
    until_failure,
)
from helpers.course.projects.parameter_server_loops import (
    METHODS,
    QUIET,
    SERVER,
    Loops,
    has_worked,
    open_loops,
)
from helpers.course.projects.parameter_server_updates import Descent, Updates
from helpers.course.projects.printed import keep_output

Case = Mapping[str, Any]
SMALL, LARGE = 1000, 250_000  # parameters
HUGE = 1_000_000  # 8 MB, more than the buffers of a connection hold
BEFORE, AFTER = 1, 5  # the steps before one worker is killed, and in total


@keep_output
def run(module: Path, case: Case) -> dict[str, Any]:
    """Runs the module in every situation. If one worker fails, the others are omitted."""
    seed = case["seed"]
    single = observe_concurrent(module, (1, 4, "float64"), SMALL, seed)
    raise_if_empty(module, from_data([*single["opened"], *_failed(single)]))
    if not (has_worked(single) and _is_right(single)):
        return {"single": [single]}
    observers: dict[str, Callable[..., dict[str, Any]]] = {
        "concurrent": lambda group: observe_concurrent(module, group, LARGE, seed),
        "slow_pull": lambda workers: observe_frozen(module, "pull", workers, seed),
        "slow_push": lambda workers: observe_frozen(module, "push", workers, seed),
        "stragglers": lambda group: observe_straggler(module, group, case["rounds"], seed),
        "synchronous": lambda group: observe_synchronous(module, group, seed),
        "dead_worker": lambda group: observe_dead_worker(module, group, seed),
        "dead_server": lambda workers: observe_dead_server(module, workers, seed),
    }
    stages = {
        name: until_failure(observe, case[name], has_worked) for name, observe in observers.items()
    }
    return {"single": [single], **stages}


def observe_concurrent(
    module: Path, group: tuple[int, int, str], length: int, seed: int
) -> dict[str, Any]:
    """Half of the workers push while the others pull, without a limit of staleness.

    Args:
      group: the numbers of workers and steps, and the type of the parameters.
    """
    workers, steps, kind = group
    updates = Updates(workers, steps, length, kind, seed)
    with open_loops(module, updates, bound=steps) as loops:
        if not loops.works:
            return loops.data()
        before = loops.group.sent
        for turn in range(1, 2 * steps + 2):
            # Odd ranks are one operation ahead.
            targets = {rank: min(turn - (rank + 1) % 2, 2 * steps) for rank in loops.workers}
            if not loops.must_advance(targets):
                break
        final = _close(loops, loops.workers)  # from now on, the relay has all pushes
        sent = subtract(loops.group.sent, before)
        return loops.data(
            steps=steps, kind=kind, sent=sent, size=updates.initial.nbytes, final=final
        )


def observe_frozen(module: Path, method: str, workers: int, seed: int) -> dict[str, Any]:
    """Worker 1 is frozen during its first pull or push, while others push. Then it continues."""
    steps = 3
    updates = Updates(workers, steps, 2 * HUGE, "float64", seed)
    with open_loops(module, updates, bound=steps) as loops:
        operation, sender = METHODS.index(method), (SERVER, 1)[METHODS.index(method)]
        if not (loops.works and loops.must_advance({1: operation})):
            return loops.data()
        relay, frozen = loops.group.relay, loops.group.members[1]
        assert relay
        # A part of the array. The rest arrives after the pause.
        relay.set_trigger(sender, HUGE, lambda: frozen.signal(signal.SIGSTOP), final=False)
        loops.advance({1: operation + 1}, QUIET)
        # The second pull of the others shows that their push has been added.
        loops.advance(dict.fromkeys(range(2, workers + 1), 3), QUIET)
        frozen.signal(signal.SIGCONT)
        loops.must_advance({1: operation + 1})
        loops.must_advance(dict.fromkeys(loops.workers, 2 * steps))
        return loops.data(steps=steps, final=_close(loops, loops.workers))


def observe_straggler(
    module: Path, group: tuple[int, int, int], rounds: int, seed: int
) -> dict[str, Any]:
    """One worker waits at a gate, where it passes one step after the other.

    Args:
      group: the number of workers, the bound, and the rank of the slow worker.
      rounds: the number of steps of the slow worker.
    """
    workers, bound, slow = group
    updates = Updates(workers, rounds + bound + 2, SMALL, "float64", seed)
    found: list[dict[str, Any]] = []
    with open_loops(module, updates, bound) as loops:
        fast = [rank for rank in loops.workers if rank != slow]
        for turn in range(rounds):
            if not loops.works:
                break
            targets = dict.fromkeys(fast, 2 * (turn + bound + 1))
            reached = loops.advance(targets)
            if reached:
                # The next pull of each one must wait. If it returns, its content is judged.
                loops.advance({rank: target + 1 for rank, target in targets.items()}, QUIET)
            steps = {rank: loops.steps(rank) for rank in fast}
            found.append({"slow": turn, "steps": [steps.get(rank, -1) for rank in loops.workers]})
            if not reached or not loops.must_advance({slow: 2 * (turn + 1)}):
                break
        return loops.data(slow=slow, rounds=found)


def observe_synchronous(module: Path, group: tuple[int, int, str], seed: int) -> dict[str, Any]:
    """Workers train with a bound of 0, and arrive in each step in another order.

    Args:
      group: the numbers of workers and steps, and the type of the parameters.
    """
    workers, steps, kind = group
    descent = Descent(workers, steps, SMALL, kind, seed)
    generator = np.random.default_rng([seed, workers])
    with open_loops(module, descent, bound=0) as loops:
        for step in range(steps if loops.works else 0):
            for rank in map(int, 1 + generator.permutation(workers)):
                if not loops.must_advance({rank: 2 * step + 2}):
                    return loops.data()
                if step + 1 < steps:
                    loops.start([rank])  # its next pull, which waits for the others
        final = _close(loops, loops.workers, steps) if loops.works else None
        return loops.data(final=final)


def observe_dead_worker(module: Path, group: tuple[int, int, int], seed: int) -> dict[str, Any]:
    """The slow worker is killed during a push, while the others wait for it.

    Args:
      group: the number of workers, the bound, and the rank that is killed.
    """
    workers, bound, victim = group
    updates = Updates(workers, AFTER + bound, HUGE, "float64", seed)
    with open_loops(module, updates, bound) as loops:
        fast = [rank for rank in loops.workers if rank != victim]
        start = dict.fromkeys(loops.workers, 2 * BEFORE)
        waiting = dict.fromkeys(fast, 2 * (BEFORE + bound + 1))
        if not (
            loops.works
            and loops.must_advance(start)
            and loops.must_advance({victim: 2 * BEFORE + 1})
        ):
            return loops.data()
        loops.advance({rank: target + 1 for rank, target in waiting.items()}, QUIET)
        relay, member = loops.group.relay, loops.group.members[victim]
        assert relay
        relay.set_trigger(victim, HUGE, lambda: member.signal(signal.SIGKILL))  # an eighth of it
        loops.start([victim])
        loops.wait(victim)
        if relay.is_triggered:
            loops.must_advance(dict.fromkeys(fast, 2 * (AFTER + bound)))
        final = _close(loops, fast) if loops.works else None
        return loops.data(victim=victim, triggered=relay.is_triggered, final=final)


def observe_dead_server(module: Path, workers: int, seed: int) -> dict[str, Any]:
    """The server is killed while all workers but the last wait in a pull, or before it."""
    updates = Updates(workers, 2, SMALL, "float64", seed)
    with open_loops(module, updates, bound=0) as loops:
        waiting = list(loops.workers)[:-1]
        if not (loops.works and loops.must_advance(dict.fromkeys(waiting, 2))):
            return loops.data()
        loops.advance(dict.fromkeys(waiting, 3), QUIET)
        loops.running.discard(SERVER)
        loops.group.members[SERVER].signal(signal.SIGKILL)
        replies = [loops.next_pull(rank) for rank in waiting]
        return loops.data(replies=to_data(replies))


def _close(loops: Loops, ranks: Iterable[int], step: int = 0) -> dict[str, Any] | None:
    """The final parameters, which the server returns after all workers have closed."""
    if loops.works:
        loops.close(ranks)
    return loops.work.read(SERVER, step, loops.fetch(SERVER)) if loops.works else None


def _is_right(session: Mapping[str, Any]) -> bool:
    """Whether a session returned the right parameters."""
    return not any(found["problem"] for found in (*session["pulls"], session["final"]))


def _failed(session: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [session["failure"]["reply"]] if session["failure"] else []
