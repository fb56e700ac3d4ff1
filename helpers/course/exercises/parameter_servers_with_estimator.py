"""The tasks of lesson 9: a whole cluster, a pipeline, a number of steps, a run that ends."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.course.criteria import Criterion, Exercise, expect, hide_last, join_numbers
from helpers.errors import ConfigError
from helpers.i18n import _, gettext_noop, join_items, join_phrases, ngettext, number
from helpers.tf_config import EVALUATOR, TFConfig

Case = Mapping[str, Any]
SPREAD = 1 / 3  # minimum range of the numbers in a well-mixed batch, as a share of the dataset


def _read_configs(answer: Callable[..., Any], case: Case) -> list[TFConfig]:
    """The answer's TF_CONFIGs, as TensorFlow reads them."""
    texts = answer({job: list(addresses) for job, addresses in case["addresses"].items()})
    expect(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts),
        expected=_("a list of strings"),
        found=repr(texts),
        hint=_("TF_CONFIG is a string. json.dumps converts a dict to it."),
    )
    return [_read_config(text) for text in texts]


def _read_config(text: str) -> TFConfig:
    try:
        return TFConfig.parse(text)
    except ConfigError as error:
        expected = _("a TF_CONFIG as TensorFlow reads it")
        hint = _("Which processes does TensorFlow connect, and which one only reads files?")
        expect(False, expected=expected, found=str(error), hint=hint)
        raise


def _connected(configs: list[TFConfig], case: Case) -> None:
    jobs = {job: tuple(some) for job, some in case["addresses"].items() if job != EVALUATOR}
    for config in configs:
        expect(
            config.cluster == jobs,
            expected=_("a cluster of {jobs}").format(jobs=jobs),
            found=_("{jobs}, for {task}").format(jobs=dict(config.cluster), task=config.task.label),
            hint=_("The chief has its own entry here, and all tasks have the same `cluster`."),
        )
    inside = Counter(str(config.task) for config in configs if config.task.type != EVALUATOR)
    wanted = Counter(f"{job} {index}" for job, some in jobs.items() for index in range(len(some)))
    _expect_tasks(inside, wanted)


def _evaluated(configs: list[TFConfig], case: Case) -> None:
    outside = Counter(str(config.task) for config in configs if config.task.type == EVALUATOR)
    _expect_tasks(outside, Counter([f"{EVALUATOR} 0"]))


def _expect_tasks(found: Counter[str], wanted: Counter[str]) -> None:
    expect(
        found == wanted,
        expected=_("one string for each of {tasks}").format(
            tasks=join_items(map(labels.task, wanted))
        ),
        found=join_items(map(labels.task, found.elements())) or _("no string"),
        hint=_("Every process has its own `task`. Within a job, tasks are numbered from 0."),
    )


def _read_batches(answer: Callable[..., Any], case: Case) -> list[list[int]]:
    from helpers.estimator import tf

    examples = tf.data.Dataset.range(case["count"])
    batches = answer(examples, case["count"], case["batch_size"], case["epochs"])
    most = case["count"] * case["epochs"] + 1  # one more than allowed
    return [tf.reshape(batch, [-1]).numpy().tolist() for batch in batches.take(most)]


def _mixed(batches: list[list[int]], case: Case) -> None:
    count, epochs = case["count"], case["epochs"]
    order = [example for batch in batches for example in batch]
    parts = [order[place : place + count] for place in range(0, len(order), count)]
    complete = [part for part in parts if sorted(part) == list(range(count))]
    expect(
        len(parts) == len(complete) == epochs,
        expected=_("{epochs}, each with all {examples} once").format(
            epochs=labels.epochs(epochs), examples=labels.examples(count)
        ),
        found=join_phrases([labels.examples(len(order)), _such_epochs(len(complete))]),
        hint=_(
            "For each transformation, in your order: which elements does it receive, "
            "and which does it return?"
        ),
    )
    expect(
        all(one != other for one, other in itertools.pairwise(parts)),
        expected=_("a different order in each epoch"),
        found=_("two epochs in the same order"),
        hint=_("What can `shuffle` do when its data is read a second time?"),
    )
    spreads = [max(batch) - min(batch) for batch in batches]
    spread = sum(spreads) / len(spreads)
    expect(
        spread > SPREAD * count,
        expected=_("batches that span, on average, more than {part} of the dataset").format(
            part=number(SPREAD, ".0%")
        ),
        found=_("{part} on average").format(part=number(spread / count, ".0%")),
        hint=_(
            "Neighbors in the dataset must not be in the same batch more often than other examples."
        ),
    )


