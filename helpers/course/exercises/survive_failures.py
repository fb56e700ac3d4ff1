"""The tasks of lesson 8: when to save, repeated steps, elastic groups, resuming, a hang."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from helpers.cluster.local import LocalCluster
from helpers.course.criteria import Criterion, Exercise, expect, join_numbers
from helpers.course.exercises.elastic_groups import WORKER_BATCHES
from helpers.errors import ClusterError, ConfigError, UserCodeError
from helpers.i18n import _, gettext_noop, join_clauses, ngettext, number

Case = Mapping[str, Any]

HANG_TIMEOUT = 8  # seconds from the start of its function after which an answer counts as hanging

# Young (1974), "A first order approximation to the optimum checkpoint interval", as in lesson 8.
CLOSE = 1.01  # times the minimum loss of time, because the optimum is flat


def _intervals(answer: Callable[..., Any], case: Case) -> list[Any]:
    return [answer(**numbers) for numbers in [*case["usual"], *case["extreme"]]]


def _lost(steps: float, numbers: Mapping[str, float]) -> float:
    """The share of time lost to saving, and to repeating half an interval per failure."""
    interval = steps * numbers["step_seconds"]
    between_faults = numbers["machine_seconds"] / numbers["machines"]
    return numbers["save_seconds"] / interval + interval / 2 / between_faults


def _close(found: list[Any], case: Case) -> None:
    for place, numbers in enumerate(case["usual"]):
        steps = found[place]
        positive = isinstance(steps, (int, float)) and steps > 0
        expected, hint = _("a number of steps"), _("Return save_checkpoints_steps, a number.")
        expect(positive, expected=expected, found=repr(steps), hint=hint)
        between_faults = numbers["machine_seconds"] / numbers["machines"]
        interval = (2 * numbers["save_seconds"] * between_faults) ** 0.5
        least = _lost(interval / numbers["step_seconds"], numbers)
        expect(
            _lost(steps, numbers) < CLOSE * least,
            expected=_("{part} more time than without saving and faults, with {numbers}").format(
                part=number(least, ".2%"), numbers=dict(numbers)
            ),
            found=_("{part} more time, with save_checkpoints_steps={steps}").format(
                part=number(_lost(steps, numbers), ".2%"), steps=number(steps, ",g")
            ),
            hint=_("How often does any of the machines fail? Lesson 8 has the optimal interval."),
        )


def _whole(found: list[Any], case: Case) -> None:
    for steps, numbers in zip(found, [*case["usual"], *case["extreme"]], strict=True):
        expect(
            isinstance(steps, int) and steps >= 1,
            expected=_("a whole number of steps, at least 1, with {numbers}").format(
                numbers=dict(numbers)
            ),
            found=repr(steps),
            hint=_(
                "save_checkpoints_steps must be a whole number. How often can you save at most?"
            ),
        )


def _record(answer: Callable[..., Any], case: Case) -> list[float]:
    """The results of real steps on a parameter server, some of which run twice."""
    amounts, order = case["amounts"], case["order"]

    def coordinate() -> list[float]:
        from helpers.either_keras import tf

        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            recorded = tf.Variable(tf.zeros([len(amounts)]))

        def step(number: Any, amount: Any) -> Any:
            answer(recorded, number, amount)
            return number

        graph = tf.function(step)
        for place in order:
            coordinator.schedule(graph, args=(tf.constant(place), tf.constant(amounts[place])))
            coordinator.join()
        return [float(amount) for amount in recorded.numpy()]

    with LocalCluster(workers=1, ps=1) as cluster:
        [found] = cluster.run(coordinate, timeout=60)
    return list(found)


def _recorded(found: list[float], case: Case) -> None:
    wanted = [
        amount if number in case["order"] else 0.0 for number, amount in enumerate(case["amounts"])
    ]
    expect(
        found == wanted,
        expected=join_numbers(wanted),
        found=_("{found}, when the steps that ran were {order}").format(
            found=join_numbers(found), order=case["order"]
        ),
        hint=_("The result of a step must depend on its number, not on how often it has run."),
    )


def _count(answer: Callable[..., Any], case: Case) -> list[int]:
    """The steps reported by a real process that is killed once and restarted."""
    with tempfile.TemporaryDirectory() as folder, LocalCluster(workers=1) as cluster:
        cluster.run(_counter(answer, Path(folder), **case), timeout=60)
        return [int(line) for line in (Path(folder) / "steps").read_text().split()]


def _counter(
    answer: Callable[..., Any], folder: Path, killed_at: int, limit: int
) -> Callable[[Any], None]:
    def run(context: Any) -> None:
        first = not (folder / "steps").exists()

        def report(step: int) -> None:
            with open(folder / "steps", "a") as file:
                print(step, file=file)
            context.report("step", step=step, loss=0.0, examples_per_second=None)
            if first and step == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)

        answer(str(folder / "checkpoints"), limit, report)

    return run


def _went_on(steps: list[int], case: Case) -> None:
    begun = _begun_again(steps)
    expect(
        1 < begun <= case["killed_at"] + 1 and steps[-1] == case["limit"],
        expected=_(
            "a second process that resumes from a checkpoint and reaches step {limit}"
        ).format(limit=case["limit"]),
        found=_("killed at step {step}, restarted at step {begun}").format(
            step=case["killed_at"], begun=begun
        ),
        hint=_("At the start, look for a saved checkpoint."),
    )


def _lost_little(steps: list[int], case: Case) -> None:
    lost = case["killed_at"] + 1 - _begun_again(steps)
    expect(
        lost < 10,
        expected=_("fewer than 10 steps lost"),
        found=ngettext("{count} step lost", "{count} steps lost", lost).format(count=lost),
        hint=_("How often is a checkpoint written, and which one is read?"),
    )


def _begun_again(steps: list[int]) -> int:
    """The first step of the second process."""
    pairs = list(itertools.pairwise(steps))
    again = [after for before, after in pairs if after != before + 1]
    return again[0] if again else steps[-1] + 1


def _add_up(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The sums that real workers return, or where they wait if the answer hangs."""
    numbers = case["numbers"]

    def run(context: Any) -> Any:
        from helpers.either_keras import tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()

        def replica_sum(value: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(value))

        summed = tf.function(lambda value: strategy.run(replica_sum, args=(value,)))
        own = list(numbers[context.config.task.index])
        return answer(own, lambda value: float(summed(tf.constant(float(value)))))

    with LocalCluster(workers=len(numbers), max_restarts=0) as cluster:
        try:
            return {"sums": cluster.run(run, timeout=HANG_TIMEOUT)}
        except UserCodeError:
            raise
        except (ClusterError, ConfigError):  # the latter if a worker has finished
            if not (stacks := cluster.stacks()):
                raise  # a worker has crashed
            return {"waits": join_clauses(map(str, stacks.values()))}


