"""Modules that students could write for project 3: right ones of different designs, and wrong ones.

Most wrong ones are the reference solution with one change, as written by `changed`.
"""

from __future__ import annotations

import os

from tests.projects.designs import Designs, Wrong, replace, solution

NAME = "sharded_adam"
INTERLEAVED = '''
"""One list of all elements; element i belongs to process i % N. All write into one file."""

import os

import numpy as np

PIECE = 10_000


def create_optimizer(parameters, group, rate, b1, b2, epsilon):
    return Interleaved([p.reshape(-1) for p in parameters], group, (rate, b1, b2, epsilon))


class Interleaved:
    def __init__(self, flats, group, settings):
        self.flats, self.group, self.settings, self.t = flats, group, settings, 0
        self.ends = np.cumsum([0] + [len(flat) for flat in flats])
        self.own = -(-int(self.ends[-1]) // group.size)
        self.m, self.v = np.zeros(self.own, "f4"), np.zeros(self.own, "f4")

    def parts(self, start, stop):
        """The parts of the arrays that contain the elements from start to stop."""
        for index, (first, last) in enumerate(zip(self.ends, self.ends[1:])):
            low, high = max(start, first), min(stop, last)
            if low < high:
                yield index, slice(low - first, high - first), slice(low - start, high - start)

    def collect(self, arrays, start, count):
        block = np.zeros(count, "f4")
        for index, there, here in self.parts(start, start + count):
            block[here] = arrays[index].reshape(-1)[there]
        return block

    def step(self, gradients):
        rate, b1, b2, epsilon = self.settings
        n, rank = self.group.size, self.group.rank
        self.t += 1
        alpha = rate * (1 - b2**self.t) ** 0.5 / (1 - b1**self.t)
        for first in range(0, self.own, PIECE):
            m, v = self.m[first : first + PIECE], self.v[first : first + PIECE]
            block = self.collect(gradients, first * n, len(m) * n)
            columns = np.ascontiguousarray(block.reshape(len(m), n).T).reshape(-1)
            g = self.group.reduce_scatter(columns) / n
            m *= b1
            m += (1 - b1) * g
            v *= b2
            v += (1 - b2) * g * g
            mine = self.collect(self.flats, first * n, len(m) * n).reshape(len(m), n)[:, rank]
            new = self.group.all_gather(mine - alpha * m / (np.sqrt(v) + epsilon))
            new = new.reshape(n, len(m)).T.reshape(-1)
            for index, there, here in self.parts(first * n, (first + len(m)) * n):
                self.flats[index][there] = new[here]

    def save(self, folder):
        total, n, rank = int(self.ends[-1]), self.group.size, self.group.rank
        count = len(range(rank, total, n))
        path = os.path.join(folder, "state")
        if rank == 0:
            with open(path, "wb") as file:
                file.truncate(4 + 8 * total)
                file.write(np.int32(self.t).tobytes())
        self.group.all_gather(np.zeros(1, "f4"))  # wait until the file exists
        state = np.memmap(path, "f4", "r+", offset=4, shape=(2, total))
        state[0, rank::n], state[1, rank::n] = self.m[:count], self.v[:count]
        state.flush()

    def load(self, folder):
        total, n, rank = int(self.ends[-1]), self.group.size, self.group.rank
        path = os.path.join(folder, "state")
        state = np.memmap(path, "f4", "r", offset=4, shape=(2, total))
        count = len(range(rank, total, n))
        self.m[:count], self.v[:count] = state[0, rank::n], state[1, rank::n]
        self.t = int(np.fromfile(path, "i4", 1)[0])
'''
GATHERED = '''
"""Each parameter has N equal shards. Process 0 collects the moments, and writes all files."""

import pathlib

import numpy as np

COUNT = 20_000


class Shard:
    """This process's shard of one parameter."""

    def __init__(self, values, group):
        self.values, self.group = values, group
        self.length = -(-values.size // group.size)
        self.moments = [np.zeros(self.length, "float32") for _ in "mv"]

    def slices(self):
        """The same part of every shard, one part after another."""
        for low in range(0, self.length, COUNT):
            high = min(low + COUNT, self.length)
            starts = [rank * self.length + low for rank in range(self.group.size)]
            yield low, high, [slice(start, start + high - low) for start in starts]

    def take(self, array, slices):
        width = slices[0].stop - slices[0].start
        block = np.zeros(width * len(slices), np.float32)
        for place, one in enumerate(slices):
            part = array[one]
            block[place * width : place * width + len(part)] = part
        return block

    def give(self, array, slices, block):
        width = slices[0].stop - slices[0].start
        for place, one in enumerate(slices):
            part = array[one]
            part[:] = block[place * width : place * width + len(part)]

    def update(self, gradient, rate, b1, b2, epsilon):
        for low, high, slices in self.slices():
            g = self.group.reduce_scatter(self.take(gradient, slices))
            g /= self.group.size
            m, v = (moment[low:high] for moment in self.moments)
            m[:] = b1 * m + (1 - b1) * g
            v[:] = b2 * v + (1 - b2) * np.square(g)
            part = self.take(self.values, slices[self.group.rank :][:1])
            part -= rate * m / (np.sqrt(v) + epsilon)
            self.give(self.values, slices, self.group.all_gather(part))


class Optimizer:
    def __init__(self, parameters, group, rate, b1, b2, epsilon):
        self.shards = [Shard(array.reshape(-1), group) for array in parameters]
        self.group, self.rate, self.b1, self.b2, self.epsilon = group, rate, b1, b2, epsilon
        self.calls = 0

    def step(self, gradients):
        self.calls += 1
        rate = self.rate * np.sqrt(1 - self.b2**self.calls) / (1 - self.b1**self.calls)
        for shard, gradient in zip(self.shards, gradients, strict=True):
            shard.update(gradient.reshape(-1), float(rate), self.b1, self.b2, self.epsilon)

    def save(self, folder):
        for index, shard in enumerate(self.shards):
            whole = [self.group.all_gather(moment)[: shard.values.size] for moment in shard.moments]
            if self.group.rank == 0:
                np.save(pathlib.Path(folder, f"{index}.npy"), np.stack(whole))
        if self.group.rank == 0:
            pathlib.Path(folder, "calls").write_text(str(self.calls))

    def load(self, folder):
        self.calls = int(pathlib.Path(folder, "calls").read_text())
        for index, shard in enumerate(self.shards):
            for moment, saved in zip(shard.moments, np.load(pathlib.Path(folder, f"{index}.npy"))):
                own = saved[self.group.rank * shard.length :][: shard.length]
                moment[: len(own)] = own


create_optimizer = Optimizer
'''
UNSHARDED = '''
"""Adam with an all-reduce: all moments in every process."""

import numpy as np

BLOCK = 50_000


class Adam:
    def __init__(self, parameters, group, rate, b1, b2, epsilon):
        self.flats = [array.reshape(-1) for array in parameters]
        self.group, self.rate, self.b1, self.b2, self.epsilon = group, rate, b1, b2, epsilon
        self.m = [np.zeros_like(flat) for flat in self.flats]
        self.v = [np.zeros_like(flat) for flat in self.flats]
        self.t = 0

    def step(self, gradients):
        self.t += 1
        rate = self.rate * (1 - self.b2**self.t) ** 0.5 / (1 - self.b1**self.t)
        n = self.group.size
        for p, g, m, v in zip(self.flats, gradients, self.m, self.v):
            for low in range(0, len(p), BLOCK):
                part = slice(low, low + BLOCK)
                padded = np.zeros(-(-len(p[part]) // n) * n, "float32")
                padded[: len(p[part])] = g.reshape(-1)[part]
                mean = self.group.all_gather(self.group.reduce_scatter(padded))[: len(p[part])] / n
                m[part] = self.b1 * m[part] + (1 - self.b1) * mean
                v[part] = self.b2 * v[part] + (1 - self.b2) * mean**2
                p[part] -= rate * m[part] / (np.sqrt(v[part]) + self.epsilon)

    def save(self, folder):
        if self.group.rank == 0:
            np.savez(f"{folder}/all.npz", t=self.t, m=np.concatenate(self.m),
                     v=np.concatenate(self.v))

    def load(self, folder):
        saved = np.load(f"{folder}/all.npz")
        self.t = int(saved["t"])
        ends = np.cumsum([len(flat) for flat in self.flats])[:-1]
        self.m, self.v = np.split(saved["m"], ends), np.split(saved["v"], ends)


create_optimizer = Adam
'''


