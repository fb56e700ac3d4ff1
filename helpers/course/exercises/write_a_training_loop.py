"""The tasks of lesson 4: one pipeline per worker, a last batch, results, a loop that hangs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.course.criteria import Criterion, Exercise, expect, join_numbers
from helpers.i18n import _, gettext_noop, join_clauses, ngettext, number
from helpers.strategies import MIRRORED

Case = Mapping[str, Any]
Group = tuple[int, int]  # the number of workers, and of all replicas


def _feed(answer: Callable[..., Any], case: Case) -> dict[Group, list[list[list[int]]]]:
    """The batches of each worker's pipeline, by group."""
    from helpers.either_keras import tf

    seen = {}
    for workers, replicas in case["groups"]:
        contexts = [tf.distribute.InputContext(workers, k, replicas) for k in range(workers)]
        numbers = tf.data.Dataset.range(case["examples"])
        pipelines = [answer(numbers, case["global_batch"], context) for context in contexts]
        seen[workers, replicas] = [
            [[int(n) for n in tf.reshape(batch, [-1])] for batch in pipeline]
            for pipeline in pipelines
        ]
    return seen


def _fills_step(seen: dict[Group, list[list[list[int]]]], case: Case) -> None:
    for workers, replicas in case["groups"]:
        for _worker, batches in zip(range(workers), seen[workers, replicas], strict=True):
            size = len(batches[0]) if batches else 0
            expect(
                size * replicas == case["global_batch"],
                expected=_("{examples} in a step ({workers}, {replicas})").format(
                    examples=labels.examples(case["global_batch"]),
                    workers=labels.workers(workers),
                    replicas=labels.replicas(replicas),
                ),
                found=_("{count}, from batches of {size}").format(count=size * replicas, size=size),
                hint=_("In a step, every replica gets one batch as the pipeline created it."),
            )


def _reads_once(seen: dict[Group, list[list[list[int]]]], case: Case) -> None:
    for workers, replicas in case["groups"]:
        pipelines = seen[workers, replicas]
        times = Counter(n for batches in pipelines for batch in batches for n in batch)
        expect(
            times == Counter(range(case["examples"])),
            expected=_("{examples}, each read once ({workers}, {replicas})").format(
                examples=labels.examples(case["examples"]),
                workers=labels.workers(workers),
                replicas=labels.replicas(replicas),
            ),
            found=ngettext(
                "{count} example, {times} in total",
                "{count} different examples, {times} in total",
                len(times),
            ).format(count=len(times), times=sum(times.values())),
            hint=_("How many pipelines are there in a group, and how many replicas?"),
        )


