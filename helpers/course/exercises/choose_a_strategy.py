"""The tasks of lesson 2: the location of variables, a strategy for any machine, a lost scope."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.course.criteria import (
    Criterion,
    Exercise,
    capture,
    expect,
    hide_all,
    identity,
    join_numbers,
    unwrap,
)
from helpers.i18n import _, gettext_noop, join_items, ngettext
from helpers.strategies import MIRRORED, PARAMETER_SERVER
from helpers.tf_config import set_tf_config_env

Case = Mapping[str, Any]
CENTRAL = "CentralStorageStrategy"
WORKERS = 2  # of the task `pick`


def _hold(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The bytes on each device according to the answer for each strategy."""
    names = (MIRRORED, CENTRAL, PARAMETER_SERVER)
    return {name: answer(name, list(case["sizes"]), case["devices"]) for name in names}


@functools.cache
def _measure(sizes: tuple[int, ...], devices: int) -> dict[str, list[int]]:
    """The measured bytes on each device for variables of these sizes under each strategy."""

    def measure() -> dict[str, list[int]]:
        from helpers.either_keras import tf
        from helpers.in_process import in_process_cluster
        from helpers.worker.devices import logical_cpus

        storing, *computing = logical_cpus(devices + 1)
        central = tf.distribute.experimental.CentralStorageStrategy
        strategies = {
            MIRRORED: lambda: tf.distribute.MirroredStrategy(computing),
            CENTRAL: lambda: central(computing, storing),
            PARAMETER_SERVER: lambda: tf.distribute.ParameterServerStrategy(
                in_process_cluster(workers=1, ps=devices)
            ),
        }
        held = {name: [0] * devices for name in strategies}
        for name, strategy in strategies.items():
            with strategy().scope():
                variables = [tf.Variable(tf.zeros([size], tf.int8)) for size in sizes]
            for size, variable in zip(sizes, variables, strict=True):
                for copy in getattr(variable, "values", None) or [variable]:
                    place = tf.DeviceSpec.from_string(copy.device)
                    device = place.task if place.job == "ps" else place.device_index - 1
                    if device >= 0:
                        held[name][device] += size
        return held

    with LocalCluster(workers=1) as cluster:
        [held] = cluster.run(measure, timeout=60)
    return dict(held)


def _holds(name: str, hint: str) -> Callable[[dict[str, Any], Case], None]:
    def check(seen: dict[str, Any], case: Case) -> None:
        found, right = seen[name], _measure(tuple(case["sizes"]), case["devices"])[name]
        expect(
            found == right,
            expected=_("{right}, as measured with variables of {sizes} bytes").format(
                right=right, sizes=case["sizes"]
            ),
            found=repr(found),
            hint=_(hint),
        )

    return check


