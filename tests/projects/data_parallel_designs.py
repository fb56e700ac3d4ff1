"""Modules that students could write for project 2: right ones of different designs, and wrong ones.

Most wrong ones are the reference solution with one change, as written by `changed`.
"""

from __future__ import annotations

from tests.projects.designs import Designs, Wrong, replace, solution

NAME, NOTEBOOK, RING = "data_parallel", "02_data_parallel", "ring_all_reduce"
STAR = '''
"""No ring: process 0 adds all arrays. A thread reduces the arrays in a queue."""

import queue
import socket
import threading

import numpy as np


def receive(sock, count):
    data = bytearray()
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return bytes(data)


def connect(rank, listener, addresses, timeout):
    if rank:
        return Trainer(rank, [socket.create_connection(addresses[0], timeout)])
    listener.settimeout(timeout)
    peers = [listener.accept()[0] for _ in addresses[1:]]
    for peer in peers:
        peer.settimeout(timeout)
    return Trainer(rank, peers)


class Trainer:
    def __init__(self, rank, peers):
        self.rank, self.peers = rank, peers
        self.arrays, self.sums = queue.Queue(), queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            array = self.arrays.get()
            try:
                self.sums.put(self.reduce(array))
            except OSError as error:
                self.sums.put(error)

    def reduce(self, array):
        if self.rank:
            self.peers[0].sendall(array.tobytes())
            return np.frombuffer(receive(self.peers[0], array.nbytes), array.dtype)
        total = array.copy()
        for peer in self.peers:
            total += np.frombuffer(receive(peer, array.nbytes), array.dtype)
        for peer in self.peers:
            peer.sendall(total.tobytes())
        return total

    def next_sum(self):
        found = self.sums.get()
        if isinstance(found, Exception):
            raise found
        return found

    def train(self, network, batches, learning_rate, bucket_bytes):
        start = np.concatenate([array.ravel() for array in network.weights])
        self.arrays.put(start if self.rank == 0 else np.zeros_like(start))
        self.arrays.put(np.array([len(labels) for _, labels in batches], "float64"))
        self.change(network, range(len(network.weights)), lambda old, new: new, self.next_sum())
        counts = self.next_sum()
        for (examples, labels), count in zip(batches, counts):
            buckets = self.backward(network, examples, labels, count, bucket_bytes)
            for layers in buckets:
                self.change(
                    network, layers, lambda old, new: old - learning_rate * new, self.next_sum()
                )

    def backward(self, network, examples, labels, count, bucket_bytes):
        buckets, layers, parts = [], [], []
        share = len(labels) / float(count)
        for layer, gradient in network.gradients(examples, labels):
            layers.append(layer)
            parts.append(share * gradient.ravel())
            if sum(part.nbytes for part in parts) >= bucket_bytes:
                self.arrays.put(np.concatenate(parts))
                buckets.append(layers)
                layers, parts = [], []
        if parts:
            self.arrays.put(np.concatenate(parts))
            buckets.append(layers)
        return buckets

    def change(self, network, layers, function, array):
        for layer in layers:
            old = network.weights[layer]
            new, array = array[: old.size].reshape(old.shape), array[old.size :]
            network.weights[layer] = function(old, new)
'''
POLLING = '''
"""No thread: each gradient also moves the bytes that can be moved without waiting."""

import select
import socket
import time

import numpy as np


def connect(rank, listener, addresses, timeout):
    right = socket.create_connection(addresses[(rank + 1) % len(addresses)], timeout)
    listener.settimeout(timeout)
    left = listener.accept()[0]
    for end in (left, right):
        end.setblocking(False)
    return Trainer(rank, len(addresses), left, right, timeout)


class Trainer:
    def __init__(self, rank, size, left, right, timeout):
        self.rank, self.size, self.timeout = rank, size, timeout
        self.left, self.right = left, right
        self.running = []

    def start(self, array):
        self.running.append(self.reduce(array))
        return array

    def reduce(self, array):
        """Reduces in place, and yields whenever it would have to wait."""
        chunks = np.array_split(array, self.size)
        for step in range(2 * self.size - 2):
            out = chunks[(self.rank - step) % self.size]
            into = chunks[(self.rank - step - 1) % self.size]
            arrived = np.empty_like(into)
            yield from self.swap(memoryview(out).cast("B"), memoryview(arrived).cast("B"))
            into[:] = arrived if step >= self.size - 1 else into + arrived

    def swap(self, out, into):
        while out or into:
            try:
                if out:
                    out = out[self.right.send(out) :]
            except BlockingIOError:
                pass
            try:
                if into:
                    count = self.left.recv_into(into)
                    if count == 0:
                        raise ConnectionError("closed")
                    into = into[count:]
            except BlockingIOError:
                yield [self.right] if out else []

    def poll(self):
        """Moves bytes until the next ones must be waited for."""
        while self.running:
            try:
                return next(self.running[0])
            except StopIteration:
                self.running.pop(0)

    def finish(self):
        while (writers := self.poll()) is not None:
            if not any(select.select([self.left], writers, [], self.timeout)[:2]):
                raise TimeoutError("no answer")

    def train(self, network, batches, learning_rate, bucket_bytes):
        if self.rank:
            network.weights = [0 * weights for weights in network.weights]
        parts = [self.start(weights.ravel()) for weights in network.weights]
        self.finish()
        shapes = [weights.shape for weights in network.weights]
        network.weights = [part.reshape(shape) for part, shape in zip(parts, shapes)]
        for examples, labels in batches:
            count = self.start(np.array([len(labels)], "float32"))
            waiting, buckets = [], []
            for layer, gradient in network.gradients(examples, labels):
                waiting.append((layer, gradient.ravel() * np.float32(len(labels))))
                if layer == 0 or sum(part.nbytes for _, part in waiting) >= bucket_bytes:
                    layers, arrays = zip(*waiting)
                    buckets.append((layers, self.start(np.concatenate(arrays))))
                    waiting = []
                self.poll()
            self.finish()
            for layers, total in buckets:
                for layer in layers:
                    weights = network.weights[layer]
                    part, total = np.split(total, [weights.size])
                    weights -= learning_rate / count[0] * part.reshape(weights.shape)
'''
EVENT_LOOP = '''
"""An event loop in a thread. Each process sends its buckets to all others, and adds them all."""

import asyncio
import socket
import threading

import numpy as np


def connect(rank, listener, addresses, timeout):
    peers = {}
    for other in range(rank):
        peers[other] = socket.create_connection(addresses[other], timeout)
        peers[other].sendall(bytes([rank]))
    listener.settimeout(timeout)
    while len(peers) < len(addresses) - 1:
        end = listener.accept()[0]
        end.settimeout(timeout)
        peers[end.recv(1)[0]] = end
    return Trainer(rank, peers, timeout)


class Trainer:
    def __init__(self, rank, peers, timeout):
        self.rank, self.timeout = rank, timeout
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.streams, self.turn = self.submit(self.open(peers)).result()

    def submit(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def open(self, peers):
        streams = {}
        for rank, end in peers.items():
            streams[rank] = await asyncio.open_connection(sock=end)
        return streams, asyncio.Lock()

    async def gather(self, array):
        """The arrays of all processes, in the order of their ranks."""
        async with self.turn:
            for _, writer in self.streams.values():
                writer.write(array.tobytes())
            found = {self.rank: array}
            for rank, (reader, _) in self.streams.items():
                data = await asyncio.wait_for(reader.readexactly(array.nbytes), self.timeout)
                found[rank] = np.frombuffer(data, array.dtype)
            return [found[rank] for rank in sorted(found)]

    def train(self, network, batches, learning_rate, bucket_bytes):
        starts = [self.submit(self.gather(weights.ravel())) for weights in network.weights]
        for layer, start in enumerate(starts):
            first = start.result()[0]
            network.weights[layer] = first.reshape(network.weights[layer].shape).copy()
        for examples, labels in batches:
            found, bucket = [], []
            for layer, gradient in network.gradients(examples, labels):
                bucket.append((layer, gradient))
                if layer == 0 or sum(one.nbytes for _, one in bucket) >= bucket_bytes:
                    flat = np.concatenate([one.ravel() for _, one in bucket])
                    count = np.array([len(labels)], "float32")
                    found.append((bucket, self.submit(self.gather(np.append(flat, count)))))
                    bucket = []
            for bucket, future in found:
                arrays = future.result()
                total = sum(array[-1] for array in arrays)
                mean = sum(array[:-1] * (array[-1] / total) for array in arrays)
                for layer, one in bucket:
                    part, mean = mean[: one.size], mean[one.size :]
                    network.weights[layer] -= learning_rate * part.reshape(one.shape)
'''
AVERAGED_WEIGHTS = """    def train(self, network, batches, learning_rate, bucket_bytes):
        for weights in network.weights:
            weights[...] = self.broadcast(weights)
        for examples, labels in batches:
            for layer, gradient in network.gradients(examples, labels):
                network.weights[layer] -= learning_rate * gradient
            for weights in network.weights:
                total = self.group.all_reduce(weights.ravel())
                weights[...] = (total / self.group.workers).reshape(weights.shape)

"""
AVERAGED_AT_THE_END = AVERAGED_WEIGHTS.replace(
    """            for weights in network.weights:
                total = self.group.all_reduce(weights.ravel())
                weights""",
    """        for weights in network.weights:
            total = self.group.all_reduce(weights.ravel())
            weights""",
)


