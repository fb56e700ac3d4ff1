"""Modules that students could write for project 5: right ones of different designs, and wrong ones.

Most wrong ones are the reference solution with one change.
"""

from __future__ import annotations

from tests.projects.designs import Designs, Wrong, replace, solution

NAME = "parameter_server"
SELECTORS = '''
"""One thread and non-blocking sockets. With a bound of 0, a step is added when it is complete."""

import selectors
import socket
import struct

import numpy as np

HEADER = struct.Struct("!cIQ")  # what, rank, bytes


def connect(rank, address):
    return Client(rank, address)


class Client:
    def __init__(self, rank, address):
        self.rank, self.socket = rank, socket.create_connection(address)
        self.file = self.socket.makefile("rb")
        self.tell(b"h", b"")

    def tell(self, what, data):
        self.socket.sendall(HEADER.pack(what, self.rank, len(data)))
        self.socket.sendall(data)

    def pull(self):
        self.tell(b"g", b"")
        header = self.file.read(HEADER.size)
        if len(header) < HEADER.size:
            raise EOFError("server gone")
        what, _rank, size = HEADER.unpack(header)
        data = self.file.read(size)
        if len(data) < size:
            raise EOFError("server gone")
        return np.frombuffer(data, "f4" if what == b"f" else "f8").copy()

    def push(self, update):
        self.tell(b"p", update.tobytes())

    def close(self):
        self.file.close()
        self.socket.close()


def serve(listener, workers, bound, parameters):
    return Loop(workers, bound, parameters).run(listener)


class Peer:
    def __init__(self, sock):
        self.sock, self.inbox, self.outbox, self.rank = sock, bytearray(), bytearray(), None


class Loop:
    def __init__(self, workers, bound, parameters):
        self.bound, self.value = bound, parameters.copy()
        self.clock = {rank: 0 for rank in range(1, workers + 1)}
        self.collected = {}
        self.wanting = {}
        self.left = workers
        self.selector = selectors.DefaultSelector()

    def run(self, listener):
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ)
        while self.left:
            for key, events in self.selector.select():
                if key.data is None:
                    sock, _ = listener.accept()
                    sock.setblocking(False)
                    self.selector.register(sock, selectors.EVENT_READ, Peer(sock))
                    continue
                try:
                    if events & selectors.EVENT_WRITE:
                        del key.data.outbox[:key.data.sock.send(key.data.outbox)]
                    if events & selectors.EVENT_READ:
                        self.read(key.data)
                except ConnectionError:
                    self.drop(key.data)
                    continue
                if key.data.sock.fileno() >= 0:
                    self.watch(key.data)
        return self.value

    def watch(self, peer):
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outbox else 0)
        self.selector.modify(peer.sock, events, peer)

    def read(self, peer):
        data = peer.sock.recv(1 << 20)
        if not data:
            return self.drop(peer)
        peer.inbox += data
        while len(peer.inbox) >= HEADER.size:
            what, rank, size = HEADER.unpack_from(peer.inbox)
            if len(peer.inbox) < HEADER.size + size:
                return
            body = bytes(peer.inbox[HEADER.size:HEADER.size + size])
            del peer.inbox[:HEADER.size + size]
            peer.rank = rank
            if what == b"g":
                self.wanting[rank] = peer
            elif what == b"p":
                self.push(rank, np.frombuffer(body, self.value.dtype))
            self.answer()

    def push(self, rank, update):
        step = self.clock[rank]
        self.clock[rank] += 1
        if self.bound:
            self.value += update
        else:
            self.collected[rank] = update
            self.finish()

    def finish(self):
        if self.collected and set(self.clock) <= set(self.collected):
            for rank in sorted(self.collected):
                self.value += self.collected[rank]
            self.collected.clear()

    def answer(self):
        for rank, peer in list(self.wanting.items()):
            if self.clock[rank] - min(self.clock.values()) <= self.bound:
                del self.wanting[rank]
                data = self.value.tobytes()
                what = b"f" if self.value.itemsize == 4 else b"d"
                peer.outbox += HEADER.pack(what, 0, len(data)) + data
                self.watch(peer)

    def drop(self, peer):
        self.selector.unregister(peer.sock)
        peer.sock.close()
        self.left -= 1
        self.clock.pop(peer.rank, None)
        self.wanting.pop(peer.rank, None)
        self.finish()
        self.answer()
'''
LOG = '''
"""The server keeps a log of all pushes, and computes each pull from it. Messages are pickled."""

import asyncio
import pickle
import socket
import struct


def connect(rank, address):
    return Client(rank, socket.create_connection(address))


class Client:
    def __init__(self, rank, sock):
        self.rank, self.sock, self.step = rank, sock, 0

    def write(self, message):
        data = pickle.dumps(message, protocol=5)
        self.sock.sendall(struct.pack("<q", len(data)) + data)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(min(count - len(data), 1 << 20))
            if not more:
                raise RuntimeError("no server")
            data += more
        return data

    def pull(self):
        self.write(("pull", self.rank, self.step, None))
        return pickle.loads(self.exactly(*struct.unpack("<q", self.exactly(8))))

    def push(self, update):
        self.write(("push", self.rank, self.step, update))
        self.step += 1

    def close(self):
        self.sock.close()


def serve(listener, workers, bound, parameters):
    return asyncio.run(Log(workers, bound, parameters).run(listener))


class Log:
    def __init__(self, workers, bound, parameters):
        self.bound, self.parameters, self.log = bound, parameters, {}
        self.alive = set(range(1, workers + 1))
        self.news = asyncio.Condition()

    def pushed(self, rank, steps):
        return all((step, rank) in self.log for step in range(steps))

    def version(self, include):
        total = self.parameters.copy()
        for key in sorted(key for key in self.log if include(key)):
            total = total + self.log[key]
        return total

    async def run(self, listener):
        server = await asyncio.start_server(self.client, sock=listener)
        async with self.news:
            await self.news.wait_for(lambda: not self.alive)
        server.close()
        return self.version(lambda key: True)

    async def client(self, reader, writer):
        me = None
        try:
            while True:
                size, = struct.unpack("<q", await reader.readexactly(8))
                what, me, step, update = pickle.loads(await reader.readexactly(size))
                async with self.news:
                    if what == "push":
                        self.log[step, me] = update
                        self.news.notify_all()
                        continue
                    await self.news.wait_for(lambda: all(
                        self.pushed(rank, step - self.bound) for rank in self.alive))
                    found = self.version(lambda key: key[0] < step or key[1] == me)
                data = pickle.dumps(found, protocol=5)
                writer.write(struct.pack("<q", len(data)) + data)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            async with self.news:
                self.alive.discard(me)
                self.news.notify_all()
            writer.close()
'''
FILES = '''
"""Exchanges arrays as files. The server only counts connections that end."""

import pathlib
import socket
import tempfile
import time

import numpy as np

FOLDER = pathlib.Path(tempfile.gettempdir())


def serve(listener, workers, bound, parameters):
    np.save(FOLDER / "start.npy", parameters)
    (FOLDER / "bound").write_text(str(bound))
    (FOLDER / "workers").write_text(str(workers))
    ends = [listener.accept()[0] for _ in range(workers)]
    for end in ends:
        end.recv(1)
    return total(lambda rank, step: True)


def total(include):
    found = np.load(FOLDER / "start.npy")
    paths = sorted(FOLDER.glob("push-*.npy"))
    for path in paths:
        step, rank = map(int, path.stem.split("-")[1:])
        if include(rank, step):
            found = found + np.load(path)
    return found


def connect(rank, address):
    return Files(rank, socket.create_connection(address))


class Files:
    def __init__(self, rank, sock):
        self.rank, self.sock, self.step = rank, sock, 0

    def pull(self):
        while not (FOLDER / "workers").exists() or not (FOLDER / "workers").read_text():
            time.sleep(0.001)
        bound, workers = (int((FOLDER / name).read_text()) for name in ("bound", "workers"))
        last = self.step - bound - 1
        while last >= 0 and not all(
            (FOLDER / f"push-{last:04}-{rank:02}.npy").exists() for rank in range(1, workers + 1)
        ):
            time.sleep(0.001)
        return total(lambda rank, step: step < self.step)

    def push(self, update):
        part = FOLDER / f"part-{self.rank}"
        with part.open("wb") as file:
            np.save(file, update)
        part.rename(FOLDER / f"push-{self.step:04}-{self.rank:02}.npy")
        self.step += 1

    def close(self):
        self.sock.close()
'''


