"""Modules that students could write for project 1: right ones of different designs, and wrong ones.

Most wrong ones are the reference solution with one change, as written by `changed`.
"""

from __future__ import annotations

import os

from tests.projects.designs import Designs, Wrong, replace, solution

NAME = "ring_all_reduce"
THREADS = '''
"""A ring in which a thread sends while the caller receives."""

import socket
import threading

import numpy as np


def connect(rank, listener, addresses, timeout):
    size = len(addresses)
    right = socket.create_connection(addresses[(rank + 1) % size], timeout)
    listener.settimeout(timeout)
    left = listener.accept()[0]
    left.settimeout(timeout)
    return Ring(rank, size, left, right)


class Ring:
    def __init__(self, rank, size, left, right):
        self.rank, self.size, self.left, self.right = rank, size, left, right

    def all_reduce(self, array):
        parts = [part.copy() for part in np.array_split(array, self.size)]
        for step in range(2 * self.size - 2):
            gathering = step >= self.size - 1
            out = (self.rank - step) % self.size
            into = (out - 1) % self.size
            arrived = self.swap(parts[out], len(parts[into]), array.dtype)
            parts[into] = arrived if gathering else parts[into] + arrived
        return np.concatenate(parts)

    def swap(self, outgoing, length, dtype):
        errors = []

        def send():
            try:
                self.right.sendall(outgoing.tobytes())
            except OSError as error:
                errors.append(error)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            data = self.receive(length * dtype.itemsize)
        finally:
            sender.join()
        if errors:
            raise errors[0]
        return np.frombuffer(data, dtype).copy()

    def receive(self, count):
        data = bytearray()
        while len(data) < count:
            more = self.left.recv(count - len(data))
            if not more:
                raise ConnectionError("closed")
            data += more
        return bytes(data)

    def close(self):
        self.left.close()
        self.right.close()
'''
DIRECT = '''
"""No ring: each process adds one part of all arrays, and sends the sum to every other process."""

import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np


def receive(sock, count):
    data = bytearray(count)
    view = memoryview(data)
    while len(view):
        got = sock.recv_into(view)
        if got == 0:
            raise ConnectionError("closed")
        view = view[got:]
    return data


def connect(rank, listener, addresses, timeout):
    peers = {}
    for other in range(rank):
        peers[other] = socket.create_connection(addresses[other], timeout)
        peers[other].sendall(struct.pack("!I", rank))
    listener.settimeout(timeout)
    while len(peers) < len(addresses) - 1:
        sock, _ = listener.accept()
        sock.settimeout(timeout)
        peers[struct.unpack("!I", receive(sock, 4))[0]] = sock
    return Mesh(rank, len(addresses), peers)


class Mesh:
    def __init__(self, rank, size, peers):
        self.rank, self.size, self.peers = rank, size, peers
        self.pool = ThreadPoolExecutor(2 * size)

    def all_reduce(self, array):
        parts = np.array_split(array, self.size)
        mine = parts[self.rank]
        arrived = self.swap({other: parts[other] for other in self.peers},
                            dict.fromkeys(self.peers, mine.nbytes))
        total = np.zeros_like(mine)
        for rank in range(self.size):
            total += mine if rank == self.rank else np.frombuffer(arrived[rank], array.dtype)
        sums = self.swap(dict.fromkeys(self.peers, total),
                         {other: parts[other].nbytes for other in self.peers})
        return np.concatenate([total if rank == self.rank
                               else np.frombuffer(sums[rank], array.dtype)
                               for rank in range(self.size)])

    def swap(self, outgoing, counts):
        sends = [self.pool.submit(sock.sendall, outgoing[other].tobytes())
                 for other, sock in self.peers.items()]
        receives = {other: self.pool.submit(receive, sock, counts[other])
                    for other, sock in self.peers.items()}
        for send in sends:
            send.result()
        return {other: found.result() for other, found in receives.items()}

    def close(self):
        self.pool.shutdown()
        for sock in self.peers.values():
            sock.close()
'''
STAR = '''
"""Process 0 receives everything, adds, and sends the sum to all."""

import socket

import numpy as np


def receive(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data


def connect(rank, listener, addresses, timeout):
    if rank:
        return Star([socket.create_connection(addresses[0], timeout)], root=False)
    listener.settimeout(timeout)
    peers = [listener.accept()[0] for _ in addresses[1:]]
    for peer in peers:
        peer.settimeout(timeout)
    return Star(peers, root=True)


class Star:
    def __init__(self, peers, root):
        self.peers, self.root = peers, root

    def all_reduce(self, array):
        if not self.root:
            self.peers[0].sendall(array.tobytes())
            return np.frombuffer(receive(self.peers[0], array.nbytes), array.dtype)
        total = array.copy()
        for peer in self.peers:
            total += np.frombuffer(receive(peer, array.nbytes), array.dtype)
        for peer in self.peers:
            peer.sendall(total.tobytes())
        return total

    def close(self):
        for peer in self.peers:
            peer.close()
'''
WHOLE_ARRAYS = """
    def all_reduce(self, array):
        arrays = {self.rank: array}
        passing = array
        for step in range(self.workers - 1):
            incoming = np.empty_like(array)
            self._exchange(passing, incoming)
            arrays[(self.rank - step - 1) % self.workers] = passing = incoming
        return np.sum([arrays[rank] for rank in range(self.workers)], axis=0, dtype=array.dtype)
"""
OWN_ORDER = WHOLE_ARRAYS.replace(
    "np.sum([arrays[rank] for rank in range(self.workers)], axis=0, dtype=array.dtype)",
    "np.add.reduce(list(arrays.values()))",
)
FILES = '''
"""Exchanges arrays as files, without a connection."""

import pathlib
import tempfile
import time

import numpy as np


def connect(rank, listener, addresses, timeout):
    return Files(rank, len(addresses), timeout)


class Files:
    def __init__(self, rank, size, timeout):
        self.rank, self.size, self.timeout, self.turn = rank, size, timeout, 0

    def all_reduce(self, array):
        self.turn += 1
        folder = pathlib.Path(tempfile.gettempdir())
        path = folder / f"{self.rank}-{self.turn}.part"
        path.write_bytes(array.tobytes())
        path.rename(folder / f"{self.rank}-{self.turn}.done")
        found = []
        for rank in range(self.size):
            path = folder / f"{rank}-{self.turn}.done"
            end = time.monotonic() + self.timeout
            while not path.exists() or path.stat().st_size != array.nbytes:
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(0.001)
            found.append(np.frombuffer(path.read_bytes(), array.dtype))
        return sum(found[1:], found[0].copy())

    def close(self):
        pass
'''


