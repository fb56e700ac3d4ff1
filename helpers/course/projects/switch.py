"""A switch between the processes of a project whose collectives are given.

It belongs to the kernel, so the student's processes cannot change its counters. It stores messages
without a limit, so a process can send before it receives, and messages need no memory in a process
that is not ready for them.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection

from helpers.course.projects.adapters import Address
from helpers.course.projects.collectives import RECEIVE

CONNECT_TIMEOUT = 10.0


class Switch:
    """Connects to each process of a group, forwards their messages, and counts their bytes.

        with ProcessGroup(module, "sharded_adam", 4, relayed=False) as group, \\
                Switch([member.address for member in group.members]) as switch:
            group.open(seconds=8)

    A process sends `send RANK HEADER` and then data, or `receive RANK`, which is answered with the
    next header and data from that process, as soon as they exist. See `collectives`.

    Args:
      targets: the address of each process, in the order of the ranks.

    Attributes:
      sent: the bytes of data and headers that each process has sent so far.
    """

    def __init__(self, targets: Sequence[Address]) -> None:
        self.sent = [0] * len(targets)
        self._targets = targets
        self._sockets: list[socket.socket] = []
        self._mail: defaultdict[tuple[int, int], queue.SimpleQueue[tuple[bytes, bytes] | None]]
        self._mail = defaultdict(queue.SimpleQueue)
        self._wanted: list[queue.SimpleQueue[int | None]] = [queue.SimpleQueue() for _ in targets]
        self._threads: list[threading.Thread] = []
        self._stack = ExitStack()

    def __enter__(self) -> Switch:
        self._stack.callback(self._stop)
        try:
            for rank, address in enumerate(self._targets):
                end = self._stack.enter_context(socket.create_connection(address, CONNECT_TIMEOUT))
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(end)
                # A copy of the descriptor, because both threads and `_stop` use the connection.
                connection = self._stack.enter_context(Connection(os.dup(end.fileno())))
                for work in (self._read, self._answer):
                    thread = threading.Thread(target=work, args=(rank, connection), daemon=True)
                    thread.start()
                    self._threads.append(thread)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop()
        self._stack.close()

    def _read(self, rank: int, connection: Connection) -> None:
        """Stores what a process sends, and passes on its requests."""
        with suppress(EOFError, OSError, ValueError):  # it has ended, or sends something else
            while True:
                action, other, *header = connection.recv_bytes().split(maxsplit=2)
                if action == RECEIVE.encode():
                    self._wanted[rank].put(int(other))
                    continue
                message = b"".join(header), connection.recv_bytes()
                self.sent[rank] += sum(map(len, message))
                self._mail[rank, int(other)].put(message)

    def _answer(self, rank: int, connection: Connection) -> None:
        """Answers the requests of a process in their order."""
        with suppress(OSError):
            while (sender := self._wanted[rank].get()) is not None:
                message = self._mail[sender, rank].get()
                if message is None:
                    return
                for part in message:
                    connection.send_bytes(part)

    def _stop(self) -> None:
        """Ends all threads, also those that wait for a message."""
        for rank, end in enumerate(self._sockets):
            with suppress(OSError):  # the process has closed it
                end.shutdown(socket.SHUT_RDWR)
            self._wanted[rank].put(None)
            for sender in range(len(self._targets)):
                self._mail[sender, rank].put(None)
        for thread in self._threads:
            thread.join(CONNECT_TIMEOUT)
