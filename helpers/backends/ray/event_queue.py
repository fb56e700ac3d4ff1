"""The queue that passes the events of a run on Ray to the notebook."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from helpers.cluster.liveness import FailureCause
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.protocol.events import Event, EventType


class EventQueue:
    """An actor on the notebook's host, which queues the events of workers' supervisors."""

    def __init__(self) -> None:
        self._mail: list[Event] = []
        self._came = asyncio.Event()
        self._attempt = 0
        self._causes: list[FailureCause] = []
        self._aborted = asyncio.Event()
        self._supervised: set[str] = set()  # the tasks whose supervisors answer requests
        self._requests = asyncio.Condition()
        self._request = 0  # the number of the last request for stacks
        self._before_kill = False
        self._answers: dict[str, Stacks] = {}  # to the last request, by task
        self._collecting = asyncio.Lock()
        self._stacks = Stacks()  # collected before the imminent failure
        self._size_request = 0  # the number of the last request for a size
        self._size: int | None = None  # the answer to it
        self._sized = asyncio.Event()
        self._has_ended = False

    async def put(self, event: Event) -> None:
        """Adds an event."""
        self._mail.append(event)
        self._came.set()

    async def take(self, seconds: float) -> list[Event]:
        """Returns the events in order, and waits up to `seconds` for the first one."""
        try:
            await asyncio.wait_for(self._came.wait(), seconds)
        except asyncio.TimeoutError:
            return []
        mail, self._mail = self._mail, []
        self._came.clear()
        return mail

    async def attempt(self) -> int:
        """The number of failed attempts."""
        return self._attempt

    async def report_slots(self, slots: int, request: int | None = None) -> None:
        """Reports how many workers Ray has resources for.

        Args:
          request: the number of the request for a size, if Ray waits for one.
        """
        about = {"slots": slots, "request": request}
        await self.put({"event": EventType.SLOTS_COUNTED.value, "time": time.time(), **about})

    async def request_size(self, slots: int, seconds: float) -> int | None:
        """Requests the number of workers of the next attempt from the notebook.

        Args:
          slots: how many workers Ray has resources for.
          seconds: how long to wait.

        Returns: the number, 0 if the run has ended, or None if there is no answer yet.
        """
        self._size_request, self._size = self._size_request + 1, None
        self._sized.clear()
        await self.report_slots(slots, self._size_request)
        if self._has_ended:
            return 0
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._sized.wait(), seconds)
        return self._size

    async def set_size(self, request: int, workers: int) -> None:
        """Answers a request for a size, unless it is too late."""
        if request == self._size_request:
            self._size = workers
            self._sized.set()

    async def end(self) -> None:
        """Ends the run, so that Ray does not wait for another size."""
        self._has_ended, self._size = True, 0
        self._sized.set()

    async def wait_stack_request(
        self, attempt: int, task: str, last: int | None
    ) -> tuple[int, bool] | None:
        """Waits for the next request for the stacks of a task.

        Args:
          last: the number of the last request that the supervisor answered, or None.

        Returns: the number of the request, and whether all processes are killed next. None if the
          attempt has failed.
        """
        async with self._requests:
            if attempt == self._attempt:
                self._supervised.add(task)
            answered = self._request if last is None else last
            await self._requests.wait_for(
                lambda: attempt != self._attempt or self._request > answered
            )
            return (self._request, self._before_kill) if attempt == self._attempt else None

    async def put_stacks(self, request: int, task: str, stacks: Stacks) -> None:
        """Answers a request, unless it is too late."""
        async with self._requests:
            if request == self._request:
                self._answers[task] = stacks
                self._requests.notify_all()

    async def collect_stacks(
        self, attempt: int, seconds: float, *, before_kill: bool = False
    ) -> dict[str, Stacks]:
        """Collects the stacks of all tasks whose supervisors have started.

        Args:
          seconds: how long to wait for answers.
          before_kill: whether all processes are killed next.

        Returns: the answer of each supervisor, by its task. It is empty if the process has ended.
        """
        async with self._collecting, self._requests:
            if attempt != self._attempt:
                return {}
            self._request, self._before_kill = self._request + 1, before_kill
            self._answers = {}
            tasks = sorted(self._supervised, key=_number)
            self._requests.notify_all()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(
                    self._requests.wait_for(lambda: self._answers.keys() >= {*tasks}),
                    seconds,
                )
            lost = {task: Stacks({task: TaskStack(task, WaitsFor.UNKNOWN)}) for task in tasks}
            return lost | self._answers

    async def report_cause(self, attempt: int, cause: FailureCause, stacks: Stacks) -> None:
        """Records the cause of an imminent failure. The first cause counts.

        Args:
          stacks: the stacks collected before the failure, or empty.
        """
        if attempt == self._attempt:
            self._causes.append(cause)
            self._stacks = self._stacks or stacks

    async def abort(self, attempt: int, cause: FailureCause) -> None:
        """Ends the workers of an attempt, although none of them has failed."""
        if attempt == self._attempt:
            self._causes.insert(0, cause)
            self._aborted.set()

    async def wait_aborted(self, attempt: int) -> None:
        """Waits until an attempt was aborted, or has failed."""
        if attempt == self._attempt:
            await self._aborted.wait()

    async def fail(self, lost: list[int]) -> None:
        """Ends an attempt in which Ray lost the workers of these ranks."""
        about = {"attempt": self._attempt, "lost": lost, "raised": self._causes}
        about |= {"stacks": self._stacks}
        async with self._requests:
            self._attempt, self._causes = self._attempt + 1, []
            self._supervised, self._stacks = set(), Stacks()
            self._requests.notify_all()  # so that no supervisor waits for a request any more
        self._aborted.set()
        self._aborted = asyncio.Event()
        await self.put({"event": EventType.ATTEMPT_FAILED.value, "time": time.time(), **about})


def _number(task: str) -> int:
    return int(task.rpartition(" ")[2])
