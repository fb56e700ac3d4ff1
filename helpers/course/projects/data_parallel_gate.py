"""Project 2, the gate: the kernel stops the backward passes of all processes before each layer.

Their order with other events is then certain, without a clock. Each process connects to the gate,
sends its rank, and then sends the number of a layer and waits for one byte as an answer.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from helpers.course.projects.relay import listening_socket

POLL, READ_TIMEOUT = 0.05, 5.0  # seconds


class Gate:
    """Runs a script in a thread. It waits until all processes have stopped, and lets them continue.

    def script(gate):
        while not gate.wait_for_all(seconds=5):
            gate.open()

    with Gate(2, script) as gate:
        ...  # processes that connect to gate.port

    Args:
      workers: the number of processes.
      script: it ends when a process closes its connection, or when the `with` block is left.
    """

    def __init__(self, workers: int, script: Callable[[Gate], None]) -> None:
        self._workers = workers
        self._script = script
        self._listener = listening_socket()
        self.port = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._ends: list[socket.socket] = []
        self._ranks: dict[socket.socket, int] = {}
        self._stopped: dict[int, int] = {}  # the layer before which each process has stopped
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Gate:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._closing.set()
        self._thread.join()

    def wait_for_all(self, seconds: float) -> list[int]:
        """Waits until all processes have stopped, and returns the ranks that have not in time.

        Raises:
          EOFError, OSError: a process has closed its connection, or the `with` block was left.
        """
        deadline = time.monotonic() + seconds
        while len(self._stopped) < self._workers and time.monotonic() < deadline:
            self._poll(POLL)
        return [rank for rank in range(self._workers) if rank not in self._stopped]

    @property
    def layer(self) -> int:
        """The layer before which processes have stopped, or the number of layers at the start."""
        return max(self._stopped.values())

    def open(self) -> None:
        """Lets all processes continue to their next layer."""
        self._stopped.clear()
        for end in self._ends:
            end.sendall(b".")

    def _poll(self, seconds: float) -> None:
        """Waits for messages, and stores them."""
        if self._closing.is_set():
            raise EOFError
        for key, _events in self._selector.select(seconds):
            self._read(key.fileobj)

    def _read(self, source: Any) -> None:
        if source is self._listener:
            end, _address = self._listener.accept()
            end.settimeout(READ_TIMEOUT)
            self._ends.append(end)
            self._selector.register(end, selectors.EVENT_READ)
            return
        value = _byte(source)
        if source in self._ranks:
            self._stopped[self._ranks[source]] = value
        else:
            self._ranks[source] = value

    def _run(self) -> None:
        with suppress(EOFError, OSError):
            self._script(self)
        self._selector.close()
        for end in (self._listener, *self._ends):
            end.close()


def _byte(end: socket.socket) -> int:
    data = end.recv(1)
    if not data:
        raise EOFError
    return data[0]
