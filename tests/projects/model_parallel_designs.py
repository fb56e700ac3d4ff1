"""Modules that students could write for project 4: right ones of different designs, and wrong ones.

Most wrong ones are the reference solution with one change, as written by `changed`.
"""

from __future__ import annotations

import os

from tests.projects.designs import Designs, Wrong, replace, solution

NAME = "model_parallel"
GPIPE = '''
"""GPipe with blocking sends. The backward passes run in reverse order. Interleaved columns."""

import socket
import struct

import numpy as np


def connect(rank, listener, addresses, timeout):
    listener.settimeout(timeout)
    above = below = None
    if rank + 1 < len(addresses):
        below = socket.create_connection(addresses[rank + 1], timeout)
    if rank > 0:
        above, _address = listener.accept()
        above.settimeout(timeout)
    return Pipe(rank, above, below)


def send(end, array):
    rows, columns = array.shape
    end.sendall(struct.pack("!II", rows, columns) + array.tobytes())


def receive(end):
    rows, columns = struct.unpack("!II", receive_bytes(end, 8))
    return np.frombuffer(receive_bytes(end, 8 * rows * columns)).reshape(rows, columns)


def receive_bytes(end, count):
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = end.recv_into(view)
        if got == 0:
            raise EOFError("the connection is closed")
        view = view[got:]
    return data


class Pipe:
    def __init__(self, rank, above, below):
        self.rank, self.above, self.below = rank, above, below

    def train_stage(self, layer, batches, micro_batches, learning_rate):
        return [self.batch(layer, *batch, micro_batches, learning_rate) for batch in batches]

    def batch(self, layer, examples, labels, m, rate):
        sums, stack, total = 0.0, [], np.zeros(layer.weights.shape)
        for x, t in zip(np.array_split(examples, m), np.array_split(labels, m)):
            if self.above:
                x = receive(self.above)
            y = layer.forward(x)
            if self.below:
                send(self.below, y)
                stack.append((x, y, t))
            else:
                loss, error = layer.loss(y, t)
                sums += loss * len(t)
                stack.append((x, y, error * len(t)))
        del x, y, t
        while stack:
            x, y, error = stack.pop()
            if self.below:
                error = receive(self.below)
            up, gradient = layer.backward(x, y, error)
            del x, y, error
            total += gradient
            if self.above:
                send(self.above, up)
        layer.weights = layer.weights - rate * total / len(labels)
        return sums / len(labels)

    def create_block(self, w1, b1, w2, b2):
        return Columns(self, w1, b1, w2, b2)


class Columns:
    """Process 0 has the even columns and b2, and process 1 has the odd columns."""

    def __init__(self, pipe, w1, b1, w2, b2):
        self.rank, self.end = pipe.rank, pipe.above or pipe.below
        own = slice(pipe.rank, None, 2)
        self.w1, self.b1 = np.ascontiguousarray(w1[:, own]), b1[own].copy()
        self.w2, self.b2 = w2[own].copy(), b2 * (pipe.rank == 0)

    def add(self, part):
        if self.rank == 0:
            send(self.end, part)
            return part + receive(self.end)
        other = receive(self.end)
        send(self.end, part)
        return other + part

    def forward(self, x):
        self.x, self.h = x, np.tanh(x @ self.w1 + self.b1)
        return self.add(self.h @ self.w2 + self.b2)

    def backward(self, dy):
        self.dy = dy
        self.dz = dy @ self.w2.T * (1 - self.h * self.h)
        return self.add(self.dz @ self.w1.T)

    def update(self, rate):
        self.w1 -= rate * (self.x.T @ self.dz)
        self.b1 -= rate * self.dz.sum(0)
        self.w2 -= rate * (self.h.T @ self.dy)
        if self.rank == 0:
            self.b2 -= rate * self.dy.sum(0)
'''
PHASES = '''
"""1F1B with warm-up, steady state and cool-down, as in Megatron-LM. Threads receive into queues."""

import io
import queue
import socket
import struct
import threading
from multiprocessing.connection import Connection

import numpy as np


class Neighbor:
    def __init__(self, sock, timeout):
        sock.settimeout(None)  # for the thread, which waits between two batches
        limit = struct.pack("@ll", int(timeout), int(timeout % 1 * 1e6))  # for send_bytes
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self.connection = Connection(sock.detach())
        self.timeout, self.arrived = timeout, queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while True:
                self.arrived.put(np.load(io.BytesIO(self.connection.recv_bytes())))
        except (OSError, EOFError) as error:
            self.arrived.put(error)

    def get(self):
        found = self.arrived.get(timeout=self.timeout)
        if isinstance(found, Exception):
            raise ConnectionError("the neighbor does not answer") from found
        return found

    def put(self, array):
        stream = io.BytesIO()
        np.save(stream, array)
        self.connection.send_bytes(stream.getbuffer())


def connect(rank, listener, addresses, timeout):
    neighbors = [None, None]
    if rank:
        neighbors[0] = Neighbor(socket.create_connection(addresses[rank - 1], timeout), timeout)
    if rank < len(addresses) - 1:
        listener.settimeout(timeout)
        neighbors[1] = Neighbor(listener.accept()[0], timeout)
    return Stage(rank, len(addresses), *neighbors)


class Stage:
    def __init__(self, rank, size, left, right):
        self.rank, self.size, self.left, self.right = rank, size, left, right

    def train_stage(self, layer, batches, micro_batches, learning_rate):
        losses = []
        for examples, labels in batches:
            self.layer, self.total = layer, len(labels)
            self.inputs = iter(np.array_split(examples, micro_batches))
            self.labels = iter(np.array_split(labels, micro_batches))
            self.kept, self.losses, self.gradients = [], [], []
            warm_up = min(micro_batches, self.size - 1 - self.rank)
            for _ in range(warm_up):
                self.forward()
            for _ in range(micro_batches - warm_up):
                self.forward()
                self.backward()
            for _ in range(warm_up):
                self.backward()
            layer.weights[:] -= learning_rate * sum(self.gradients)
            losses.append(sum(self.losses))
        return losses

    def forward(self):
        x, labels = next(self.inputs), next(self.labels)
        if self.left:
            x = self.left.get()
        y = self.layer.forward(x)
        error = None
        if self.right:
            self.right.put(y)
        else:
            loss, error = self.layer.loss(y, labels)
            self.losses.append(loss * len(labels) / self.total)
            error *= len(labels) / self.total
        self.kept.append((x, y, error))

    def backward(self):
        x, y, error = self.kept.pop(0)
        if self.right:
            error = self.right.get()
        error, gradient = self.layer.backward(x, y, error)
        self.gradients.append(gradient)
        if self.left:
            self.left.put(error)

    def create_block(self, w1, b1, w2, b2):
        cut = (w1.shape[1] + 1) // 2
        mine = np.arange(w1.shape[1]) < cut
        if self.rank:
            mine = ~mine
        return Half(self.left or self.right, w1[:, mine], b1[mine], w2[mine], b2.copy())


class Half:
    def __init__(self, other, *weights):
        self.other, self.weights, self.changes = other, list(weights), []

    def reduce(self, part):
        self.other.put(part)
        return part + self.other.get()

    def forward(self, x):
        w1, b1, w2, b2 = self.weights
        h = np.tanh(x @ w1 + b1)
        self.backward = lambda dy: self.back(x, h, dy)
        return self.reduce(h @ w2) + b2

    def back(self, x, h, dy):
        w1, b1, w2, b2 = self.weights
        dz = (1 - h**2) * (dy @ w2.T)
        self.changes = [x.T @ dz, dz.sum(0), h.T @ dy, dy.sum(0)]
        return self.reduce(dz @ w1.T)

    def update(self, rate):
        self.weights = [w - rate * change for w, change in zip(self.weights, self.changes)]
'''