def _pick(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The sum of two real workers under the answer's strategy, and the replicas of one process."""
    machines = case["machines"]

    def add_up(context: Any) -> dict[str, Any]:
        from helpers.either_keras import tf
        from helpers.worker.devices import logical_cpus

        devices = logical_cpus(2)
        cluster = {job: list(addresses) for job, addresses in context.config.cluster.items()}
        strategy = answer(cluster, devices)
        own = tf.constant(10**context.config.task.index)

        def all_reduce() -> Any:
            return tf.distribute.get_replica_context().all_reduce("SUM", own)

        totals = tf.function(lambda: strategy.run(all_reduce))()
        first = strategy.experimental_local_results(totals)[0]
        return {"strategy": type(strategy).__name__, "total": int(first)}

    def count_replicas() -> list[int]:
        from helpers.worker.devices import logical_cpus

        set_tf_config_env(None)
        devices = logical_cpus(max(count for _cluster, count in machines))
        strategies = [answer(cluster, devices[:count]) for cluster, count in machines]
        return [strategy.num_replicas_in_sync for strategy in strategies]

    def alone() -> list[int]:
        with LocalCluster(workers=1) as cluster:
            [counts] = cluster.run(count_replicas, timeout=60)
        return list(counts)

    with LocalCluster(WORKERS, max_restarts=0) as cluster:
        totals = cluster.run(add_up, timeout=60)
    return {"workers": totals, "alone": capture(alone)}


def _together(seen: dict[str, Any], case: Case) -> None:
    for worker, found in zip(range(WORKERS), seen["workers"], strict=True):
        expect(
            found["total"] == 11,
            expected=_(
                "11 in each worker, because worker 0 contributes 1 and worker 1 contributes 10"
            ),
            found=_("{total} in worker {number}, under {strategy}").format(number=worker, **found),
            hint=_("A strategy for one machine does not communicate with the other workers."),
        )


def _all_devices(seen: dict[str, Any], case: Case) -> None:
    for (cluster, devices), replicas in zip(case["machines"], unwrap(seen["alone"]), strict=True):
        expect(
            replicas == devices,
            expected=ngettext(
                "{count} replica, with cluster={cluster} and as many devices",
                "{count} replicas, with cluster={cluster} and as many devices",
                devices,
            ).format(count=devices, cluster=cluster),
            found=labels.replicas(replicas),
            hint=_("How many workers are there, and how many devices does this process have?"),
        )


def _train(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The locations of the variables of the answer's model after training on several devices."""
    replicas = case["replicas"]

    def train() -> dict[str, Any]:
        from helpers.either_keras import tf
        from helpers.worker.devices import make_strategy

        strategy = make_strategy(MIRRORED, replicas=replicas)
        x = tf.reshape(tf.linspace(-1.0, 1.0, 960), [-1, 1])
        dataset = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).shuffle(960, seed=1)
        model = answer(strategy, dataset.repeat().batch(48))
        variables = [_tf_variable(weight) for weight in model.weights]
        copies = [len(getattr(variable, "values", None) or [variable]) for variable in variables]
        return {"copies": copies, "weights": [float(v.numpy().ravel()[0]) for v in variables]}

    with LocalCluster(workers=1) as cluster:
        [found] = cluster.run(train, timeout=60)
    return dict(found)


def _tf_variable(weight: Any) -> Any:
    """The `tf.Variable` of a weight, which Keras 3 wraps in its own variable class."""
    return weight if callable(weight.value) else weight.value


def _mirrors(seen: dict[str, Any], case: Case) -> None:
    expect(
        seen["copies"] == [case["replicas"]] * 2,
        expected=ngettext(
            "{count} copy of the kernel and of the bias, one on each device",
            "{count} copies of the kernel and of the bias, one on each device",
            case["replicas"],
        ).format(count=case["replicas"]),
        found=_("{counts} as the numbers of copies").format(counts=seen["copies"]),
        hint=_(
            "The strategy determines the type of a variable only if the variable is created in "
            "its scope."
        ),
    )


def _learns(seen: dict[str, Any], case: Case) -> None:
    kernel, bias = seen["weights"]
    expect(
        abs(kernel - 3) < 0.1 and abs(bias - 1) < 0.1,
        expected=_("a kernel of 3 and a bias of 1"),
        found=join_numbers([kernel, bias], ".2f"),
        hint=_("Keep the optimizer, its learning rate, and the number of steps."),
    )


def _chosen(answers: Any, case: Case) -> None:
    wanted = case["wanted"]
    expect(
        isinstance(answers, dict) and set(answers) == set(wanted),
        expected=_("a dict with a strategy for each of {letters}").format(
            letters=join_items(wanted)
        ),
        found=answers,
        hint=_("Keep the letters, and write the name of a strategy after each."),
    )
    right = sum(answers[letter] == name for letter, name in wanted.items())
    expect(
        right == len(wanted),
        expected=ngettext(
            "{count} strategy that fits", "{count} strategies that fit", len(wanted)
        ).format(count=len(wanted)),
        found=ngettext("{count} that fits", "{count} that fit", right).format(count=right),
        hint=_("How many machines are there? Where do the variables fit? May a worker be slow?"),
    )


EXERCISES = {
    "held": Exercise(
        _hold,
        (
            Criterion(
                1,
                gettext_noop("You know how much a replica of MirroredStrategy holds."),
                _holds(MIRRORED, gettext_noop("What is split here: the batch, or the model?")),
            ),
            Criterion(
                1,
                gettext_noop("You know how much a replica of CentralStorageStrategy holds."),
                _holds(CENTRAL, gettext_noop("Which device has the variables here?")),
            ),
            Criterion(
                1,
                gettext_noop("You know how much a parameter server holds."),
                _holds(
                    PARAMETER_SERVER,
                    gettext_noop("Look at where the lesson found the kernel and the bias."),
                ),
            ),
        ),
        {"sizes": [80, 12, 4, 40], "devices": 3},
    ),
    "pick": Exercise(
        _pick,
        (
            Criterion(2, gettext_noop("Two workers train together."), _together),
            Criterion(1, gettext_noop("A single process uses all its devices."), _all_devices),
        ),
        {"machines": [({}, 3), ({"worker": ["10.0.0.1:2222"]}, 3), ({}, 1)]},
    ),
    "train_all": Exercise(
        _train,
        (
            Criterion(1, gettext_noop("Every device has a copy of each variable."), _mirrors),
            Criterion(1, gettext_noop("The model still finds the same line."), _learns),
        ),
        {"replicas": 2},
    ),
    "strategy_for": Exercise(
        identity,
        (Criterion(2, gettext_noop("Every strategy fits its hardware."), _chosen),),
        {
            "wanted": {
                "A": "MirroredStrategy",
                "B": "MultiWorkerMirroredStrategy",
                "C": "ParameterServerStrategy",
                "D": "ParameterServerStrategy",
                "E": "TPUStrategy",
            }
        },
        visible_case=hide_all,
    ),
}
