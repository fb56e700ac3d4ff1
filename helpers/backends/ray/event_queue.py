"""The queue that passes the events of a run on Ray to the notebook."""

from __future__ import annotations

import asyncio
import time

from helpers.cluster.liveness import FailureCause
from helpers.protocol.events import Event, EventType


class EventQueue:
    """An actor on the notebook's host, which queues the events of workers' supervisors."""

    def __init__(self) -> None:
        self._mail: list[Event] = []
        self._came = asyncio.Event()
        self._attempt = 0
        self._causes: list[FailureCause] = []
        self._aborted = asyncio.Event()

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

    async def report_cause(self, attempt: int, cause: FailureCause) -> None:
        """Records the cause of an imminent failure. The first cause counts."""
        if attempt == self._attempt:
            self._causes.append(cause)

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
        self._attempt, self._causes = self._attempt + 1, []
        self._aborted.set()
        self._aborted = asyncio.Event()
        await self.put({"event": EventType.ATTEMPT_FAILED.value, "time": time.time(), **about})
