"""Connections among the workers of a group, for arrays that one worker sends to another.

The collectives of TensorFlow always involve all workers of a group. Sharded optimizers and
pipelines also need messages between two of them, and lesson 13 counts their bytes. A group that
creates no strategy does not use the ports in its `TF_CONFIG`, so the workers connect there.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from helpers.errors import ClusterError
from helpers.i18n import _
from helpers.tf_config import TFConfig

CONNECT_SECONDS = 30.0  # the deadline for the start of all workers
POLL_SECONDS = 0.02
HEADER = struct.Struct("!I")  # the length of the JSON with type and shape

Array = np.ndarray[Any, Any]


class Peers:
    """A connection to every other worker, for arrays of any shape and type.

    An array is sent as its bytes, without pickle, so a message cannot run code.

    Args:
      config: the `TF_CONFIG` of this worker. Its cluster consists of workers only.

    Attributes:
      rank: the index of this worker.
      count: the number of workers.
      sent: the bytes of all arrays that this worker has sent.

    Raises:
      ClusterError: a worker did not connect within 30 seconds.
    """

    def __init__(self, config: TFConfig) -> None:
        addresses = [_split(address) for address in config.cluster.get("worker", ())]
        self.rank, self.count = config.task.index, max(1, len(addresses))
        self.sent = 0
        self._connections: dict[int, socket.socket] = {}
        self._connect(addresses)
        self._senders = {other: ThreadPoolExecutor(1) for other in self._connections}

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Peers(worker {self.rank} of {self.count}, {self.sent} bytes sent)"

    def close(self) -> None:
        """Closes the connections after the last array has been sent."""
        for sender in self._senders.values():
            sender.shutdown()
        for connection in self._connections.values():
            connection.close()

    def send(self, to: int, array: Array) -> Future[None]:
        """Sends an array in the background. Do not change it before the future is done."""
        array = np.asarray(array, order="C")
        self.sent += array.nbytes
        return self._senders[to].submit(_send, self._connections[to], array)

    def receive(self, source: int) -> Array:
        """Waits for the next array of another worker."""
        connection = self._connections[source]
        [length] = HEADER.unpack(_read(connection, bytearray(HEADER.size)))
        dtype, shape = json.loads(_read(connection, bytearray(length)))
        array = np.empty(shape, dtype)
        _read(connection, memoryview(array.reshape(-1)).cast("B") if array.size else b"")
        return array

    def exchange(self, to: int, array: Array, source: int) -> Array:
        """Sends an array to one worker, and returns the next array of the same or another one."""
        sending = self.send(to, array)
        received = self.receive(source)
        sending.result()
        return received

    def rounds(self) -> Iterator[tuple[int, int]]:
        """The pairs `to`, `source` for `exchange` with which all workers reach all others."""
        for distance in range(1, self.count):
            yield (self.rank + distance) % self.count, (self.rank - distance) % self.count

    def _connect(self, addresses: list[tuple[str, int]]) -> None:
        """Connects to the workers with a lower index, and accepts those with a higher one."""
        if self.count == 1:
            return
        deadline = time.monotonic() + CONNECT_SECONDS
        with socket.create_server(addresses[self.rank], backlog=self.count) as server:
            for other in range(self.rank):
                self._connections[other] = _client(addresses[other], other, deadline)
                self._connections[other].sendall(HEADER.pack(self.rank))
            for _higher in range(self.rank + 1, self.count):
                accepted = _accept(server, deadline)
                [other] = HEADER.unpack(_read(accepted, bytearray(HEADER.size)))
                self._connections[other] = accepted


def _split(address: str) -> tuple[str, int]:
    host, _colon, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _client(address: tuple[str, int], other: int, deadline: float) -> socket.socket:
    while True:
        with contextlib.suppress(ConnectionError):
            return socket.create_connection(address)
        if time.monotonic() > deadline:
            message = _(
                "Worker {number} did not accept a connection on port {port} within {seconds:.0f} "
                "s. Look at its log."
            )
            raise ClusterError(
                message.format(number=other, port=address[1], seconds=CONNECT_SECONDS)
            )
        time.sleep(POLL_SECONDS)


def _accept(server: socket.socket, deadline: float) -> socket.socket:
    server.settimeout(max(POLL_SECONDS, deadline - time.monotonic()))
    try:
        accepted, _address = server.accept()
    except TimeoutError:
        message = _(
            "Another worker did not connect within {seconds:.0f} s. Look at the workers' logs."
        )
        raise ClusterError(message.format(seconds=CONNECT_SECONDS)) from None
    accepted.settimeout(None)
    return accepted


def _send(connection: socket.socket, array: Array) -> None:
    header = json.dumps([array.dtype.str, array.shape]).encode()
    connection.sendall(HEADER.pack(len(header)) + header)
    if array.size:
        connection.sendall(memoryview(array.reshape(-1)).cast("B"))


def _read(connection: socket.socket, buffer: Any) -> Any:
    """Fills the buffer, and returns it.

    Raises:
      ClusterError: the other worker has closed the connection.
    """
    left = memoryview(buffer)
    while left:
        count = connection.recv_into(left)
        if not count:
            message = _("Another worker closed its connection. Look at the workers' logs.")
            raise ClusterError(message)
        left = left[count:]
    return buffer
