"""The tasks of lesson 5: where a row lives, a partitioner, steps handed out, stale gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from helpers.cluster.local import LocalCluster
from helpers.exercises.parts import Exercise, Part, expect
from helpers.i18n import _, gettext_noop, number

Case = Mapping[str, Any]
Row = tuple[int, int, int]  # its number, the rows of the variable, and its shards
LEAST = 2**20  # bytes, from which a variable is split


def _servers_of_rows(answer: Callable[..., Any], case: Case) -> dict[Row, tuple[Any, int]]:
    """For each row of some variables, the answer, and the real parameter server that has it."""
    servers, variables = case["servers"], [*case["even"], *case["uneven"]]

    def place_rows() -> list[list[int]]:
        from helpers.estimator import tf
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

    answers = {
        (row, rows, shards): answer(row, rows, shards, servers)
        for rows, shards in variables
        for row in range(rows)
    }
    with LocalCluster(workers=1) as cluster:
        [places] = cluster.run(place_rows, timeout=60)
    real = [place for variable in places for place in variable]
    return {row: (answers[row], place) for row, place in zip(answers, real, strict=True)}


def _knows_servers(kind: str) -> Callable[[dict[Row, tuple[Any, int]], Case], None]:
    def judge(seen: dict[Row, tuple[Any, int]], case: Case) -> None:
        for variable in case[kind]:
            pairs = [pair for (_row, *other), pair in seen.items() if other == list(variable)]
            found, real = ([pair[place] for pair in pairs] for place in (0, 1))
            rows, shards = variable
            expect(
                found == real,
                expected=_(
                    "{servers}, for the rows of a variable of {rows} rows in {shards} shards"
                ).format(servers=real, rows=rows, shards=shards),
                found=found,
                hint=_("Which rows are in a shard? And which server gets that shard?"),
            )

    return judge


def _partitions(answer: Callable[..., Any], case: Case) -> dict[str, list[tuple[int, int, int]]]:
    """The shards that the answer's partitioner makes, for each number of servers."""
    from helpers.estimator import tf

    seen: dict[str, list[tuple[int, int, int]]] = {"small": [], "large": []}
    for servers in case["servers"]:
        partitioner = answer(servers)
        expect(
            isinstance(partitioner, tf.distribute.experimental.partitioners.Partitioner),
            expected=_("one of the partitioners of TensorFlow"),
            found=type(partitioner).__name__,
            hint=_("Return the partitioner itself; the strategy will call it."),
        )
        for shape in case["shapes"]:
            size = 4 * math.prod(shape)
            shards = partitioner(tf.TensorShape(shape), tf.float32)[0]
            seen["small" if size < LEAST else "large"].append((size, servers, int(shards)))
    return seen


def _splits(seen: dict[str, list[tuple[int, int, int]]], case: Case) -> None:
    wanted = [(*one, 1) for one in seen["small"]] + [(*one, one[1]) for one in seen["large"]]
    for size, servers, found, right in wanted:
        expect(
            found == right,
            expected=_(
                "{right} as the number of shards, for {size} bytes and {servers} servers"
            ).format(right=right, size=number(size, ",d"), servers=servers),
            found=found,
            hint=_(
                "Two bounds are needed. Look at the arguments of the partitioners, and at their "
                "defaults."
            ),
        )


def _make_step(most_turns: int, most: Any, done: Any, losses: Any, times_read: Any) -> Any:
    """A step on one example, that waits a little for another worker's, and keeps the books.

    Args:
      most_turns: how long it waits, in turns of some work.
      most: becomes the most steps that ran at once.
      done: becomes the steps that are done.
      losses: becomes their losses, in the order in which they ended.
      times_read: becomes the times that each example was read.
    """
    from helpers.estimator import tf

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
        with tf.control_dependencies([loss]):
            ticket = done.assign_add(1, read_value=True) - 1
        losses.scatter_update(tf.IndexedSlices(loss, ticket))
        times_read.scatter_add(tf.IndexedSlices(1, example))
        with tf.control_dependencies([ticket]):
            running.assign_sub(1)
        return loss

    return step


