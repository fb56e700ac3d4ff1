"""The tasks of lesson 1: a TF_CONFIG, shards, the scale of the loss, a cluster to fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from helpers.cluster.local import LocalCluster
from helpers.course.criteria import (
    Criterion,
    Exercise,
    capture,
    expect,
    hide_all,
    identity,
    unwrap,
)
from helpers.errors import ConfigError
from helpers.i18n import _, gettext_noop, join_clauses, join_items, ngettext, number
from helpers.tf_config import Task as ClusterTask
from helpers.tf_config import TFConfig

Case = Mapping[str, Any]


def _read_config(text: object) -> TFConfig:
    """An answer's TF_CONFIG. If the answer is not one, raises `CheckFailed`."""
    hint = _("TF_CONFIG is a string. json.dumps converts a dict to one.")
    expected = _("a TF_CONFIG as TensorFlow reads it")
    found = type(text).__name__
    expect(isinstance(text, str), expected=expected, found=found, hint=hint)
    try:
        return TFConfig.parse(str(text))
    except ConfigError as error:
        found, hint = str(error), _("Lesson 1 shows a TF_CONFIG with its two parts.")
        expect(False, expected=expected, found=found, hint=hint)
        raise


def _third_worker(text: object, case: Case) -> None:
    config = _read_config(text)
    expect(
        config.cluster == {"worker": tuple(case["addresses"])},
        expected=ngettext(
            "the only worker ({count})",
            "all {count} workers, in their order",
            len(case["addresses"]),
        ).format(count=len(case["addresses"])),
        found=dict(config.cluster),
        hint=_("`cluster` is the same in every process: it lists all of them."),
    )
    expect(
        config.task == ClusterTask("worker", 2),
        expected=_("the task of the third worker"),
        found=config.task.label,
        hint=_("Workers are counted from 0."),
    )