def reference() -> str:
    """The module of the solution."""
    return solution(NOTEBOOK)


def changed(*pairs: tuple[str, str]) -> str:
    """The reference solution with some texts replaced."""
    return replace(reference(), *pairs)


def right() -> dict[str, str]:
    """Four designs that reach all goals. Only the first one uses the ring of project 1."""
    return {
        "thread pool": reference(),
        "star and queue": STAR,
        "polling": POLLING,
        "event loop": EVENT_LOOP,
    }


def wrong() -> dict[str, Wrong]:
    """Modules with one fault each, which is named in the message."""
    submit = "self.thread.submit(self.reduce, bucket, examples)"
    update = "                for layer, gradient in bucket.result():"
    start, _train, rest = reference().partition("    def train(")
    rest = "    def broadcast(" + rest.partition("    def broadcast(")[2]
    return {
        "mean of means": Wrong(
            changed(("[examples]", "[1]"), ("examples * gradient", "gradient")),
            17,
            ("the plain mean of the processes' gradients",),
        ),
        "sum of gradients": Wrong(
            changed((" / total[-1]", "")), 0, ("number of examples of all processes",)
        ),
        "sum of means": Wrong(
            changed(
                ("examples * gradient.ravel()", "gradient.ravel()"),
                ("total[:-1] / total[-1]", "total[:-1]"),
            ),
            0,
            ("Each of them is a mean over its own examples",),
        ),
        "own gradients": Wrong(
            changed(("self.group.all_reduce(np", "np.array(1.0) * (np")),
            0,
            ("has used only its own gradients",),
        ),
        "after the backward pass": Wrong(
            changed(("= network.gradients(examples, labels)", GRADIENTS_FIRST)),
            13,
            ("within 5 s all processes together sent only 0 bytes", "before you ask for the next"),
        ),
        "one large bucket": Wrong(
            changed((">= bucket_bytes", ">= 25_000_000")),
            13,
            ("within 5 s all processes together sent only 0 bytes",),
        ),
        "waits for each bucket": Wrong(
            changed((submit, f"finished({submit})")) + FINISHED,
            18,
            ("5 s after the gradient of layer 1, process 0 had not asked for the next one",),
        ),
        "each gradient alone": Wrong(
            changed((" >= bucket_bytes or layer == 0", "")),
            18,
            ("after the smaller gradients, all processes together had sent 14,",),
        ),
        "forgets the last bucket": Wrong(
            changed((" or layer == 0", "")), 18, ("Is the last bucket reduced too",)
        ),
        "own start": Wrong(
            changed(("weights[...] = self.broadcast(weights)", "pass")),
            18,
            ("weights you get if each process starts with its own",),
        ),
        "double precision": Wrong(
            changed(("np.float32([examples])", "np.float64([examples])")),
            18,
            ("process 0 sent 205,296 bytes, 200% of that", "type float32 when they are sent"),
        ),
        "sends weights in each step": Wrong(
            changed(("        for examples, labels in batches:\n", BROADCASTS)),
            18,
            ("process 0 sent", "Which arrays does a step send in addition"),
        ),
        "skips empty batches": Wrong(
            changed(("            gradients = ", SKIPS + "            gradients = ")),
            17,
            ("Every process takes part in each step, even without examples",),
        ),
        "divides by zero": Wrong(
            changed(
                (
                    "examples * gradient.ravel()",
                    "np.float32(examples) ** 2 / examples * gradient.ravel()",
                )
            ),
            17,
            ("process 0 has weights in layer 0 that are not finite numbers",),
        ),
        "averages weights": Wrong(
            start + AVERAGED_WEIGHTS + rest,
            10,
            ("the weights of one worker, within 1e-06", "within 5 s all processes"),
        ),
        "averages weights at the end": Wrong(
            start + AVERAGED_AT_THE_END + rest,
            2,
            ("each process has trained alone",),
        ),
        "starts with the mean": Wrong(
            changed(
                ("        own = weights if self.rank == 0 else np.zeros_like(weights)\n", MEAN)
            ),
            18,
            ("all processes start with the mean of their weights",),
        ),
        "reduces in another order": Wrong(
            changed((submit, "(bucket, examples)"), ("        return started", REVERSED)),
            0,
            ("Two all-reduces that run at the same time",),
        ),
        "ignores errors": Wrong(
            changed((update, CATCHES + update.replace("bucket.result()", "found"))),
            18,
            ("returned from train, without the gradients of process 1",),
        ),
        "loses errors in its thread": Wrong(
            STAR.replace("except OSError as error", "except ZeroDivisionError as error"),
            18,
            ("process 0 was still waiting after 8 s", "An error in a thread ends only"),
        ),
        "no object": Wrong("def connect(*place):\n    pass\n", 0, ("no attribute 'train'",)),
        "no Python": Wrong("def connect(\n", 0, ("SyntaxError", "data_parallel.py, line 1")),
    }