def _run_steps(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """What an answer returns that hands out real steps, and what those steps left behind."""
    steps, examples = case["steps"], case["examples"]

    def coordinate() -> dict[str, Any]:
        from helpers.estimator import tf
        from helpers.in_process import in_process_cluster

        strategy = tf.distribute.ParameterServerStrategy(in_process_cluster(workers=2, ps=1))
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            most, done = tf.Variable(0), tf.Variable(0)
            losses = tf.Variable(tf.zeros([1000]))
            times_read = tf.Variable(tf.zeros([examples], tf.int32))
            step = _make_step(case["work"], most, done, losses, times_read)

        def make_dataset() -> Any:
            return tf.data.Dataset.range(examples)

        found, error = None, None
        try:
            found = float(answer(coordinator, make_dataset, tf.function(step), steps))
        except tf.errors.OutOfRangeError as raised:
            error = type(raised).__name__
        count = int(done.numpy())
        return {
            "found": found,
            "error": error,
            "done": count,
            "mean": sum(losses.numpy()[:count].tolist()) / max(count, 1),
            "read": int(tf.math.count_nonzero(times_read)),
            "most": int(most.numpy()),
        }

    with LocalCluster(workers=1) as cluster:
        [seen] = cluster.run(coordinate, timeout=60)
    return dict(seen)


def _all_steps(seen: dict[str, Any], case: Case) -> None:
    expect(
        seen["error"] is None,
        expected=_("{count} steps, though a dataset has {examples} examples").format(
            count=case["steps"], examples=case["examples"]
        ),
        found=_("{error} after {count} steps").format(error=seen["error"], count=seen["done"]),
        hint=_("What does a worker do that has read all of its dataset?"),
    )
    expect(
        seen["done"] == case["steps"],
        expected=_("{count} steps, done by all workers together").format(count=case["steps"]),
        found=_("steps done when your function returned: {count}").format(count=seen["done"]),
        hint=_("One call of schedule is one step on one worker, and does not wait for it."),
    )
    expect(
        seen["read"] == case["examples"],
        expected=_("{count} different examples read").format(count=case["examples"]),
        found=seen["read"],
        hint=_("A new iterator begins with the first example. How many do you make?"),
    )


def _mean_loss(seen: dict[str, Any], case: Case) -> None:
    _all_steps(seen, case)
    expect(
        math.isclose(seen["found"], seen["mean"], rel_tol=1e-4),
        expected=_("{value}, the mean loss of all {count} steps").format(
            value=number(seen["mean"], ".4g"), count=case["steps"]
        ),
        found=number(seen["found"], ".4g"),
        hint=_("Each call of schedule returns the promise of one loss."),
    )


def _at_once(seen: dict[str, Any], case: Case) -> None:
    expect(
        seen["most"] == 2,
        expected=_("two workers that compute at the same time"),
        found=_("never more than {count} at work").format(count=seen["most"]),
        hint=_("When does your program wait, and for which steps?"),
    )


def _stale(answer: Callable[..., Any], case: Case) -> list[Any]:
    return [answer([tuple(entry) for entry in log]) for log, _right in case["logs"]]


def _is_stale(found: list[Any], case: Case) -> None:
    for one, (log, right) in zip(found, case["logs"], strict=True):
        expect(
            one == right,
            expected=_("{staleness}, for {log}").format(
                staleness=right, log=", ".join(f"{what} {worker}" for worker, what in log)
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
            Part(1, gettext_noop("You find the rows of equal shards."), _knows_servers("even")),
            Part(1, gettext_noop("And of shards that are not equal."), _knows_servers("uneven")),
        ),
        {"servers": 3, "even": [(6, 3), (10, 5)], "uneven": [(10, 3), (17, 7)]},
    ),
    "split_large": Exercise(
        _partitions,
        (Part(2, gettext_noop("Large variables use every server, once."), _splits),),
        {"servers": [2, 5], "shapes": [[64], [500, 64], [4000, 64], [200_000, 64], [5_000_000]]},
    ),
    "run_steps": Exercise(
        _run_steps,
        (
            Part(2, gettext_noop("It does all steps, and returns their mean loss."), _mean_loss),
            Part(1, gettext_noop("The workers are busy at the same time."), _at_once),
        ),
        {"steps": 30, "examples": 7, "work": 200},
    ),
    "staleness": Exercise(
        _stale,
        (Part(2, gettext_noop("You know how old the values were."), _is_stale),),
        {
            "logs": [
                (_log("f0 u0 f0 u0"), [0, 0]),
                (_log("f0 f1 u1 f1 u1 u0"), [0, 0, 2]),
                (_log("f0 f1 f2 u2 u0 f2 u1 f0 u2 u0"), [0, 1, 2, 1, 1]),
            ]
        },
    ),
}