def reference() -> str:
    """The module of the solution."""
    return solution("01_ring_all_reduce")


def changed(*pairs: tuple[str, str]) -> str:
    """The reference solution with some texts replaced."""
    return "import os\n" + replace(reference(), *pairs)


def with_method(code: str) -> str:
    """The reference solution with another `all_reduce`."""
    start, _name, rest = reference().partition("    def all_reduce(self, array):\n")
    return (
        start
        + code.lstrip("\n")
        + "\n    def close(self):"
        + rest.partition("    def close(self):")[2]
    )


def right() -> dict[str, str]:
    """Three designs that reach all goals."""
    return {"select": reference(), "threads": THREADS, "direct": DIRECT}


def wrong() -> dict[str, Wrong]:
    """Modules with one fault each, which is named in the message."""
    select = "select.select(readers, writers, [], self.timeout)"
    gather = "self._exchange(outgoing, chunks[(self.rank - step"
    closed = "                    raise ConnectionError("
    return {
        "star": Wrong(STAR, 16, ("process 0 sent 4,200,000 bytes, 200% of that",)),
        "whole arrays": Wrong(
            with_method(WHOLE_ARRAYS), 16, ("process 0 sent 4,200,000 bytes, 200% of that",)
        ),
        "files": Wrong(
            FILES,
            12,
            ("process 0 sent 0 bytes", "No all-reduce can send less", "so it was never killed"),
        ),
        "own order": Wrong(with_method(OWN_ORDER), 13, ("the same bits in every process", "200%")),
        "average": Wrong(
            changed(("return total", "return total / self.workers")),
            0,
            ("expected: element 0 is", "Print the chunk"),
        ),
        "single precision": Wrong(
            changed(("array.copy()", "array.astype('float32')")),
            0,
            ("process 0 returned float32[1000]",),
        ),
        "changes its argument": Wrong(
            changed(("array.copy()", "array")), 18, ("the argument of process 0 has changed",)
        ),
        "wrong chunk": Wrong(
            changed((gather, gather + " + 1")), 0, ("process 0 returned", "Print the chunk")
        ),
        "equal chunks": Wrong(
            changed(("np.array_split", "np.split")),
            12,
            ("array split does not result in an equal division", "(ring_all_reduce.py, line"),
        ),
        "sends before it receives": Wrong(
            changed(("        while out or into:\n", SEND_FIRST)),
            16,
            ("process 0 was still running after 8 s", "sendall"),
        ),
        "no timeout": Wrong(
            changed((select, select.replace(", self.timeout", ""))),
            16,
            ("was still waiting after 8 s", "settimeout(timeout)"),
        ),
        "ignores the end of the stream": Wrong(
            changed(("if not count:", "if count < 0:")),
            16,
            ("process 2 was still waiting after 8 s", "recv returns b''"),
        ),
        "catches errors": Wrong(
            changed(("    def all_reduce(self, array):\n", CATCHES)),
            16,
            ("process 0 returned a result, which cannot be the sum",),
        ),
        "exits": Wrong(
            changed((closed, EXITS + closed)), 16, ("ended, and printed bye", "Raise errors")
        ),
        "accepts without a timeout": Wrong(
            changed(("    listener.settimeout(timeout)\n", "")),
            18,
            ("if process 1 was frozen before it connected", "on the listener"),
        ),
        "sends without a timeout": Wrong(
            replace(THREADS, ("    listener.settimeout(timeout)", UNLIMITED)),
            18,
            ("process 0 was still waiting after 8 s", "recv and sendall wait forever"),
        ),
        "fails by itself": Wrong(
            changed(("            if not readable and", FAILS + "            if not readable and")),
            14,
            ("raised TimeoutError: large array", "A large array causes"),
        ),
        "connects in each call": Wrong(
            changed(("def connect(", "def open_ring(")) + RECONNECTS,
            18,
            ("33 new connections after the first call",),
        ),
        "no Python": Wrong("def connect(\n", 0, ("SyntaxError", "ring_all_reduce.py, line 1")),
    }


