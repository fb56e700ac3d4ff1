"""Interrupts of the cells that a worker runs."""

from __future__ import annotations

import signal
import threading


class Interrupts:
    """Raises KeyboardInterrupt on SIGINT, but only while a cell runs.

    Python runs the handler between any two instructions of the main thread. While it sends a
    message, `hold` delays the exception until `release`, so that no message is sent in part.
    """

    def __init__(self) -> None:
        self._is_raised = False
        self._depth = 0
        self._is_pending = False

    def begin(self) -> None:
        """Raises interrupts from now on, also if a cell has replaced the handler."""
        signal.signal(signal.SIGINT, self._handle)
        self._depth, self._is_pending, self._is_raised = 0, False, True

    def end(self) -> None:
        """Ignores interrupts from now on."""
        self._is_raised = False

    def hold(self) -> None:
        """Delays interrupts of the main thread until `release`. Calls may be nested."""
        if threading.current_thread() is threading.main_thread():
            self._depth += 1

    def release(self) -> None:
        """Raises an interrupt that has been delayed."""
        if threading.current_thread() is threading.main_thread():
            self._depth -= 1
            if self._is_pending and self._is_raised and self._depth <= 0:
                self._is_pending = False
                raise KeyboardInterrupt

    def _handle(self, *_: object) -> None:
        if self._depth > 0:
            self._is_pending = True
        elif self._is_raised:
            raise KeyboardInterrupt
