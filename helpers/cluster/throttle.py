"""Pauses a process, or slows it down."""

from __future__ import annotations

import signal
import threading
import time

from helpers.cluster.processes import TaskProcess

RUN_SLICE_SECONDS = 0.04  # resuming work costs time, so shorter slices run slower than their share
MAX_STOP_SECONDS = 0.5  # so that heartbeats arrive in time


class Throttle:
    """Pauses a process, or slows it down by pausing it many times a second.

    SIGSTOP stops all its threads and child processes.
    """

    def __init__(self, process: TaskProcess) -> None:
        self._process = process
        self._factor = 1.0
        self._frozen = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def set(self, *, frozen: bool | None = None, factor: float | None = None) -> None:
        """Pauses or resumes the process, or sets its speed to 1/`factor`."""
        self._frozen = self._frozen if frozen is None else frozen
        self._factor = self._factor if factor is None else factor
        self.end()
        self._process.signal(signal.SIGSTOP if self._frozen else signal.SIGCONT)
        if self._factor > 1 and not self._frozen:
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._slow, daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Ends the thread that slows the process down."""
        self._over.set()
        if self._thread:
            self._thread.join()

    def _slow(self) -> None:
        share = self._factor - 1  # ratio of stops to slices
        while not self._over.is_set() and self._process.is_running:
            began = time.monotonic()
            self._process.signal(signal.SIGCONT)
            self._over.wait(min(RUN_SLICE_SECONDS, MAX_STOP_SECONDS / share))
            self._process.signal(signal.SIGSTOP)
            self._over.wait(min(share * (time.monotonic() - began), MAX_STOP_SECONDS))