def _scale(answer: Callable[..., Any], case: Case) -> list[list[float]]:
    """The sums of two replicas' gradients and of their losses for each pair of batches."""
    pairs = case["batches"]

    def run() -> list[list[float]]:
        from helpers.either_keras import tf
        from helpers.worker.devices import make_strategy

        strategy = make_strategy(MIRRORED, replicas=2)
        with strategy.scope():
            weight = tf.Variable(1.0)

        def replica_step(part: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = answer(tf.square(part * weight))
            return tape.gradient(loss, weight), loss

        def step(sizes: list[int]) -> list[float]:
            numbers = tf.range(1, sum(sizes) + 1, dtype=tf.float32)
            parts = [numbers[: sizes[0]], numbers[sizes[0] :]]
            own = strategy.experimental_distribute_values_from_function(
                lambda context: parts[context.replica_id_in_sync_group]
            )
            results = strategy.run(replica_step, args=(own,))  # a graph would fold nan * 0
            return [float(strategy.reduce("SUM", result, axis=None)) for result in results]

        return [step(sizes) for sizes in pairs]

    with LocalCluster(workers=1) as cluster:
        [found] = cluster.run(run, timeout=60)
    return list(found)


def _mean_square(sizes: list[int]) -> float:
    """The loss of one process, where an example's loss is the square of its number, from 1."""
    return sum(n * n for n in range(1, sum(sizes) + 1)) / sum(sizes)


def _gradients(seen: list[list[float]], case: Case) -> None:
    for (gradient, _loss), sizes in zip(seen, case["batches"], strict=True):
        ratio = gradient / (2 * _mean_square(sizes))
        expect(
            abs(ratio - 1) < 1e-3,
            expected=_("the gradient of one process, with batches of {sizes}").format(sizes=sizes),
            found=_("{ratio} times that").format(ratio=number(ratio, ".3g")),
            hint=_("A replica sees only its own part. How can it get the total of all parts?"),
        )


def _losses(seen: list[list[float]], case: Case) -> None:
    for (_gradient, loss), sizes in zip(seen, case["batches"], strict=True):
        ratio = loss / _mean_square(sizes)
        expect(
            abs(ratio - 1) < 1e-3,
            expected=_("the loss of one process, with batches of {sizes}").format(sizes=sizes),
            found=_("{ratio} times that").format(ratio=number(ratio, ".3g")),
            hint=_("What is the mean of an empty tensor, and what is its sum?"),
        )


def _reduce(answer: Callable[..., Any], case: Case) -> list[dict[str, float]]:
    """The answer's result for the outputs of two replicas, in each step."""
    steps = case["steps"]

    def run() -> list[dict[str, float]]:
        from helpers.worker.devices import make_strategy

        strategy = make_strategy(MIRRORED, replicas=2)

        def results(step: Mapping[str, list[float]]) -> dict[str, Any]:
            return {
                name: strategy.experimental_distribute_values_from_function(
                    lambda context, values=values: values[context.replica_id_in_sync_group]
                )
                for name, values in step.items()
            }

        found = [answer(strategy, results(_as_tensors(step))) for step in steps]
        return [{name: float(value) for name, value in step.items()} for step in found]

    with LocalCluster(workers=1) as cluster:
        [found] = cluster.run(run, timeout=60)
    return list(found)


def _as_tensors(step: Mapping[str, list[float]]) -> dict[str, list[Any]]:
    from helpers.either_keras import tf

    return {
        name: [tf.constant(value, tf.float32) for value in values] for name, values in step.items()
    }


def _reduced(*names: str) -> Callable[[list[dict[str, float]], Case], None]:
    def check(seen: list[dict[str, float]], case: Case) -> None:
        for found, step in zip(seen, case["steps"], strict=True):
            right = {
                "loss": sum(step["loss"]),
                "accuracy": sum(step["correct"]) / sum(step["examples"]),
                "learning_rate": step["learning_rate"][0],
            }
            for name in names:
                expect(
                    abs(found.get(name, float("nan")) - right[name]) < 1e-5,
                    expected=f"{name}={number(right[name], '.4g')}",
                    found=join_clauses(f"{key}={number(v, '.4g')}" for key, v in found.items()),
                    hint=_("Is a replica's result a share of the whole, or the whole itself?"),
                )

    return check


def _stop(answer: Callable[..., Any], case: Case) -> list[int]:
    """The number of steps after which each of two real workers stops."""
    shares, limit = case["shares"], case["limit"]

    def run(context: Any) -> int:
        from helpers.either_keras import tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        own = iter(shares[context.config.task.index])

        def step() -> Any:
            share = tf.constant(next(own, 0.0))  # a worker that is still running stops now
            return strategy.run(lambda: share)

        return int(answer(strategy, step, limit))

    with LocalCluster(workers=2, max_restarts=0) as cluster:
        return cluster.run(run, timeout=30)


def _stop_together(seen: list[int], case: Case) -> None:
    first, second = seen
    expect(
        first == second,
        expected=_("the same number of steps in both workers"),
        found=_("{first} in worker 0, {second} in worker 1").format(
            first=labels.steps(first), second=labels.steps(second)
        ),
        hint=_("Does each worker decide based on the same number?"),
    )
    # Two numbers may agree by chance. If no share is below the limit, no sum or mean is.
    shares = [*zip(*case["shares"], strict=True)]
    steps = [step for step, own in enumerate(shares, start=1) if min(own) < case["limit"]]
    _expect_steps(first, case, first in steps)


def _stop_in_time(seen: list[int], case: Case) -> None:
    _expect_steps(seen[0], case, seen[0] == _last_step(case))


def _last_step(case: Case) -> int:
    losses = [sum(shares) for shares in zip(*case["shares"], strict=True)]
    return next(step for step, loss in enumerate(losses, start=1) if loss < case["limit"])


def _expect_steps(found: int, case: Case, holds: bool) -> None:
    losses = [sum(shares) for shares in zip(*case["shares"], strict=True)]
    expect(
        holds,
        expected=ngettext(
            "{count} step, with losses of {losses}",
            "{count} steps, with losses of {losses}",
            _last_step(case),
        ).format(count=_last_step(case), losses=join_numbers(losses, ".2f")),
        found=labels.steps(found),
        hint=_("What is the loss of the whole batch, if each worker has a share of it?"),
    )


EXERCISES = {
    "fed": Exercise(
        _feed,
        (
            Criterion(2, gettext_noop("A step trains on one global batch."), _fills_step),
            Criterion(
                1, gettext_noop("The workers together read every example once."), _reads_once
            ),
        ),
        {"groups": [(2, 2), (1, 2), (2, 4)], "global_batch": 8, "examples": 48},
    ),
    "last_batch": Exercise(
        _scale,
        (
            Criterion(
                2, gettext_noop("The gradients add up to the gradient of one process."), _gradients
            ),
            Criterion(
                1, gettext_noop("The losses do, too, even if a replica has no examples."), _losses
            ),
        ),
        {"batches": [[4, 4], [2, 1], [1, 0]]},
    ),
    "totals": Exercise(
        _reduce,
        (
            Criterion(
                1, gettext_noop("The loss is the loss of the whole batch."), _reduced("loss")
            ),
            Criterion(
                1,
                gettext_noop("The accuracy and the learning rate are right."),
                _reduced("accuracy", "learning_rate"),
            ),
        ),
        {
            "steps": [
                {
                    "loss": [0.25, 0.5],
                    "correct": [3, 1],
                    "examples": [4, 4],
                    "learning_rate": [0.05, 0.05],
                },
                {
                    "loss": [0.5, 0.125],
                    "correct": [1, 1],
                    "examples": [3, 1],
                    "learning_rate": [0.025, 0.025],
                },
            ]
        },
    ),
    "until": Exercise(
        _stop,
        (
            Criterion(2, gettext_noop("Both workers stop after the same step."), _stop_together),
            Criterion(1, gettext_noop("It is the right one."), _stop_in_time),
        ),
        {
            "shares": [[0.5, 0.3, 0.1, 0.1, 0.05], [0.9, 0.6, 0.5, 0.3, 0.1]],
            "limit": 0.5,
        },
    ),
}
