"""The algorithm of ring all-reduce, followed part by part."""

from __future__ import annotations

from typing import NamedTuple

Terms = tuple[int, ...]
"""The workers whose values are in a sum, each as often as it was added."""
State = tuple[tuple[Terms, ...], ...]
"""For each worker, the sum that each of its parts holds."""


class Transfer(NamedTuple):
    """A part on its way from a worker to its neighbour."""

    sender: int
    receiver: int
    part: int


def rounds(workers: int) -> int:
    """How many rounds it takes: each worker sends one part of N in each of 2(N-1)."""
    return 2 * (workers - 1)


def transfers(workers: int, round: int) -> list[Transfer]:
    """What travels in a round, counted from 0: each worker passes on what it received before."""
    return [Transfer(k, (k + 1) % workers, (k - round) % workers) for k in range(workers)]


def state_after(workers: int, round: int) -> State:
    """What every worker holds after so many rounds.

    In the first N-1 rounds, the reduce-scatter, a part that arrives is added to the own one; in
    the others, the all-gather, it takes its place: Patarasuk and Yuan, "Bandwidth optimal
    all-reduce algorithms for clusters of workstations", 2009,
    https://doi.org/10.1016/j.jpdc.2008.09.002.
    """
    held: list[list[Terms]] = [[(worker,)] * workers for worker in range(workers)]
    for number in range(round):
        arriving = [
            (to, part, held[sender][part]) for sender, to, part in transfers(workers, number)
        ]
        for to, part, terms in arriving:
            held[to][part] = held[to][part] + terms if number < workers - 1 else terms
    return tuple(map(tuple, held))