SEND_FIRST = """        self.right.setblocking(True)
        self.right.sendall(out)
        out = out[:0]
        while out or into:
"""
EXITS = """                    print("bye", flush=True)
                    os._exit(3)
"""
UNLIMITED = """    right.settimeout(None)
    listener.settimeout(timeout)"""
FAILS = """            if outgoing.nbytes > 900_000 and len(out) < 100_000:
                raise TimeoutError("large array")
"""
CATCHES = """    def all_reduce(self, array):
        try:
            return self.reduce(array)
        except OSError:
            return array

    def reduce(self, array):
"""
RECONNECTS = """

def connect(*place):
    return Lazy(place)


class Lazy:
    def __init__(self, place):
        self.place = place

    def all_reduce(self, array):
        ring = open_ring(*self.place)
        try:
            return ring.all_reduce(array)
        finally:
            ring.close()

    def close(self):
        pass
"""


DESIGNS = Designs(
    NAME,
    right(),
    wrong(),
    empty="def connect(*arguments, **names):\n    raise NotImplementedError()\n",
    short={
        "sizes": [(3, [(5, "float32")])],
        "lengths": [(3, [(0, "float32"), (2, "float64")])],
        "large": [(2, [(1000, "float64")])],
        "traffic": [(3, [(30_000, "float32")])],
        "repeated": [(2, [(5, "float32"), (6, "float64")])],
        "killed": (500_000, "float64"),
        "frozen": (500_000, "float64"),
        "timeout": 0.5,
    },
    circles=1 + (9 if os.path.exists("/proc") else 6),
    label=(
        "MB sent by each process: 1.4 with N = 2 (formula 1.4), 2.1 with",
        "2.45 with N = 8 (formula 2.45)",
    ),
)