def reference() -> str:
    """The module of the solution."""
    return solution("05_parameter_server")


def changed(*pairs: tuple[str, str]) -> str:
    """The reference solution with some texts replaced."""
    return replace(reference(), *pairs)


def right() -> dict[str, str]:
    """Three designs that reach all goals."""
    return {"threads": reference(), "selectors": SELECTORS, "log": LOG}


def wrong() -> dict[str, Wrong]:
    """Modules with one fault each, which is named in the message."""
    in_bound = "step - min(self.steps.values()) <= self.bound"
    wait = f"            self.changed.wait_for(lambda: {in_bound})\n"
    total = "            total = self.complete.copy()\n"
    result = "            return total\n"
    push = "self.push(rank, receive_array(connection))"
    keep = "            self.pending[self.steps[rank], rank] = update\n"
    complete = "self.complete += self.pending.pop(key)"
    newest = "total += self.pending[key]"
    address = "socket.create_connection(address)"
    return {
        "unbounded": Wrong(
            changed((wait, "")),
            14,
            ("pulled in step 3, without step 0 of worker 1", "misses at most 2 steps"),
        ),
        "synchronous": Wrong(
            changed((in_bound, in_bound.replace("self.bound", "0"))),
            16,
            (
                "while worker 1 has completed 0 steps, the others complete 3",
                "completed only 1, and",
            ),
        ),
        "one step too many": Wrong(
            changed((in_bound, f"{in_bound} + 1")), 14, ("without step 0 of worker 1",)
        ),
        "one step too few": Wrong(
            changed((in_bound, f"{in_bound} - (self.bound > 0)")),
            16,
            ("has completed only 2, and is waiting",),
        ),
        "reads before it waits": Wrong(
            changed((wait, ""), (result, wait + result)), 14, ("Then it reads the parameters",)
        ),
        "forgets who has not pushed": Wrong(
            changed(
                (in_bound, "step - min(filter(None, self.steps.values()), default=0) <= self.bound")
            ),
            14,
            ("including a worker that has not pushed at all",),
        ),
        "reads before it receives": Wrong(
            changed(
                (
                    push,
                    "old = self.complete.copy()\n"
                    "                        update = receive_array(connection)\n"
                    "                        self.steps[rank] += 1\n"
                    "                        self.complete = old + update\n"
                    "                        self.leave(None)",
                ),
            ),
            13,
            ("Then one of the updates is lost",),
        ),
        "sends what changes": Wrong(
            changed((total, "            total = self.complete\n"), (keep, ADDS), (newest, "pass")),
            15,
            ("Copy them under the lock",),
        ),
        "adds what arrives": Wrong(
            changed((push, "self.steps[rank] += self.stream(connection)")) + STREAM,
            13,
            ("when all of it has arrived",),
        ),
        "hides own pushes": Wrong(
            changed((newest, "pass")), 18, ("A worker that is ahead of the others must see its",)
        ),
        "order of arrival": Wrong(
            changed(("sorted(self.pending)", "list(self.pending)")),
            17,
            ("The difference is a rounding", "in the order of the ranks"),
        ),
        "adds at once": Wrong(
            changed((keep, ADDS)), 17, ("a pull contains all pushes of earlier steps, but none",)
        ),
        "adds twice": Wrong(
            changed((keep, keep + ADDS)), 0, ("push 0 of worker 1 is added with the factor 2",)
        ),
        "average": Wrong(
            changed((complete, "self.complete += self.pending.pop(key) / len(self.steps)")),
            8,
            ("with which factor",),
        ),
        "waits for the dead": Wrong(
            changed(("self.steps.pop(rank, None)", "pass")),
            18,
            ("the others continue after worker 2 was killed", "stop waiting for this worker"),
        ),
        "does not wake": Wrong(
            changed(("        self.changed.notify_all()\n", "")),
            11,
            ("process 1 was still in pull after 8 s",),
        ),
        "adds a part": Wrong(
            changed(('            raise ConnectionError("', '            return data\n        ("')),
            18,
            ("of worker 2",),
        ),
        "catches errors": Wrong(
            changed(("        return receive_array(self.socket)", CATCHES)),
            19,
            ("pull has already returned in process 1", "Do not catch socket errors"),
        ),
        "time limit": Wrong(
            changed((address, address.replace(")", ", timeout=0.3)"))),
            6,
            ("raised TimeoutError: timed out (parameter_server.py",),
        ),
        "double precision": Wrong(
            changed(
                ("send_array(self.socket, update)", "send_array(self.socket, update.astype('f8'))")
            ),
            19,
            ("process 1 sends 6,000,192 bytes, the size of its arrays", "200% of that"),
        ),
        "an error in a thread": Wrong(
            changed((keep, "            self.peding[rank] = update\n")),
            0,
            ("has no attribute 'peding'", "Start at the error that process 0 printed"),
        ),
        "files": Wrong(
            FILES, 16, ("sent 0 bytes", "so it was never killed", "was still in pull after 8 s")
        ),
    }


