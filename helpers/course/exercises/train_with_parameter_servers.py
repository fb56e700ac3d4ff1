"""The tasks of lesson 5: the server of a row, a partitioner, scheduled steps, staleness."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.course.criteria import Criterion, Exercise, expect, hide_last
from helpers.i18n import _, gettext_noop, join_items, ngettext, number

Case = Mapping[str, Any]
Variable = tuple[int, int]  # the number of its rows, and of its shards
MIN_SPLIT_BYTES = 2**20  # the least bytes of a variable that is split


def _servers_of_rows(answer: Callable[..., Any], case: Case) -> dict[str, list[list[Any]]]:
    """The answer for each row of some variables."""
    return {
        kind: [
            [answer(row, rows, shards, case["servers"]) for row in range(rows)]
            for rows, shards in case[kind]
        ]
        for kind in ("even", "uneven")
    }


@functools.cache
def _place_rows(servers: int, variables: tuple[Variable, ...]) -> dict[Variable, list[int]]:
    """The real parameter server that stores each row of each variable."""

    def place_rows() -> list[list[int]]:
        from helpers.either_keras import tf
        from helpers.in_process import in_process_cluster

        resolver = in_process_cluster(workers=1, ps=servers)
        places = []
        for rows, shards in variables:
            partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(shards)
            strategy = tf.distribute.ParameterServerStrategy(resolver, partitioner)
            with strategy.scope():
                variable = tf.Variable(tf.zeros([rows, 4]))
            tasks = [(shard.shape[0], shard.device) for shard in variable.variables]
            places.append(
                [tf.DeviceSpec.from_string(d).task for n, d in tasks for _row in range(n)]
            )
        return places

    with LocalCluster(workers=1) as cluster:
        [places] = cluster.run(place_rows, timeout=60)
    return dict(zip(variables, places, strict=True))


def _knows_servers(kind: str) -> Callable[[dict[str, list[list[Any]]], Case], None]:
    def check(seen: dict[str, list[list[Any]]], case: Case) -> None:
        variables = tuple((rows, shards) for rows, shards in [*case["even"], *case["uneven"]])
        for (rows, shards), found in zip(case[kind], seen[kind], strict=True):
            real = _place_rows(case["servers"], variables)[rows, shards]
            expect(
                found == real,
                expected=_("{servers}, for the rows of a variable ({rows}, {shards})").format(
                    servers=real, rows=_count_rows(rows), shards=_count_shards(shards)
                ),
                found=found,
                hint=_("Which rows are in a shard? And which server gets that shard?"),
            )

    return check


def _count_rows(count: int) -> str:
    return ngettext("{count} row", "{count} rows", count).format(count=count)


def _count_shards(count: int) -> str:
    return ngettext("{count} shard", "{count} shards", count).format(count=count)


def _count_bytes(count: int) -> str:
    return ngettext("{count} byte", "{count} bytes", count).format(count=number(count, ",d"))


def _count_servers(count: int) -> str:
    servers = ngettext("{count} parameter server", "{count} parameter servers", count)
    return servers.format(count=count)


def _partitions(answer: Callable[..., Any], case: Case) -> list[list[int]]:
    """The shards that the answer's partitioner returns for each shape and number of servers."""
    from helpers.either_keras import tf

    seen = []
    for servers in case["servers"]:
        partitioner = answer(servers)
        expect(
            isinstance(partitioner, tf.distribute.experimental.partitioners.Partitioner),
            expected=_("one of the partitioners of TensorFlow"),
            found=type(partitioner).__name__,
            hint=_("Return the partitioner itself. The strategy will call it."),
        )
        shapes = [tf.TensorShape(shape) for shape in case["shapes"]]
        seen.append([int(partitioner(shape, tf.float32)[0]) for shape in shapes])
    return seen


def _splits(seen: list[list[int]], case: Case) -> None:
    for servers, counts in zip(case["servers"], seen, strict=True):
        for shape, found in zip(case["shapes"], counts, strict=True):
            size = 4 * math.prod(shape)
            right = 1 if size < MIN_SPLIT_BYTES else servers
            expect(
                found == right,
                expected=_("{right} as the number of shards ({size}, {servers})").format(
                    right=right, size=_count_bytes(size), servers=_count_servers(servers)
                ),
                found=found,
                hint=_(
                    "Two bounds are needed. Look at the arguments of the partitioners, and at "
                    "their defaults."
                ),
            )


def _make_step(most_turns: int, most: Any, times_read: Any) -> Any:
    """A step on one example that waits briefly for another worker's step, and records both.

    Its loss is `_loss`.

    Args:
      most_turns: the maximum wait, in iterations of a computation.
      most: a variable for the maximum number of concurrent steps.
      times_read: a variable for the number of times that finished steps have read each example.
    """
    from helpers.either_keras import tf

    running = tf.Variable(0)

    def step(iterator: Any) -> Any:
        example = next(iterator)
        with tf.control_dependencies([running.assign_add(1)]):
            at_once = running.read_value()
        with tf.control_dependencies([most.assign(tf.maximum(most, at_once))]):
            start = tf.constant(0), tf.ones([200, 200])
        _turns, work = tf.while_loop(
            lambda turn, _work: (turn < most_turns) & (most.read_value() < 2),
            lambda turn, work: (turn + 1, work @ tf.ones([200, 200]) / 200),
            start,
        )
        loss = tf.cast(example, tf.float32) ** 2 + tf.reduce_mean(work)
        read = tf.one_hot(example, times_read.shape[0], dtype=times_read.dtype)
        with tf.control_dependencies([loss]):
            counted = times_read.assign_add(read)  # scatter_add does not lock
        with tf.control_dependencies([counted]):
            running.assign_sub(1)
        return loss

    return step