def reference() -> str:
    """The module of the solution."""
    return solution("04_model_parallel")


def changed(*pairs: tuple[str, str]) -> str:
    """The reference solution with some texts replaced."""
    return replace(reference(), *pairs)


LIMIT = "if len(in_flight) == self.stages_left:"


def right() -> dict[str, str]:
    """Five designs that reach all goals."""
    return {
        "1F1B": reference(),
        "GPipe with threads that send": changed((LIMIT, "if False:")),
        "GPipe without threads": GPIPE,
        "phases": PHASES,
        "GPipe with threads that receive": replace(
            PHASES,
            ("warm_up = min(micro_batches, self.size - 1 - self.rank)", "warm_up = micro_batches"),
        ),
    }


def wrong() -> dict[str, Wrong]:
    """Modules with one fault each, which is named in the message."""
    share = "share = len(part) / len(labels)"
    update = "            layer.weights -= learning_rate * gradient\n"
    backward = "gradient += self.backward(layer, *in_flight.popleft())"
    send_gradient = "            self.previous.send(inputs_gradient)\n"
    timeout = "        end.settimeout(timeout)\n"
    return {
        "sum of means": Wrong(
            changed((share, "share = 1")), 6, ("sum of the micro-batches' means",)
        ),
        "mean of means": Wrong(
            changed((share, "share = 1 / micro_batches")),
            16,
            ("This is the mean of the micro-batches' means",),
        ),
        "scaled twice": Wrong(
            changed((update, update.replace("* gradient", "* gradient / micro_batches"))),
            6,
            ("by the number of micro-batches once too often",),
        ),
        "last micro-batch": Wrong(
            changed(
                ("gradient += self.backward", "gradient = self.backward"), (share, "share = 1")
            ),
            6,
            ("This is the result of the last micro-batch alone",),
        ),
        "update per micro-batch": Wrong(
            changed(
                (
                    backward,
                    "layer.weights -= learning_rate * self.backward(layer, *in_flight.popleft())",
                ),
                (update, ""),
            ),
            6,
            ("in process 0, they changed between two micro-batches",),
        ),
        "reverse order": Wrong(
            changed(
                (LIMIT, "if False:"),
                (
                    "*in_flight.popleft()",
                    "*(in_flight.popleft() if self.previous else in_flight.pop())",
                ),
            ),
            6,
            ("used the activations of the micro-batches in reverse order",),
        ),
        "stale activations": Wrong(
            changed(
                (LIMIT, "if False:"),
                (
                    "inputs_gradient, weights_gradient = layer.backward(inputs",
                    "inputs, outputs = self.latest\n"
                    "        inputs_gradient, weights_gradient = layer.backward(inputs",
                ),
                (
                    "outputs = layer.forward(inputs)\n",
                    "outputs = layer.forward(inputs)\n        self.latest = inputs, outputs\n",
                ),
            ),
            6,
            ("had no forward pass, or whose backward pass had already run",),
        ),
        "loss of the last micro-batch": Wrong(
            changed(("loss += share * part_loss", "loss = part_loss")),
            6,
            ("the mean loss of batch 0 is", "This is the result of the last micro-batch alone"),
        ),
        "no micro-batches": Wrong(
            changed(("np.arange(len(labels)), micro_batches)", "np.arange(len(labels)), 1)")),
            6,
            ("each process calls layer.forward 2 times",),
        ),
        "one at a time": Wrong(
            changed((LIMIT, "if in_flight:")),
            17,
            ("Process 0 never has two micro-batches in flight",),
        ),
        "sends outputs late": Wrong(
            changed(
                (LIMIT, "if False:"),
                (
                    "            self.following.send(outputs)\n",
                    "            self.late.append(outputs)\n",
                ),
                (
                    "            while in_flight:\n",
                    "            for outputs in self.late:\n"
                    "                self.following.send(outputs)\n"
                    "            while in_flight:\n",
                ),
                (
                    "            in_flight, loss,",
                    "            self.late = []\n            in_flight, loss,",
                ),
            ),
            15,
            ("could start at 1. Send each output as soon as it exists",),
        ),
        "sends gradients late": Wrong(
            changed(
                (LIMIT, "if False:"),
                (send_gradient, "            self.late.append(inputs_gradient)\n"),
                (
                    update,
                    "            for array in self.late:\n"
                    "                self.previous.send(array)\n" + update,
                ),
                (
                    "            in_flight, loss,",
                    "            self.late = []\n            in_flight, loss,",
                ),
            ),
            15,
            ("Send each gradient as soon as it exists",),
        ),
        "keeps all activations": Wrong(
            changed(
                (
                    "                in_flight.append(kept)\n",
                    "                in_flight.append(kept)\n"
                    "                self.all.append(kept)\n",
                ),
                (
                    "            in_flight, loss,",
                    "            self.all = []\n            in_flight, loss,",
                ),
            ),
            18,
            ("After its backward pass, a micro-batch no longer needs its inputs",),
        ),
        "sends float32": Wrong(
            changed(
                ("self.end.sendall(array)", "self.end.sendall(array.astype('float32'))"),
                (
                    "np.frombuffer(self._read(8 * int(shape.prod())))",
                    "np.frombuffer(self._read(4 * int(shape.prod())), 'float32').astype(float)",
                ),
            ),
            0,
            ("Are all numbers of type float64 when they are sent?",),
        ),
        "sends labels too": Wrong(
            changed(
                (
                    "            self.following.send(outputs)\n",
                    "            self.following.send(outputs)\n"
                    "            self.following.send(np.tile(labels[:, None], 50) + 0.0)\n",
                ),
                (
                    "inputs = self.previous.receive() if self.previous else examples\n",
                    "inputs = self.previous.receive() if self.previous else examples\n"
                    "        if self.previous:\n            self.previous.receive()\n",
                ),
            ),
            18,
            ("Send the outputs of a layer and the gradient of its inputs, and no more",),
        ),
        "waits forever": Wrong(
            changed((timeout, "        end.settimeout(None)\n")),
            19,
            ("process 0 was still waiting after 8 s", "Limit every wait"),
        ),
        "ignores errors": Wrong(
            changed(
                (
                    "        data = self.file.read(count)\n",
                    "        try:\n            data = self.file.read(count)\n"
                    "        except OSError:\n            data = b''\n",
                ),
                (
                    '            raise ConnectionError("the neighbor has closed the connection")\n',
                    "            data = data.ljust(count, b'\\0')\n",
                ),
                ("self.started.popleft().result()", "self.started.popleft().exception()"),
            ),
            19,
            ("Do not ignore socket errors",),
        ),
        "no all-reduce in the backward pass": Wrong(
            changed(("return self.all_reduce(error @ w1.T)", "return error @ w1.T")),
            14,
            ("backward returns what one process computes", "are parts of a sum"),
        ),
        "bias twice": Wrong(
            changed(
                ("self.all_reduce(self.hidden @ w2) + b2", "self.all_reduce(self.hidden @ w2 + b2)")
            ),
            14,
            ("Both processes added b2",),
        ),
        "mean of the processes": Wrong(
            changed(("        return total", "        return total / 2")),
            14,
            ("This is the mean of both processes",),
        ),
        "even columns only": Wrong(
            changed(
                ("slice(half, None) if self.previous", "slice(half, 2 * half) if self.previous")
            ),
            19,
            ("(5 inputs, 7 columns", "is odd, one process keeps one more"),
        ),
        "sums the gradient of b2": Wrong(
            changed(("gradient.sum(axis=0),\n        ]", "2 * gradient.sum(axis=0),\n        ]")),
            18,
            ("The update used twice the gradient of b2",),
        ),
        "all weights in each process": Wrong(
            changed(
                (
                    "w1[:, own].copy(), b1[own].copy(), w2[own].copy(), b2.copy())",
                    "w1.copy(), b1.copy(), w2.copy(), b2.copy())",
                ),
                (
                    "        self.other.send(array)\n        total = array + self.other.receive()\n"
                    "        self.other.finish()\n",
                    "        total = array\n",
                ),
            ),
            17,
            ("Each process computes one part of a sum", "A slice of an array is a view"),
        ),
        "views of all weights": Wrong(
            changed(
                (
                    "w1[:, own].copy(), b1[own].copy(), w2[own].copy()",
                    "w1[:, own], b1[own], w2[own]",
                )
            ),
            19,
            ("A slice of an array is a view",),
        ),
        "reduces the gradients": Wrong(
            changed(
                (
                    "        for weights, gradient in zip(",
                    "        self.gradients[3] = self.all_reduce(self.gradients[3][None])[0] / 2\n"
                    "        for weights, gradient in zip(",
                ),
            ),
            19,
            ("and an update needs none",),
        ),
    }


SHORT = {
    "steps": [[((3, 4, 2), [4, 4], 2)]],
    "uneven": [[((3, 4, 2), [5], 3)]],
    "traffic": [[((20, 200, 10), [40], 2)]],
    "bubble": [((3, 4, 2), [4], 1)],
    "memory": [((20, 500, 10), [200], 2)],
    "killed": ((20, 200, 300, 10), [20] * 2, 2),
    "updates": [((3, 5, 2), [2, 3])],
    "exchange": [((100, 10, 100), [20])],
    "halves": (500, 1200, 500),
    "frozen": ((5, 6, 1000), 200),
    "timeout": 0.5,
}
DESIGNS = Designs(
    NAME,
    right(),
    wrong(),
    empty="def connect(*arguments):\n    raise NotImplementedError()\n",
    short=SHORT,
    circles=1 + (12 if os.path.exists("/proc") else 8),
    label=(
        "% of time spent waiting: 50 with m = 1 (formula 50), 33.33 with m = 2",
        "11.11 with m = 8 (formula 11.11)",
        "8 with m = 1 (formula 8), 16",
        "(formula 24.24)",
    ),
)