def reference() -> str:
    """The module of the solution."""
    return solution("03_sharded_adam")


def changed(*pairs: tuple[str, str]) -> str:
    """The reference solution with some texts replaced."""
    return replace(reference(), *pairs)


def right() -> dict[str, str]:
    """Three designs that reach all goals."""
    return {"blocks": reference(), "interleaved": INTERLEAVED, "gathered": GATHERED}


def wrong() -> dict[str, Wrong]:
    """Modules with one fault each, which is named in the message."""
    gather = "            group.all_gather(own, out=block)\n"
    mean = "group.reduce_scatter(gradient) / group.size"
    own_file = '        with np.load(Path(folder) / f"{self.group.rank}-of-{self.group.size}.npz")'
    load = changed().partition("        name = next(")[2].partition("    def _blocks")[0]
    return {
        "unsharded": Wrong(UNSHARDED, 15, ("160% of that", "Keep the moments of this process's")),
        "sum": Wrong(
            changed((mean, mean.partition(" /")[0])), 0, ("for the sum of the gradients",)
        ),
        "own gradient": Wrong(
            changed((mean, "gradient.reshape(group.size, -1)[group.rank]")),
            0,
            ("for the gradient of a single process",),
        ),
        "no correction": Wrong(
            changed(("self.learning_rate * correction", "self.learning_rate")),
            0,
            ("without bias correction",),
        ),
        "no gather": Wrong(changed((gather, "")), 0, ("This is its initial value",)),
        "indivisible": Wrong(
            changed(
                ("min(BLOCK, -(-left // self.group.size))", "min(BLOCK, left // self.group.size)"),
            ),
            17,
            ("This is its initial value",),
        ),
        "gathers gradients": Wrong(
            changed(
                (
                    mean,
                    "group.all_gather(gradient).reshape(group.size, group.size, -1).sum(0)"
                    "[group.rank] / group.size",
                )
            ),
            17,
            ("each gradient needs reduce_scatter once",),
        ),
        "double precision": Wrong(
            changed(('np.zeros(shape, "float32")', 'np.zeros(shape, "float64")')),
            14,
            ("120% of that", "the files contain at most", "a file of float64 is twice as large"),
        ),
        "copy of the parameters": Wrong(
            changed(("        self.steps = 0\n", COPY)),
            15,
            ("140% of that", "do not keep copies of the"),
        ),
        "large blocks": Wrong(
            changed(("BLOCK = 1 << 14", "BLOCK = 1 << 24")), 18, ("Temporary arrays need memory",)
        ),
        "forgets the steps": Wrong(
            changed(
                (
                    'moments, self.steps = saved["moments"], int(saved["steps"])',
                    'moments = saved["moments"]',
                )
            ),
            16,
            ("if load does not restore the number of steps",),
        ),
        "loads its own file": Wrong(
            changed(
                (
                    "        name = next(" + load,
                    own_file + ' as saved:\n            self.moments[:] = saved["moments"]\n\n',
                )
            ),
            16,
            ("raised FileNotFoundError", "(sharded_adam.py, line"),
        ),
        "restores nothing": Wrong(
            changed(("        name = next(" + load, "        pass\n\n")),
            16,
            ("if load restores nothing",),
        ),
        "reads what exists": Wrong(
            changed(
                ("            with np.load(Path", SKIP_MISSING + "            with np.load(Path"),
            ),
            19,
            ("load raises an error after a file has been deleted",),
        ),
        "every process saves everything": Wrong(
            UNSHARDED.replace(
                '        if self.group.rank == 0:\n            np.savez(f"{folder}/all',
                '        if True:\n            np.savez(f"{folder}/{self.group.rank}',
            ).replace("{folder}/all.npz", "{folder}/0.npz"),
            13,
            ("4 files with 1,9",),
        ),
        "epsilon of PyTorch": Wrong(
            changed(("(np.sqrt(v) + self.epsilon)", "(np.sqrt(v) + self.epsilon * root)"), ROOT),
            0,
            ("added to the square root of the corrected v, as in PyTorch",),
        ),
        "epsilon in the root": Wrong(
            changed(("(np.sqrt(v) + self.epsilon)", "np.sqrt(v + self.epsilon)")),
            0,
            ("if epsilon is added to v",),
        ),
        "flattened copies": Wrong(
            changed(("[parameter.reshape(-1) for", "[parameter.flatten() for")),
            0,
            ("No parameter has changed. flatten() returns a copy",),
        ),
        "counts from 0": Wrong(
            changed(("self.steps = self.group, self.steps + 1", "self.steps = self.group, 0")),
            0,
            ("it is nan in process", "In the first call of step, t is 1"),
        ),
        "load changes parameters": Wrong(
            changed(("        name = next(", ZERO + "        name = next(")),
            16,
            ("(3 processes, after load, saved by 4 processes)", "It changes no parameter"),
        ),
        "load leaves other moments": Wrong(
            changed(("        for start, stop, first in self._places():\n", MOMENTS)),
            16,
            ("step returns in every process (3 processes, after load, saved by 4 processes)",),
        ),
        "stage 1 of lesson 13": Wrong(
            LESSON, 10, ("is not divisible by", "has no attribute 'save'")
        ),
        "one process calls more": Wrong(
            changed(
                (
                    gather,
                    gather + "            if group.rank == 0:\n"
                    "                group.all_gather(own)\n",
                )
            ),
            0,
            ("process 0 was still running after 15 s",),
        ),
    }


