"""Records the interrupts of the kernel while the notebook waits for its workers.

A KeyboardInterrupt could leave a message half received. It is therefore raised only when all
workers have reacted.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class InterruptRecorder:
    """Counts the interrupts (SIGINT) inside a `with` block instead of raising them.

    Only the main thread can be interrupted. In another thread, this does nothing.

    Attributes:
      count: the number of interrupts.
    """

    def __init__(self) -> None:
        self.count = 0
        self._previous: object = None

    def __enter__(self) -> InterruptRecorder:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._record)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)  # type: ignore[arg-type]

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ends the block at an interrupt, which is counted, too."""
        try:
            if self._previous is not None:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            yield
        except KeyboardInterrupt:
            self.count += 1
        finally:
            if self._previous is not None:
                signal.signal(signal.SIGINT, self._record)

    def _record(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
