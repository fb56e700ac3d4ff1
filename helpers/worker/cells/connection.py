"""A worker's connection to the notebook."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from typing import Any

from helpers.protocol.cell_messages import Decoder, Message, MessageError


class Connection:
    """A connection that any thread may send to. The process ends when it is closed.

    Args:
      address: the path of the notebook's Unix socket.
    """

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(address)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._requests: queue.SimpleQueue[Message] = queue.SimpleQueue()

    @property
    def is_own(self) -> bool:
        """Whether this process is the worker, and not a fork of it."""
        return os.getpid() == self._pid

    def listen(self) -> None:
        """Starts the thread that receives requests."""
        threading.Thread(target=self._receive, daemon=True).start()

    def next_request(self) -> Message:
        """Waits for the next request."""
        return self._requests.get()

    def send(self, kind: str, fields: dict[str, Any], buffers: Any = ()) -> None:
        """Sends a message. A fork of the worker sends nothing."""
        if not self.is_own:
            return
        with self._lock:
            for part in Message(kind, fields, buffers).parts():
                self._socket.sendall(part)

    def _receive(self) -> None:
        decoder = Decoder()
        try:
            while count := self._socket.recv_into(decoder.free):
                if message := decoder.advance(count):
                    self._requests.put(message)
        except (OSError, MessageError):
            pass
        os.killpg(0, signal.SIGKILL)  # the notebook has ended, or no longer needs this worker