def _read_shards(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The examples that each real worker reads, and the examples of a single process."""
    examples = case["examples"]

    def numbers_read(context: Any) -> list[int]:
        from helpers.estimator import tf

        dataset = answer(tf.data.Dataset.range(examples), context)
        return [int(number) for batch in dataset for number in tf.reshape(batch, [-1])]

    def read() -> list[int]:
        from helpers.estimator import tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        numbers: list[int] = []

        def dataset(context: Any) -> Any:
            numbers.extend(numbers_read(context))
            return tf.data.Dataset.range(1)

        strategy.distribute_datasets_from_function(dataset)
        return numbers

    with LocalCluster(case["workers"]) as cluster:
        shards = cluster.run(read, timeout=60)
    return {"shards": shards, "alone": capture(lambda: numbers_read(None))}


def _shards(seen: dict[str, Any], case: Case) -> None:
    times = Counter(number for shard in seen["shards"] for number in shard)
    expect(
        len(seen["shards"]) == case["workers"] and times == Counter(range(case["examples"])),
        expected=ngettext(
            "{count} example read once, by one of the workers",
            "each of {count} examples read once, by one of the workers",
            case["examples"],
        ).format(count=case["examples"]),
        found=join_clauses(
            _("worker {number} reads {examples}").format(number=worker, examples=numbers)
            for worker, numbers in enumerate(seen["shards"])
        ),
        hint=_(
            "input_context holds the number of pipelines and the index of this one. "
            "Shard first, then shuffle."
        ),
    )


def _alone(seen: dict[str, Any], case: Case) -> None:
    numbers = unwrap(seen["alone"])
    expect(
        sorted(numbers) == list(range(case["examples"])),
        expected=ngettext(
            "the only example ({count})", "all {count} examples", case["examples"]
        ).format(count=case["examples"]),
        found=numbers,
        hint=_("Without a strategy, input_context is None."),
    )


def _gradients(answer: Callable[..., Any], case: Case) -> list[float]:
    """The sum of two real workers' gradients for each pair of batches."""
    pairs = case["batches"]

    def run(context: Any) -> list[float]:
        from helpers.estimator import tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            weight = tf.Variable(1.0)

        def gradient(sizes: list[int]) -> Any:
            first = sum(sizes[: context.config.task.index])
            own = tf.range(sum(sizes), dtype=tf.float32)[first:][: sizes[context.config.task.index]]
            with tf.GradientTape() as tape:
                loss = answer(tf.square(own * weight), sum(sizes))
            replica = tf.distribute.get_replica_context()
            return replica.all_reduce("SUM", tape.gradient(loss, weight))

        return [float(strategy.run(tf.function(gradient), args=(sizes,))) for sizes in pairs]

    with LocalCluster(workers=2) as cluster:
        return list(cluster.run(run, timeout=60)[0])


def _gradient(place: int) -> Callable[[list[float], Case], None]:
    def check(found: list[float], case: Case) -> None:
        count = sum(case["batches"][place])
        ratio = found[place] / (sum(2 * n * n for n in range(count)) / count)
        expect(
            abs(ratio - 1) < 1e-3,
            expected=ngettext(
                "the gradient of one worker with {count} example",
                "the gradient of one worker with all {count} examples",
                count,
            ).format(count=count),
            found=_("{ratio} times that").format(ratio=number(ratio, ".3g")),
            hint=_("The gradients of the workers are summed. What does each worker divide by?"),
        )

    return check


def _mended(texts: Any, case: Case) -> None:
    hosts = list(case["hosts"])
    expect(
        isinstance(texts, dict) and list(texts) == hosts,
        expected=_("a dict with a string for each of {hosts}").format(hosts=join_items(hosts)),
        found=join_items(texts) if isinstance(texts, dict) else type(texts).__name__,
        hint=_("Keep the hosts of `broken` and fix the strings."),
    )
    configs = {host: _read_config(text) for host, text in texts.items()}
    for host, config in configs.items():
        expect(
            config.cluster == configs[hosts[0]].cluster,
            expected=_("one `cluster`, the same on every host"),
            found=_("a different one on {host}").format(host=host),
            hint=_("Compare the lists of addresses, character by character."),
        )
        expect(
            (config.address or "").startswith(f"{host}:"),
            expected=_("a task that listens on {host}").format(host=host),
            found=config.explain(),
            hint=_("A process finds its own address by its `task`."),
        )
    expect(
        len(configs[hosts[0]].tasks) == len(hosts),
        expected=ngettext(
            "{count} task, one on each host", "{count} tasks, one on each host", len(hosts)
        ).format(count=len(hosts)),
        found=join_items(task.label for task in configs[hosts[0]].tasks),
        hint=_("Training starts when all tasks in `cluster` are connected."),
    )


def _call(answer: Callable[..., Any], case: Case) -> Any:
    return answer(list(case["addresses"]))


EXERCISES = {
    "third_worker": Exercise(
        _call,
        (
            Criterion(
                2, gettext_noop("The string is the TF_CONFIG of the third worker."), _third_worker
            ),
        ),
        {"addresses": [f"10.0.0.{k}:2222" for k in (1, 2, 3)]},
    ),
    "shard": Exercise(
        _read_shards,
        (
            Criterion(2, gettext_noop("Two workers together read every example once."), _shards),
            Criterion(1, gettext_noop("A single process reads every example."), _alone),
        ),
        {"workers": 2, "examples": 30},
    ),
    "scaled_loss": Exercise(
        _gradients,
        (
            Criterion(
                2, gettext_noop("Two equal batches produce the right gradient."), _gradient(0)
            ),
            Criterion(1, gettext_noop("So do two batches of different sizes."), _gradient(1)),
        ),
        {"batches": [[4, 4], [5, 2]]},
    ),
    "mended": Exercise(
        identity,
        (Criterion(2, gettext_noop("The three processes find each other."), _mended),),
        {"hosts": ["10.0.0.1", "10.0.0.2", "10.0.0.3"]},
        visible_case=hide_all,
    ),
}
