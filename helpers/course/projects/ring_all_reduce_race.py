"""Project 1, the bonus: a student's all-reduce and TensorFlow's RING, measured in turns.

Both sum 350,000 numbers of float32 in two processes over loopback, without the relay. The call of
the student's module includes its copies of the array. The call of TensorFlow is a `tf.function`
that only reduces, and includes the time to call it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from helpers.cluster.local import LocalCluster
from helpers.course.projects.group import HANG, ProcessGroup
from helpers.course.projects.observations import all_returned
from helpers.course.projects.race import WORKERS, compare_medians, take_turns
from helpers.course.projects.ring_all_reduce_report import GRADIENTS
from helpers.course.projects.ring_all_reduce_runs import NAME, make_arrays
from helpers.i18n import _
from helpers.strategies import MULTI_WORKER

ROUNDS, CALLS, WARM_UP = 3, 100, 10


class Times(NamedTuple):
    """The seconds of all calls, of process 0."""

    own: list[float]
    tensorflow: list[float]

    def __str__(self) -> str:
        text = _(
            "Median time of an all-reduce of 1.4 MB in two processes: {own} ms with your module, "
            "{other} ms with TensorFlow's RING. Yours is {ratio} times as fast."
        )
        return compare_medians(text, self.own, self.tensorflow)


def race(module: str) -> None:
    """Measures a module and TensorFlow's RING in turns, and prints the median times."""
    print(measure(Path(module)))


def measure(module: Path, rounds: int = ROUNDS, calls: int = CALLS) -> Times:
    """The times of both, in turns.

    Raises:
      ConfigError: the module does not work with two processes.
    """
    own: list[float] = []
    tensorflow: list[float] = []

    def own_turn(group: ProcessGroup) -> bool:
        group.put([[array] for array in make_arrays(WORKERS, GRADIENTS, seed=0)])
        replies = group.call("all_reduce", 10 * HANG, repeat=WARM_UP + calls)
        own.extend(replies[0].seconds[WARM_UP:])
        return all_returned(replies)

    def other_turn(cluster: LocalCluster) -> None:
        tensorflow.extend(cluster.run(_all_reduce, GRADIENTS[0], calls, WARM_UP, timeout=120)[0])

    take_turns(module, NAME, rounds, own_turn, other_turn)
    return Times(own, tensorflow)


def _all_reduce(length: int, calls: int, warm_up: int) -> list[float]:
    """Runs in each worker of TensorFlow."""
    import time

    from helpers.either_keras import tf
    from helpers.worker.devices import make_strategy

    strategy = make_strategy(MULTI_WORKER, "RING")
    numbers = tf.random.normal([length])

    def reduce() -> object:
        return tf.distribute.get_replica_context().all_reduce("SUM", numbers)

    function, seconds = tf.function(lambda: strategy.run(reduce)), []
    for _call in range(warm_up + calls):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds[warm_up:]
