"""Project 5: the reference solution, and ParameterServerStrategy with its coordinator.

Both run a descent like that of the project's checks in two workers and one server. In addition,
each update adds 1 to the element of its worker, so the values that a worker reads show how stale
they are.
"""

from __future__ import annotations

import socket
import time
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from helpers.cluster.local import LocalCluster
from helpers.course.projects import worker
from helpers.course.projects.parameter_server_loops import SERVER
from helpers.course.projects.parameter_server_runs import SMALL
from helpers.course.projects.race import WORKERS
from helpers.worker.context import WorkerContext

ROUNDS, UPDATES, BOUND, RATE = 5, 400, 2, 0.3
DELAY = 0.01  # seconds by which the slow worker extends each step
CONNECT_SECONDS = 30.0
SLOW = WORKERS - 1


class Result(NamedTuple):
    """One run.

    Attributes:
      rate: updates per second.
      staleness: of each read: by how many updates the worker was ahead of the slowest worker whose
        updates it read.
    """

    rate: float
    staleness: list[int]


def make_descent() -> tuple[Any, Any]:
    """The initial values, and the update of each worker if all values are 0."""
    generator = np.random.default_rng(0)
    initial, targets = (generator.standard_normal(shape) for shape in (SMALL, (WORKERS, SMALL)))
    initial[:WORKERS] = 0
    constants = RATE * targets
    constants[:, :WORKERS] = np.eye(WORKERS)
    return initial, constants


def make_rates() -> Any:
    """The factor of each value in an update, which is 0 for the counters."""
    return np.repeat([0, RATE], [WORKERS, SMALL - WORKERS])


def measure_own(module: Path, updates: int, delay: float) -> Result:
    """Runs the module, whose workers make the same number of updates."""
    arguments = str(module), updates // WORKERS, delay
    with LocalCluster(workers=WORKERS + 1) as cluster:
        final, *loops = cluster.run(_run_own, *arguments, timeout=120)
    starts, ends, stale = zip(*loops, strict=True)
    return _result(updates, max(ends) - max(starts), [*chain(*stale)], final)


def measure_tensorflow(updates: int, delay: float) -> Result:
    """Runs TensorFlow, whose coordinator assigns each update to a free worker."""
    with LocalCluster(workers=WORKERS, ps=1) as cluster:
        [(seconds, stale, final)] = cluster.run(_coordinate, updates, delay, timeout=120)
    return _result(updates, seconds, stale, final)


def _run_own(context: WorkerContext, path: str, steps: int, delay: float) -> Any:
    """Runs in each process: returns the final values, or the start, the end and the staleness."""
    module, rank = worker.load(Path(path)), context.config.task.index
    host, _colon, port = context.config.cluster["worker"][SERVER].rpartition(":")
    initial, constants = make_descent()
    if rank == SERVER:
        with socket.create_server((host, int(port))) as listener:
            return module.serve(listener, WORKERS, BOUND, initial)
    place, rates, stale = rank - 1, make_rates(), []
    connection = _connect(module, rank, (host, int(port)))
    start = time.monotonic()
    for _step in range(steps):
        pulled = connection.pull()
        stale.append(_staleness(pulled, place))
        if place == SLOW:
            time.sleep(delay)
        connection.push(constants[place] - rates * pulled)
    end = time.monotonic()
    connection.close()
    return start, end, stale


def _connect(module: Any, rank: int, address: tuple[str, int]) -> Any:
    """Connects to the server as soon as it listens."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return module.connect(rank, address)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _coordinate(updates: int, delay: float) -> tuple[float, list[int], Any]:
    """Runs in the coordinator: returns the seconds, the staleness and the final values."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops.testing import sleep

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    initial, constants = make_descent()
    with strategy.scope():
        values = tf.Variable(initial)

    def update() -> Any:
        place = tf.distribute.coordinator.experimental_get_current_worker_index()
        pulled = values.read_value()
        if delay:
            pause = tf.where(place == SLOW, round(1e6 * delay), 0)
            dataset = tf.data.Dataset.from_tensors(pulled).apply(sleep(tf.cast(pause, tf.int64)))
            pulled = dataset.get_single_element()
        values.assign_add(tf.constant(constants)[place] - make_rates() * pulled)
        return place, pulled[:WORKERS]

    function = tf.function(update)
    for _turn in range(10 * WORKERS):  # the trace, and the first updates of each worker
        coordinator.schedule(function)
    coordinator.join()
    values.assign(initial)
    start = time.monotonic()
    futures = [coordinator.schedule(function) for _turn in range(updates)]
    coordinator.join()
    seconds = time.monotonic() - start
    stale = [_staleness(counts, place) for place, counts in coordinator.fetch(futures)]
    return seconds, stale, values.numpy()


def _staleness(pulled: Any, place: int) -> int:
    counts = pulled[:WORKERS]
    return int(counts[place] - counts.min())


def _result(updates: int, seconds: float, staleness: list[int], final: Any) -> Result:
    assert final[:WORKERS].sum() == updates, "an update was lost"
    return Result(updates / seconds, staleness)