def _such_epochs(count: int) -> str:
    return ngettext("{count} such epoch", "{count} such epochs", count).format(count=count)


def _equal(batches: list[list[int]], case: Case) -> None:
    size, last = case["batch_size"], len(batches)
    for place, batch in enumerate(batches, 1):
        expect(
            len(batch) == size or (place == last and len(batch) < size),
            expected=ngettext(
                "{count} example in each batch except the last",
                "{count} examples in each batch except the last",
                size,
            ).format(count=size),
            found=_("{count} in batch {number} of {batches}").format(
                count=len(batch), number=place, batches=last
            ),
            hint=_("When does an epoch end in the middle of a batch?"),
        )


def _count_steps(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The answer's steps, for described training runs and for one with real tasks."""
    seen: dict[str, Any] = {"steps": [answer(**numbers) for (numbers,) in case["trainings"]]}
    if case["measure"]:
        seen["real"] = answer(**case["measure"], tasks=2, asynchronous=True)
    return seen


def _measure(steps: int, training: Mapping[str, int]) -> float:
    """The epochs that a chief and a worker, with a parameter server, train in a number of steps."""
    from helpers.estimator import tf

    examples, batch_size = training["examples"], training["batch_size"]

    def input_fn(input_context: Any) -> Any:
        own = tf.data.Dataset.range(examples).shard(2, input_context.input_pipeline_id)
        return own.map(lambda example: (example, example)).batch(batch_size)

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        step = tf.compat.v1.train.get_or_create_global_step()
        seen = tf.compat.v1.get_variable(
            "seen", [], tf.int64, tf.compat.v1.zeros_initializer(), trainable=False
        )
        with tf.control_dependencies([seen.assign_add(tf.size(labels, tf.int64))]):
            train_op = step.assign_add(1)
        loss = tf.reduce_mean(tf.cast(features, tf.float32))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with LocalCluster(workers=1, ps=1) as cluster:
        result = cluster.train(model_fn, input_fn, steps=steps, evaluate=None, progress=False)
        return int(tf.train.load_variable(result.model_dir, "seen")) / examples


def _counts_every_task(seen: dict[str, Any], case: Case) -> None:
    for found, (numbers, right) in zip(seen["steps"], case["trainings"], strict=True):
        expect(
            found == right,
            expected=_("{value}, with {numbers}").format(value=right, numbers=dict(numbers)),
            found=repr(found),
            hint=_("On how many examples does the group train when the global step grows by 1?"),
        )


def _whole(seen: dict[str, Any], case: Case) -> None:
    for place in range(len(case["trainings"])):
        found = seen["steps"][place]
        expect(
            isinstance(found, int),
            expected=_("an integer"),
            found=repr(found),
            hint=_("max_steps is a number of steps, which must be an integer."),
        )


def _trained(seen: dict[str, Any], case: Case) -> None:
    _whole(seen, case)
    if not case["measure"]:
        return
    steps, epochs = seen["real"], case["measure"]["epochs"]
    expected = labels.epochs(epochs)
    expect(
        type(steps) is int and 0 < steps <= epochs * case["measure"]["examples"],
        expected=expected,
        found=repr(steps),
        hint=_("On how many examples does the group train when the global step grows by 1?"),
    )
    trained = _measure(steps, case["measure"])
    expect(
        math.isclose(trained, epochs, rel_tol=0.1),
        expected=expected,
        found=_("{count} as the number of epochs that a chief and a worker trained").format(
            count=number(trained, ".3g")
        ),
        hint=_("The machine may be busy: check again when it is idle."),
    )


def _make_steps(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The global step and the weight after each of several runs of the answer's train_op."""
    from helpers.estimator import tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.get_or_create_global_step()
        weight = tf.compat.v1.get_variable("weight", initializer=case["weight"], use_resource=True)
        train_op = answer(2 * weight, [weight])
        session.run(tf.compat.v1.global_variables_initializer())
        seen: dict[str, Any] = {"steps": [], "weights": []}
        for _turn in range(case["turns"]):
            session.run(train_op)
            seen["steps"].append(int(session.run(step)))
            seen["weights"].append(float(session.run(weight)))
    return seen


def _ends(seen: dict[str, Any], case: Case) -> None:
    turns = range(1, case["turns"] + 1)
    expect(
        seen["steps"] == list(turns),
        expected=_("{steps} as the global step").format(steps=list(turns)),
        found=seen["steps"],
        hint=_(
            "max_steps is compared with one variable only. Which operation increments it, "
            "and how often?"
        ),
    )
    wanted = [round(case["weight"] - 0.2 * turn, 4) for turn in turns]
    found = [round(weight, 4) for weight in seen["weights"]]
    expect(
        found == wanted,
        expected=_(
            "{weights} as the weight, because each step subtracts 0.1 times the gradient"
        ).format(weights=join_numbers(wanted)),
        found=join_numbers(found),
        hint=_("The weights must still change as before."),
    )


def _training(
    examples: int, batch_size: int, tasks: int, epochs: int, *, asynchronous: bool
) -> dict[str, Any]:
    return {
        "examples": examples,
        "batch_size": batch_size,
        "tasks": tasks,
        "epochs": epochs,
        "asynchronous": asynchronous,
    }


EXERCISES = {
    "whole_cluster": Exercise(
        _read_configs,
        (
            Criterion(
                1, gettext_noop("All tasks except the evaluator form one cluster."), _connected
            ),
            Criterion(1, gettext_noop("There is an evaluator, outside the cluster."), _evaluated),
        ),
        {
            "addresses": {
                "chief": ["10.0.0.1:2222"],
                "worker": ["10.0.0.2:2222", "10.0.0.3:2222"],
                "ps": ["10.0.0.4:2222"],
                "evaluator": ["10.0.0.5:2222"],
            }
        },
    ),
    "training_batches": Exercise(
        _read_batches,
        (
            Criterion(2, gettext_noop("Each epoch is complete and well shuffled."), _mixed),
            Criterion(1, gettext_noop("No batch except the last is smaller."), _equal),
        ),
        {"count": 202, "batch_size": 4, "epochs": 3},
    ),
    "max_steps": Exercise(
        _count_steps,
        (
            Criterion(2, gettext_noop("The steps of all tasks are counted."), _counts_every_task),
            Criterion(
                1, gettext_noop("A chief and a worker train for that many epochs."), _trained
            ),
        ),
        {
            "trainings": [
                (_training(6000, 100, 3, 1, asynchronous=True), 60),
                (_training(6000, 100, 3, 1, asynchronous=False), 20),
                (_training(60_000, 50, 4, 5, asynchronous=True), 6000),
                (_training(60_000, 50, 4, 5, asynchronous=False), 1500),
            ],
            "measure": {"examples": 1000, "batch_size": 10, "epochs": 2},
        },
        visible_case=hide_last("trainings"),
    ),
    "train_op": Exercise(
        _make_steps,
        (Criterion(2, gettext_noop("Training ends after max_steps steps."), _ends),),
        {"weight": 5.0, "turns": 3},
    ),
}
