"""The algorithm of ring all-reduce, traced part by part."""

from __future__ import annotations

from typing import NamedTuple

Terms = tuple[int, ...]
"""The workers whose values are in a sum, each as often as it was added."""
State = tuple[tuple[Terms, ...], ...]
"""The sum in each part of each worker."""


class Transfer(NamedTuple):
    """The transfer of a part from a worker to its neighbor."""

    sender: int
    receiver: int
    part: int


def rounds(workers: int) -> int:
    """The number of rounds: each worker sends one of N parts in each of 2(N-1) rounds."""
    return 2 * (workers - 1)


def transfers(workers: int, round: int) -> list[Transfer]:
    """The transfers of a round, from 0. Each worker sends the part that it received last."""
    return [Transfer(k, (k + 1) % workers, (k - round) % workers) for k in range(workers)]


def state_after(workers: int, round: int) -> State:
    """The parts that every worker holds after a number of rounds.

    In the first N-1 rounds, the reduce-scatter, an arriving part is added to the worker's own part.
    In the other rounds, the all-gather, it replaces that part. Source: Patarasuk and Yuan,
    "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009,
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