def _loss(example: int) -> float:
    """The loss of a step, whose computation is a matrix of ones with a mean of 1."""
    return example**2 + 1.0


def _run_steps(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The result of an answer that schedules real steps, and the records of those steps."""
    steps, examples = case["steps"], case["examples"]

    def coordinate() -> dict[str, Any]:
        from helpers.either_keras import tf
        from helpers.in_process import in_process_cluster

        strategy = tf.distribute.ParameterServerStrategy(in_process_cluster(workers=2, ps=1))
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            most, times_read = tf.Variable(0), tf.Variable(tf.zeros([examples], tf.int32))
            step = _make_step(case["work"], most, times_read)

        def make_dataset() -> Any:
            return tf.data.Dataset.range(examples)

        found, error = None, None
        try:
            found = float(answer(coordinator, make_dataset, tf.function(step), steps))
        except tf.errors.OutOfRangeError as raised:
            error = type(raised).__name__
        return {
            "found": found,
            "error": error,
            "times read": times_read.numpy().tolist(),
            "most": int(most.numpy()),
        }

    with LocalCluster(workers=1) as cluster:
        [seen] = cluster.run(coordinate, timeout=60)
    return dict(seen)


def _all_steps(seen: dict[str, Any], case: Case) -> None:
    done = sum(seen["times read"])
    expect(
        seen["error"] is None,
        expected=_("{steps}, though a dataset has only {examples}").format(
            steps=labels.steps(case["steps"]), examples=labels.examples(case["examples"])
        ),
        found=ngettext("{error} after {count} step", "{error} after {count} steps", done).format(
            error=seen["error"], count=done
        ),
        hint=_("What does a worker do when it has read all of its dataset?"),
    )
    expect(
        done == case["steps"],
        expected=ngettext(
            "{count} step, run by all workers together",
            "{count} steps, run by all workers together",
            case["steps"],
        ).format(count=case["steps"]),
        found=ngettext(
            "{count} step done when your function returned",
            "{count} steps done when your function returned",
            done,
        ).format(count=done),
        hint=_("One call of schedule is one step on one worker, and does not wait for it."),
    )
    read = sum(times > 0 for times in seen["times read"])
    expect(
        read == case["examples"],
        expected=ngettext(
            "{count} example read",
            "{count} different examples read",
            case["examples"],
        ).format(count=case["examples"]),
        found=read,
        hint=_("A new iterator starts with the first example. How many do you create?"),
    )


def _mean_loss(seen: dict[str, Any], case: Case) -> None:
    _all_steps(seen, case)
    losses = [times * _loss(example) for example, times in enumerate(seen["times read"])]
    mean = sum(losses) / case["steps"]
    expect(
        math.isclose(seen["found"], mean, rel_tol=1e-4),
        expected=ngettext(
            "{value}, the loss of {count} step",
            "{value}, the mean loss of all {count} steps",
            case["steps"],
        ).format(value=number(mean, ".4g"), count=case["steps"]),
        found=number(seen["found"], ".4g"),
        hint=_("Each call of schedule returns a future of one loss."),
    )


def _at_once(seen: dict[str, Any], case: Case) -> None:
    expect(
        seen["most"] == 2,
        expected=_("two workers that compute at the same time"),
        found=_("never more than {count} at the same time").format(count=seen["most"]),
        hint=_("When does your program wait, and for which steps?"),
    )


def _stale(answer: Callable[..., Any], case: Case) -> list[Any]:
    return [answer([tuple(entry) for entry in log]) for (log,) in case["logs"]]


def _is_stale(found: list[Any], case: Case) -> None:
    for one, (log, right) in zip(found, case["logs"], strict=True):
        expect(
            one == right,
            expected=_("{staleness}, for {log}").format(
                staleness=right, log=join_items(f"{what} {worker}" for worker, what in log)
            ),
            found=one,
            hint=_("Go through the log, one update at a time. What has changed since the fetch?"),
        )


def _log(text: str) -> list[tuple[int, str]]:
    """A log from a short form: "f0 u0" is a fetch of worker 0, and then its update."""
    names = {"f": "fetch", "u": "update"}
    return [(int(entry[1:]), names[entry[0]]) for entry in text.split()]


EXERCISES = {
    "server_of": Exercise(
        _servers_of_rows,
        (
            Criterion(
                1, gettext_noop("You find the rows of equal shards."), _knows_servers("even")
            ),
            Criterion(
                1,
                gettext_noop("You find the rows of shards of different sizes."),
                _knows_servers("uneven"),
            ),
        ),
        {"servers": 3, "even": [(6, 3), (10, 5)], "uneven": [(10, 3), (17, 7)]},
    ),
    "split_large": Exercise(
        _partitions,
        (Criterion(2, gettext_noop("Large variables use every server, once."), _splits),),
        {"servers": [2, 5], "shapes": [[64], [500, 64], [4000, 64], [200_000, 64], [5_000_000]]},
    ),
    "run_steps": Exercise(
        _run_steps,
        (
            Criterion(
                2, gettext_noop("It runs all steps and returns their mean loss."), _mean_loss
            ),
            Criterion(1, gettext_noop("The workers compute at the same time."), _at_once),
        ),
        {"steps": 30, "examples": 7, "work": 200},
    ),
    "staleness": Exercise(
        _stale,
        (Criterion(2, gettext_noop("You find how stale each update is."), _is_stale),),
        {
            "logs": [
                (_log("f0 u0 f0 u0"), [0, 0]),
                (_log("f0 f1 u1 f1 u1 u0"), [0, 0, 2]),
                (_log("f0 f1 f2 u2 u0 f2 u1 f0 u2 u0"), [0, 1, 2, 1, 1]),
            ]
        },
        visible_case=hide_last("logs"),
    ),
}