def _added_up(found: Mapping[str, Any], case: Case) -> None:
    total = sum(number for own in case["numbers"] for number in own if number >= 0)
    expected = _("every worker returns {sum}").format(sum=join_numbers([total]))
    waits = found.get("waits")
    hint = _("Which call does only one of the workers make? The stacks name its line.")
    expect(waits is None, expected=expected, found=waits, hint=hint)
    sums = found["sums"]
    expect(
        sums == [total] * len(case["numbers"]),
        expected=expected,
        found=sums,
        hint=_("Each worker must return the sum, in which every undamaged number counts once."),
    )


MONTH, YEAR = 30 * 86400, 365 * 86400
EXERCISES = {
    "save_every": Exercise(
        _intervals,
        (
            Criterion(2, gettext_noop("The least time is lost."), _close),
            Criterion(
                1, gettext_noop("It is a whole number of steps, even for bad machines."), _whole
            ),
        ),
        {
            "usual": [
                {"save_seconds": 2, "machine_seconds": MONTH, "machines": 64, "step_seconds": 0.1},
                {"save_seconds": 30, "machine_seconds": YEAR, "machines": 1000, "step_seconds": 1},
            ],
            "extreme": [
                {"save_seconds": 1, "machine_seconds": 600, "machines": 600, "step_seconds": 10}
            ],
        },
    ),
    "record": Exercise(
        _record,
        (
            Criterion(
                3,
                gettext_noop("A step that runs twice has the same result as one that runs once."),
                _recorded,
            ),
        ),
        {"amounts": [2.0, -1.0, 0.5, 4.0], "order": [0, 1, 1, 3, 0]},
    ),
    "count": Exercise(
        _count,
        (
            Criterion(
                1, gettext_noop("A process that has died resumes from a checkpoint."), _went_on
            ),
            Criterion(1, gettext_noop("It loses few steps."), _lost_little),
        ),
        {"killed_at": 37, "limit": 50},
    ),
    "worker_batches": WORKER_BATCHES,
    "add_up": Exercise(
        _add_up,
        (Criterion(2, gettext_noop("All workers finish, with the same sum."), _added_up),),
        {"numbers": [[1.0, 2.0, 4.0, 8.0], [16.0, -1.0, 32.0, 64.0]]},
    ),
}
