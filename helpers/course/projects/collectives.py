"""The collectives that a project gives to the student's module, on top of `switch`.

They are not a solution of project 1. The switch stores all messages, so they need not send and
receive at the same time. They have no timeouts, because the kernel ends processes that hang.
"""

from __future__ import annotations

import socket
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

SEND, RECEIVE = "send", "receive"  # the first word of a message to the switch
Array = Any  # numpy.ndarray


class Collectives:
    """A reduce-scatter and an all-gather among the processes of a group.

    All processes must call the same methods in the same order, with arrays of the same length and
    type. An array has one dimension and is contiguous in memory.

    Attributes:
      rank: the number of this process, from 0.
      size: the number of processes, N.
    """

    def __init__(self, rank: int, size: int, listener: socket.socket) -> None:
        self.rank, self.size = rank, size
        switch, _address = listener.accept()
        switch.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = Connection(switch.detach())

    def reduce_scatter(self, array: Array) -> Array:
        """Divides the array into N equal pieces, and returns the sum of the pieces `rank`.

        Needs memory for two pieces in addition to the array.

        Raises:
          ValueError: the length is not divisible by N, or another process called something else.
        """
        _require_flat("reduce_scatter", "array", array)
        if len(array) % self.size:
            raise ValueError(
                f"reduce_scatter: the length {len(array)} is not divisible by {self.size} processes"
            )
        pieces = array.reshape(self.size, len(array) // self.size)
        total, header = pieces[self.rank].copy(), f"reduce_scatter {len(array)} {array.dtype}"
        for step in range(1, self.size):
            target = (self.rank + step) % self.size
            self._send(target, header, pieces[target])
            total += self._receive((self.rank - step) % self.size, header, array.dtype)
        return total

    def all_gather(self, piece: Array, out: Array | None = None) -> Array:
        """Returns the pieces of all processes, joined in the order of the ranks.

        Args:
          out: the array that receives the result, N times as long as the piece (default: a new
            one). The piece may be a part of it.

        Raises:
          ValueError: `out` has a wrong length or type, or another process called something else.
        """
        _require_flat("all_gather", "piece", piece)
        out = np.empty(self.size * len(piece), piece.dtype) if out is None else out
        _require_flat("all_gather", "out", out)
        if (len(out), out.dtype) != (self.size * len(piece), piece.dtype):
            raise ValueError(
                f"all_gather: out is {out.dtype}[{len(out)}], but {self.size} pieces of "
                f"{piece.dtype}[{len(piece)}] need {piece.dtype}[{self.size * len(piece)}]"
            )
        pieces, header = out.reshape(self.size, len(piece)), f"all_gather {len(out)} {out.dtype}"
        pieces[self.rank] = piece
        for step in range(1, self.size):
            self._send((self.rank + step) % self.size, header, pieces[self.rank])
            source = (self.rank - step) % self.size
            pieces[source] = self._receive(source, header, out.dtype)
        return out

    def _send(self, target: int, header: str, piece: Array) -> None:
        self._connection.send_bytes(f"{SEND} {target} {header}".encode())
        self._connection.send_bytes(piece.view("uint8"))

    def _receive(self, source: int, header: str, dtype: Any) -> Array:
        self._connection.send_bytes(f"{RECEIVE} {source}".encode())
        other = self._connection.recv_bytes().decode()
        data = self._connection.recv_bytes()
        if other != header:
            raise ValueError(
                f"process {self.rank} calls {_call(header)}, but process {source} {_call(other)}"
            )
        return np.frombuffer(data, dtype)


def _call(header: str) -> str:
    name, length, kind = header.split()
    return f"{name} for {kind}[{length}]"


def _require_flat(method: str, name: str, array: Array) -> None:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{method}: {name} is {type(array).__name__}, and not a NumPy array")
    if array.ndim != 1 or not array.flags.c_contiguous:
        raise ValueError(
            f"{method}: {name} has the shape {array.shape} and the strides {array.strides}. Pass a "
            "contiguous array with one dimension"
        )