MEAN = "        own = weights / np.float32(self.group.workers)\n"
REVERSED = """        order = started if self.rank else started[::-1]
        futures = {id(one): self.thread.submit(self.reduce, *one) for one in order}
        return [futures[id(one)] for one in started]
"""
GRADIENTS_FIRST = "= list(network.gradients(examples, labels))"
FINISHED = """

def finished(future):
    future.result()
    return future
"""
BROADCASTS = """        for examples, labels in batches:
            self.broadcast(network.weights[0])
"""
SKIPS = """            if not len(labels):
                continue
"""
CATCHES = """                try:
                    found = bucket.result()
                except OSError:
                    continue
"""


def ring() -> str:
    """The module of project 1 that the solution imports."""
    return solution(NOTEBOOK, "ring")


DESIGNS = Designs(
    NAME,
    right(),
    wrong(),
    empty="def connect(*arguments, **names):\n    raise NotImplementedError()\n",
    short={
        "steps": [[((3, 2, 2), [[1, 1]] * 2, 1)]],
        "uneven": [[((3, 2, 2), [[1, 2], [0, 1]], 1)]],
        "starts": [[((3, 2, 2), [[1, 1]], 1, False)]],
        "traffic": ((40, 40, 30), [[1, 1]] * 2, 5000),
        "timeout": 0.5,
    },
    circles=1 + 9,
    label=("MB sent per step: 1.316 with N = 2 (formula 1.316)",),
    files={f"{RING}.py": ring()},
)
