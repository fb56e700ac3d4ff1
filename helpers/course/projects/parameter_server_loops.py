"""Project 5: the training loops of all workers, whose steps the kernel starts one by one.

So the kernel decides which worker is slow, and nothing that is judged depends on seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from helpers.course.projects.group import HANG, LATE, RETURNED, ProcessGroup, Reply
from helpers.course.projects.observations import all_returned, from_data, to_data

NAME = "parameter_server"
QUIET = 1.0  # seconds in which a call that must wait could return by mistake
CAUSE = 0.5  # seconds in which the server's error can arrive after a worker's
SERVER = 0
METHODS = "pull", "push"


class Work(Protocol):
    """What the workers compute: `Updates` or `Descent`."""

    workers: int
    initial: Any

    def update(self, rank: int, step: int, pulled: Any) -> Any:
        """The array that a worker pushes."""

    def read(self, rank: int, step: int, found: Any) -> dict[str, Any]:
        """What a pull returned, as data."""


class Failure(NamedTuple):
    """A process that did not return.

    Attributes:
      step: the number of the worker's steps before that, or -1 for the server.
      reply: its reply, as data.
      printed: the last lines that the server printed, such as the traceback of a thread.
    """

    rank: int
    method: str
    step: int
    reply: dict[str, Any]
    printed: str


class Loops:
    """The workers of a group. In turns, each one pulls and pushes, which are its operations.

    Attributes:
      done: the number of operations that each process has completed.
      pulls: what each pull returned, in the order in which they ended.
      opened: how the start of each process ended.
      failure: the first process that did not return.
      changed: whether a push changed its argument.
    """

    def __init__(self, group: ProcessGroup, work: Work, bound: int) -> None:
        self.group, self.work, self.bound = group, work, bound
        self.opened: list[Reply] = []
        self.workers = range(1, work.workers + 1)
        self.done = [0] * (work.workers + 1)
        self.pulls: list[dict[str, Any]] = []
        self.failure: Failure | None = None
        self.changed = False
        self.running = {SERVER}
        self._methods = {SERVER: "serve"}
        self._pulled: dict[int, Any] = {}

    @property
    def works(self) -> bool:
        """Whether all processes have started, and no call has failed."""
        return not self.failure and all_returned(self.opened)

    def data(self, **more: Any) -> dict[str, Any]:
        """What has happened so far, as data of a session."""
        return {
            "workers": self.work.workers,
            "bound": self.bound,
            "opened": to_data(self.opened),
            "failure": self.failure._asdict() if self.failure else None,
            "pulls": self.pulls,
            "changed": self.changed,
            **more,
        }

    def steps(self, rank: int) -> int:
        """The number of steps that a worker has completed."""
        return self.done[rank] // 2

    def advance(self, targets: Mapping[int, int], seconds: float = HANG) -> bool:
        """Runs these workers until each one has completed so many operations in total.

        Returns:
          Whether they have. Otherwise, `failure` is set, or no operation ended for `seconds`.
        """
        while behind := [rank for rank, target in targets.items() if self.done[rank] < target]:
            self.start(rank for rank in behind if rank not in self.running)
            replies = self.group.wait_for_any(self.running, seconds)
            for rank, reply in replies.items():
                self._finish(rank, reply)
            if self.failure or not replies:
                return False
        return True

    def must_advance(self, targets: Mapping[int, int]) -> bool:
        """The same, but a worker that waits for longer than `HANG` has failed."""
        if self.advance(targets):
            return True
        behind = [rank for rank, target in targets.items() if self.done[rank] < target]
        if not self.failure and behind:
            self._fail(behind[0], Reply(LATE))
        return False

    def start(self, ranks: Iterable[int]) -> None:
        """Starts the next operation of these workers at the same time."""
        ranks = list(ranks)
        for rank in ranks:
            self._methods[rank] = METHODS[self.done[rank] % 2]
        self.group.put([self._arguments(rank) for rank in ranks], ranks=ranks)
        for rank in ranks:
            self.group.start(self._methods[rank], [rank])
        self.running.update(ranks)

    def close(self, ranks: Iterable[int]) -> None:
        """Closes these workers, and waits until they and the server have returned."""
        ranks = list(ranks)
        self.group.put([[]] * len(ranks), ranks=ranks)
        self.group.start("close", ranks)
        self._methods |= dict.fromkeys(ranks, "close")
        self.running.update(ranks)
        waiting = {SERVER, *ranks}
        while waiting and not self.failure:
            replies = self.group.wait_for_any(self.running, HANG)
            for rank, reply in replies.items():
                self.running.discard(rank)
                waiting.discard(rank)
                if reply.kind != RETURNED:
                    self._fail(rank, reply)
            if not replies:
                self._fail(max(waiting), Reply(LATE))

    def wait(self, rank: int) -> Reply:
        """How the running operation of one process ends, even if it fails."""
        self.running.discard(rank)
        return self.group.wait_for_any([rank], HANG).get(rank, Reply(LATE))

    def next_pull(self, rank: int) -> Reply:
        """How the running or the next pull of a worker ends, or the push before it if it fails."""
        if rank not in self.running:
            self.start([rank])
        reply = self.wait(rank)
        if self._methods[rank] == "push" and reply.kind == RETURNED:
            self.done[rank] += 1
            self.start([rank])
            reply = self.wait(rank)
        return reply

    def fetch(self, rank: int) -> Any:
        """The last result of a process."""
        return self.group.fetch(HANG, [rank])[0]

    def _arguments(self, rank: int) -> list[Any]:
        if self._methods[rank] == "pull":
            return []
        return [self.work.update(rank, self.steps(rank), self._pulled[rank])]

    def _finish(self, rank: int, reply: Reply) -> None:
        self.running.discard(rank)
        if reply.kind != RETURNED or rank == SERVER:
            self._fail(rank, reply)
            return
        self.changed |= reply.changed
        if self._methods[rank] == "pull":
            self._pulled[rank] = self.fetch(rank)
            step = self.steps(rank)
            read = self.work.read(rank, step, self._pulled[rank])
            self.pulls.append({"by": rank, "at": step, **read})
        self.done[rank] += 1

    def _fail(self, rank: int, reply: Reply) -> None:
        """Records a failure, for which the server's error is probably the reason."""
        if self.failure:
            return
        if rank != SERVER and SERVER in self.running and reply.kind != LATE:
            cause = self.group.wait_for_any([SERVER], CAUSE).get(SERVER)
            if cause and cause.kind != RETURNED:
                rank, reply = SERVER, cause
        step = -1 if rank == SERVER else self.steps(rank)
        printed = self.group.members[SERVER].log_tail()
        self.failure = Failure(rank, self._methods[rank], step, reply._asdict(), printed)


@contextmanager
def open_loops(module: Path, work: Work, bound: int) -> Iterator[Loops]:
    """Starts a group, its server, and then its workers."""
    with ProcessGroup(module, NAME, work.workers + 1) as group:
        loops = Loops(group, work, bound)
        loops.opened = group.open(HANG, [SERVER])
        if loops.works:
            group.put([[work.initial, np.array(bound)]], ranks=[SERVER])
            group.start("serve", [SERVER])
            loops.opened += group.open(HANG, loops.workers)
        yield loops


def has_worked(session: Mapping[str, Any]) -> bool:
    """Whether all processes of a session started, and all calls returned."""
    return not session["failure"] and all_returned(from_data(session["opened"]))