ADDS = "            self.complete += update\n"
STREAM = """

def stream(self, connection):
    kind = receive(connection, NUMBER.size).decode().strip()
    [size] = NUMBER.unpack(receive(connection, NUMBER.size))
    for start in range(0, len(self.complete), 1000):
        target = self.complete[start : start + 1000]
        target += np.frombuffer(receive(connection, target.nbytes), kind)
    self.leave(None)
    return 1


Server.stream = stream
"""
CATCHES = """        try:
            return receive_array(self.socket)
        except ConnectionError:
            return np.zeros(1)"""


DESIGNS = Designs(
    NAME,
    right(),
    wrong(),
    empty="def serve(*arguments):\n    raise NotImplementedError\n\n\nconnect = serve\n",
    short={
        "rounds": 1,
        "concurrent": [(2, 2, "float32")],
        "slow_pull": [],
        "slow_push": [],
        "stragglers": [(2, 1, 1)],
        "synchronous": [(2, 2, "float64")],
        "dead_worker": [],
        "dead_server": [],
    },
    circles=1 + 12,
    label=(
        "7 with s = 4 (formula 7)",
        "4 with s = 4 (formula 4)",
        "2.8 with s = 0 (formula 2.8)",
    ),
    case={
        "rounds": 2,
        "concurrent": [(4, 6, "float32")],
        "stragglers": [(3, 2, 1)],
        "synchronous": [(3, 4, "float32")],
    },
    # Their threads may fail in other situations too, but fail for certain while a worker is frozen.
    races=("reads before it receives", "sends what changes"),
)
