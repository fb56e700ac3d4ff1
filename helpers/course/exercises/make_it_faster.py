"""The tasks of lesson 10: a predicted speed-up, a starving worker, a pipeline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from helpers.cluster.local import LocalCluster
from helpers.course.cost_model import CostModel
from helpers.course.criteria import Criterion, Exercise, expect, hide_last
from helpers.i18n import _, gettext_noop, ngettext, number
from helpers.system.netns import netns_supported

Case = Mapping[str, Any]
EXACT = 0.01  # the tolerance between an answer and the formula
MEASURED = 0.25  # the tolerance of a measurement on a busy machine
BATCH = 8  # images, of the task `fast`


def _speed_ups(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The answer's predictions, for described groups and for a measured one."""
    seen: dict[str, Any] = {"paper": [float(answer(**numbers)) for (numbers,) in case["predict"]]}
    if case["measure"]:
        seen["real"] = float(answer(**_of_two(**case["measure"])))
    return seen


def _of_two(bandwidth: float, **numbers: float) -> dict[str, Any]:
    """The parameters of two workers, which share the medium, so each has half of the bandwidth."""
    return {**numbers, "workers": 2, "bandwidth": bandwidth / 2}


def _is_close(found: float, wanted: float, part: float) -> bool:
    return abs(found - wanted) <= part * wanted


def _measure(compute: float, gradient_bytes: float, bandwidth: float) -> float:
    """The speed-up of two real workers, in which a pause represents the computation."""

    def run() -> list[float]:
        from helpers.either_keras import tf

        ring = tf.distribute.experimental.CommunicationImplementation.RING
        options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        gradient = tf.zeros([int(gradient_bytes / 4)])

        def all_reduce() -> Any:
            replica = tf.distribute.get_replica_context()
            return replica.all_reduce("SUM", gradient, options)

        exchange = tf.function(lambda: strategy.run(all_reduce))
        times = []
        for _turn in range(8):  # the best counts, because the machine may be busy
            start = time.perf_counter()
            time.sleep(compute)
            exchange()
            times.append(time.perf_counter() - start)
        return times[1:]  # the first call builds the graph

    with LocalCluster(workers=2, bandwidth=bandwidth) as cluster:
        times = cluster.run(run, timeout=60)[0]
    return 2 * compute / float(min(times))


def _predicts(seen: dict[str, Any], case: Case) -> None:
    for (numbers, wanted), found in zip(case["predict"], seen["paper"], strict=True):
        expect(
            _is_close(found, wanted, EXACT),
            expected=_("{value}, with {numbers}").format(
                value=number(wanted, ".3g"), numbers=dict(numbers)
            ),
            found=number(found, ".3g"),
            hint=_("How much does each worker send in a ring? And a byte has 8 bits."),
        )


def _agrees(seen: dict[str, Any], case: Case) -> None:
    if not case["measure"]:
        return
    predicted, numbers = seen["real"], _of_two(**case["measure"])
    found = _("{value}, as predicted").format(value=number(predicted, ".3g"))
    if netns_supported():
        value = _measure(**case["measure"])
        expected = _("{value}, as measured").format(value=number(value, ".3g"))
    else:  # if bandwidth cannot be limited, as on Colab
        link = {name: value for name, value in numbers.items() if name != "compute"}
        value = CostModel(numbers["compute"]).weak_speedup(**link)
        expected = _("{value}, with {numbers}").format(value=number(value, ".3g"), numbers=numbers)
    hint = _("The machine may be busy: check again when it is quiet.")
    expect(_is_close(predicted, value, MEASURED), expected=expected, found=found, hint=hint)


def _find_starving(answer: Callable[..., Any], case: Case) -> list[Any]:
    """The answer for each group's times, of which the first are measured on real workers."""
    groups = [group for (group,) in case["groups"]]
    if case["slow"] is not None:
        groups.insert(0, _step_times(case["slow"]))
    return [answer([dict(times) for times in group]) for group in groups]


def _step_times(slow: int) -> list[dict[str, float]]:
    """The seconds of a step in each of two real workers, one of which has a slow pipeline."""

    def run(context: Any) -> dict[str, float]:
        from helpers.either_keras import tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()

        def all_reduce() -> Any:
            return tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([1000]))

        exchange = tf.function(lambda: strategy.run(all_reduce))
        exchange()  # the first call builds the graph
        parts = {
            "input": lambda: time.sleep(0.2 if context.config.task.index == slow else 0.001),
            "compute": lambda: time.sleep(0.05),
            "all-reduce": exchange,
        }
        times = dict.fromkeys(parts, 0.0)
        for _step in range(3):
            for name, work in parts.items():
                start = time.perf_counter()
                work()
                times[name] += (time.perf_counter() - start) / 3
        return times

    with LocalCluster(workers=2) as cluster:
        return cluster.run(run, timeout=60)


def _found_starving(seen: list[Any], case: Case) -> None:
    for found, slow in _verdicts(seen, case):
        if slow is not None:
            _judge_starving(found, slow)


def _found_none(seen: list[Any], case: Case) -> None:
    for found, slow in _verdicts(seen, case):
        _judge_starving(found, slow)


