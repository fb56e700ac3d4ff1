"""Project 4, the clock: each operation of a pipeline takes a stated time, on any machine.

A process sends a byte before each operation of its layer, and waits for an answer. The clock ends
the next operation when every other process computes too, or waits. So the order of all operations,
and with it the idle time of each process, depends on the schedule and not on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from helpers.course.projects.data_parallel_gate import POLL, Gate
from helpers.course.projects.model_parallel_network import BACKWARD, FORWARD

DURATIONS = (1, 2)  # of a forward and a backward pass, as for dense layers
WAIT = 2.0  # seconds until it is certain that a process does not start what it could start
MAX_WAITS = 5  # more than any schedule without unnecessary pauses needs
SHORT_WAIT = 0.1  # seconds, after that many waits
IDLE_TOLERANCE = 0.06  # one late start on a busy machine. Each wrong schedule of the tests has more


class Operation(NamedTuple):
    """A forward or backward pass of one micro-batch in one process.

    Attributes:
      kind: FORWARD or BACKWARD.
      start: in units of the clock.
      in_flight: the micro-batches of this process, including this one, whose forward pass has
        started and whose backward pass has not ended.
      memory: the bytes that the process needs when the operation starts, or None if unknown.
    """

    rank: int
    kind: int
    start: int
    in_flight: int
    memory: int | None = None

    @property
    def end(self) -> int:
        """In units of the clock."""
        return self.start + DURATIONS[self.kind]


class Clock(Gate):
    """Ends the operations of a pipeline in the order of their ends.

        with Clock(2, 4) as clock:
            ...  # processes that connect to clock.port
        clock.operations

    A process that computes nothing waits for data if all data of the other processes have been
    used. Otherwise it gets WAIT seconds for its next operation.

    Args:
      workers: the number of processes, one for each layer.
      micro_batches: of the batch.
      read_memory: returns the memory of a process.
    """

    def __init__(
        self, workers: int, micro_batches: int, read_memory: Callable[[int], int | None]
    ) -> None:
        super().__init__(workers, lambda gate: self._conduct())
        self.operations: list[Operation] = []  # in the order of their starts
        self._micro_batches, self._read_memory = micro_batches, read_memory
        self._now = self._waits = 0
        self._running: dict[int, Operation] = {}
        self._started = [[0, 0] for _rank in range(workers)]  # of each kind
        self._ended = [[0, 0] for _rank in range(workers)]
        self._closed: set[int] = set()
        self._since: dict[int, float] = {}  # when a process got data or time that it may use

    def __enter__(self) -> Clock:
        super().__enter__()
        return self

    def _conduct(self) -> None:
        while len(self._ranks) < self._workers:
            self._poll(POLL)
        self._since = dict.fromkeys(range(self._workers), time.monotonic())
        while len(self._closed) < self._workers:
            self._settle()
            if not self._running:  # a deadlock, or the processes end
                self._poll(POLL)
                continue
            self._now = min(operation.end for operation in self._running.values())
            for operation in list(self._running.values()):
                if operation.end == self._now:
                    self._end(operation)

    def _settle(self) -> None:
        """Waits until every process computes, or waits for data."""
        self._poll(0)
        while waiting := [rank for rank in range(self._workers) if self._may_start(rank)]:
            limit = WAIT if self._waits < MAX_WAITS else SHORT_WAIT
            left = max(self._since[rank] for rank in waiting) + limit - time.monotonic()
            self._poll(min(max(left, 0), POLL))
            if left <= 0:
                self._waits += 1
                for rank in waiting:
                    del self._since[rank]

    def _may_start(self, rank: int) -> bool:
        idle = rank not in self._running and rank not in self._closed
        return idle and rank in self._since and any(self._available(rank))

    def _available(self, rank: int) -> tuple[bool, bool]:
        """Whether the data for another forward and another backward pass exist."""
        forward, backward = self._started[rank]
        last = rank == self._workers - 1
        return (
            forward < (self._ended[rank - 1][FORWARD] if rank else self._micro_batches),
            backward < self._ended[rank][FORWARD]
            and (last or backward < self._ended[rank + 1][BACKWARD]),
        )

    def _end(self, operation: Operation) -> None:
        """Lets a process continue, which may then send its result to another one."""
        rank = operation.rank
        del self._running[rank]
        self._ended[rank][operation.kind] += 1
        other = rank + 1 if operation.kind == FORWARD else rank - 1
        for changed in {rank, other} & set(range(self._workers)):
            self._since[changed] = time.monotonic()
        with suppress(OSError):  # it has ended
            next(end for end, owner in self._ranks.items() if owner == rank).sendall(b".")

    def _read(self, source: Any) -> None:
        try:
            super()._read(source)
        except (EOFError, OSError):
            self._selector.unregister(source)
            self._closed |= {self._ranks[source]} if source in self._ranks else set()
            return
        for rank, kind in self._stopped.items():
            self._started[rank][kind] += 1
            in_flight = self._started[rank][FORWARD] - self._ended[rank][BACKWARD]
            memory = self._read_memory(rank)
            self._running[rank] = Operation(rank, kind, self._now, in_flight, memory)
            self.operations.append(self._running[rank])
        self._stopped.clear()


def idle_share(operations: Iterable[Operation], workers: int) -> float:
    """The share of the time from the first start to the last end in which processes wait."""
    found = list(operations)
    busy = sum(operation.end - operation.start for operation in found)
    return 1 - busy / (workers * max(operation.end for operation in found))


def wanted_share(workers: int, micro_batches: int) -> float:
    """The bubble of a pipeline: (p-1)/(m+p-1).

    Source: Huang et al., "GPipe", 2019, section 2.3, https://arxiv.org/abs/1811.06965. It is also
    that of 1F1B: Narayanan et al., "Efficient large-scale language model training on GPU clusters
    using Megatron-LM", 2021, section 2.2, https://arxiv.org/abs/2104.04473.
    """
    return (workers - 1) / (micro_batches + workers - 1)