ROOT = (
    "        done = 0\n",
    "        root, done = np.sqrt(1 - self.beta_2**self.steps), 0\n",
)
ZERO = """        for parameter in self.parameters:
            parameter[:] = 0
"""
MOMENTS = """        self.moments = self.moments[:, :1]
        for start, stop, first in []:
"""
LESSON = """
import numpy as np


class Lesson:
    def __init__(self, parameters, group, rate, beta_1, beta_2, epsilon):
        self.layers = [parameter.reshape(-1) for parameter in parameters]
        self.settings, self.group, self.steps = (rate, beta_1, beta_2, epsilon), group, 0
        self.states = [np.zeros([2, len(layer) // group.size], "float32") for layer in self.layers]

    def step(self, gradients):
        self.steps += 1
        for layer, state, gradient in zip(self.layers, self.states, gradients):
            gradient = self.group.reduce_scatter(gradient.reshape(-1)) / self.group.size
            share = len(gradient)
            part = layer[self.group.rank * share : (self.group.rank + 1) * share]
            self.adam(part, gradient, state)
            layer[:] = self.group.all_gather(part)

    def adam(self, part, gradient, state):
        rate, beta_1, beta_2, epsilon = self.settings
        state[0] += (1 - beta_1) * (gradient - state[0])
        state[1] += (1 - beta_2) * (gradient**2 - state[1])
        rate *= (1 - beta_2**self.steps) ** 0.5 / (1 - beta_1**self.steps)
        part -= rate * state[0] / (np.sqrt(state[1]) + epsilon)


create_optimizer = Lesson
"""
SKIP_MISSING = """            if len(list(Path(folder).glob(f"{rank}-of-*"))) == 0:
                continue
"""
COPY = """        self.steps = 0
        self.copies = [parameter.copy() for parameter in parameters]
"""


DESIGNS = Designs(
    NAME,
    right(),
    wrong(),
    empty="def create_optimizer(*arguments, **names):\n    raise NotImplementedError()\n",
    short={
        "weights": [(3, [(6, 2)])],
        "lengths": [(3, [(4,), (1,)])],
        "traffic": [(2, [(100, 100)])],
        "memory": [(2, [(1000, 2000)])],
        "restore": [(2, 1, [(100, 20)])],
    },
    circles=1 + (12 if os.path.exists("/proc") else 4),
    label=("MB sent per step: 0 with N = 1 (formula 0), 16.0", "(formula 36.02)"),
)