def _verdicts(seen: list[Any], case: Case) -> Iterator[tuple[Any, int | None]]:
    """The answer for each group, and the worker that starves in it."""
    slow = [] if case["slow"] is None else [case["slow"]]
    slow += [worker for _times, worker in case["groups"]]
    return zip(seen, slow, strict=True)


def _judge_starving(found: Any, slow: int | None) -> None:
    expect(
        found == slow and type(found) is type(slow),
        expected=_("None, because no worker starves") if slow is None else repr(slow),
        found=repr(found),
        hint=_(
            "Workers that wait in the all-reduce wait for another worker. What is that one doing?"
        ),
    )


def _count_calls(answer: Callable[..., Any], case: Case) -> list[dict[str, Any]]:
    """The outputs of a pipeline, and the number of calls of its functions, in two passes."""
    from helpers.either_keras import tf

    calls = {"decode": 0, "scale": 0}

    def counted(name: str, function: Callable[[Any], Any], kind: Any) -> Callable[[Any], Any]:
        def count(value: Any) -> Any:
            calls[name] += 1
            return function(value)

        return lambda value: tf.numpy_function(count, [value], kind)

    dataset = answer(
        tf.data.Dataset.range(case["images"]),
        counted("decode", lambda image: image + 1, tf.int64),
        counted("scale", lambda images: (images / 10).astype("float32"), tf.float32),
    )
    passes = []
    for _pass in range(2):
        before = dict(calls)
        values = [float(v) for batch in dataset for v in tf.reshape(batch, [-1])]
        passes.append({"values": values, **{name: calls[name] - before[name] for name in calls}})
    return passes


def _decodes_once(seen: list[dict[str, Any]], case: Case) -> None:
    wanted = [round((image + 1) / 10, 4) for image in range(case["images"])]
    first, second = seen
    for one in (first, second):
        expect(
            sorted(round(value, 4) for value in one["values"]) == wanted,
            expected=ngettext(
                "{count} image, decoded and scaled",
                "all {count} images, decoded and scaled",
                case["images"],
            ).format(count=case["images"]),
            found=ngettext("{count} value", "{count} values", len(one["values"])).format(
                count=len(one["values"])
            ),
            hint=_(
                "The output must stay the same: you may move or add a transformation, but not "
                "remove one."
            ),
        )
    expect(
        (first["decode"], second["decode"]) == (case["images"], 0),
        expected=_("each image decoded in the first pass, none in the second"),
        found=_("{first} decoded in the first pass, {second} in the second").format(
            first=first["decode"], second=second["decode"]
        ),
        hint=_("Lesson 10 compares four orders. What does the cache keep, and where is it?"),
    )


def _scales_batches(seen: list[dict[str, Any]], case: Case) -> None:
    calls, batches = seen[0]["scale"], math.ceil(case["images"] / BATCH)
    expect(
        1 <= calls <= batches,
        expected=ngettext(
            "{count} call of scale, one for each batch",
            "{count} calls of scale, one for each batch",
            batches,
        ).format(count=batches),
        found=ngettext("{count} call", "{count} calls", calls).format(count=calls),
        hint=_("scale accepts a batch of images, too."),
    )


def _times(*groups: tuple[float, float, float]) -> list[dict[str, float]]:
    return [dict(zip(("input", "compute", "all-reduce"), times, strict=True)) for times in groups]


EXERCISES = {
    "speed_up": Exercise(
        _speed_ups,
        (
            Criterion(2, gettext_noop("It is the speed-up of the cost model."), _predicts),
            Criterion(2, gettext_noop("Two real workers reach the speed-up you predict."), _agrees),
        ),
        {
            "predict": [
                ({"compute": 0.1, "workers": 8, "gradient_bytes": 1e8, "bandwidth": 1e10}, 3.333),
                (
                    {"compute": 0.01, "workers": 2, "gradient_bytes": 1.4e6, "bandwidth": 1e8},
                    0.1639,
                ),
                ({"compute": 0.5, "workers": 1, "gradient_bytes": 1e9, "bandwidth": 1e9}, 1.0),
            ],
            "measure": {"compute": 0.2, "gradient_bytes": 1e6, "bandwidth": 8e7},
        },
        visible_case=hide_last("predict"),
    ),
    "starving": Exercise(
        _find_starving,
        (
            Criterion(2, gettext_noop("You find the worker that starves."), _found_starving),
            Criterion(1, gettext_noop("You return None if no worker starves."), _found_none),
        ),
        {
            "slow": 1,
            "groups": [
                (_times((1, 20, 39), (1, 50, 9), (35, 20, 5), (2, 18, 40)), 2),
                (_times((2, 30, 4), (1, 20, 15)), None),
            ],
        },
        visible_case=hide_last("groups"),
    ),
    "fast": Exercise(
        _count_calls,
        (
            Criterion(2, gettext_noop("Every image is decoded once."), _decodes_once),
            Criterion(1, gettext_noop("Batches are scaled, not images."), _scales_batches),
        ),
        {"images": 32},
    ),
}
