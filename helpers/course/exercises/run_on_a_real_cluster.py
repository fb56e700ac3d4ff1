"""The tasks of lesson 7: roles, Slurm's variables, exit codes, a manifest, an export."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.course.criteria import (
    Criterion,
    Exercise,
    describe_calls,
    expect,
    hide_key,
)
from helpers.course.exercises.exported_program import EXPORT_PART
from helpers.course.exercises.manifests import MENDED_JOB
from helpers.errors import ConfigError
from helpers.i18n import _, gettext_noop
from helpers.tf_config import WORKER, TFConfig, build_tf_configs
from helpers.tf_config import Task as ClusterTask

Case = Mapping[str, Any]
Parts = dict[str, list[str]]  # the calls of each task's program

WORK = ("train", "export", "evaluate", "serve")
MAX_STARTS = 20  # the limit for an answer that starts a group
NO_END = "–"  # the result of an answer that reaches MAX_STARTS


def _parts(answer: Callable[..., Any], case: Case) -> dict[str, Parts]:
    """The calls of the program in each task, in real processes if these would end."""
    seen = {
        name: {str(config.task): _calls(answer, config) for config in _configs(cluster)}
        for name, cluster in case["clusters"].items()
    }
    # Training tasks wait until all workers train.
    trains = {task: "train" in calls for task, calls in seen["workers"].items()}
    if case["real"] and trains == {task: task.startswith(WORKER) for task in trains}:
        with LocalCluster(workers=2) as cluster:
            program = _program(answer)
            found = cluster.run(program, evaluator_fn=program, timeout=60)
        seen["workers"] = dict(zip(seen["workers"], found, strict=True))
    return seen


def _configs(cluster: Mapping[str, Any]) -> list[TFConfig]:
    """The `TF_CONFIG` of every task."""
    addresses = [f"10.0.0.{k + 1}:2222" for k in range(cluster["machines"])]
    return build_tf_configs(addresses, **cluster["roles"])


def _calls(answer: Callable[..., Any], config: TFConfig) -> list[str]:
    """The calls of the program in one task. A resolver needs no other task."""
    from helpers.either_keras import tf

    calls: list[str] = []
    with patch.dict(os.environ, TF_CONFIG=config.to_json()):
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        answer(resolver, *[partial(calls.append, name) for name in WORK])
    return calls


def _program(answer: Callable[..., Any]) -> Callable[[], list[str]]:
    """The function of each real process, in which training tasks wait for each other."""

    def run() -> list[str]:
        from helpers.either_keras import tf

        calls: list[str] = []

        def work(name: str) -> None:
            if name == "train":
                strategy = tf.distribute.MultiWorkerMirroredStrategy()

                def all_reduce() -> Any:
                    return tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([1]))

                tf.function(lambda: strategy.run(all_reduce))()
            calls.append(name)

        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        answer(resolver, *[partial(work, name) for name in WORK])
        return calls

    return run


def _does_its_part(name: str) -> Callable[[dict[str, Parts], Case], None]:
    def check(seen: dict[str, Parts], case: Case) -> None:
        right = case["clusters"][name]["parts"]
        expect(
            seen[name] == right,
            expected=describe_calls(right),
            found=describe_calls(seen[name]),
            hint=_(
                "Which task does the chief's work if there is a chief, and which if there is none?"
            ),
        )

    return check


def _slurm_texts(answer: Callable[..., Any], case: Case) -> dict[str, list[Any]]:
    """The answer in each process of a Slurm step."""
    return {
        name: [answer(variables) for variables in _processes(step["nodes"], step["per_node"])]
        for name, step in case["steps"].items()
    }


def _processes(nodes: Sequence[str], per_node: int) -> list[dict[str, str]]:
    """The environment variables of each process."""
    return [
        {
            "SLURM_PROCID": str(rank),
            "SLURM_STEP_NODELIST": ",".join(nodes),
            "SLURM_NTASKS_PER_NODE": str(per_node),
        }
        for rank in range(per_node * len(nodes))
    ]


def _finds_its_place(name: str) -> Callable[[dict[str, list[Any]], Case], None]:
    def check(seen: dict[str, list[Any]], case: Case) -> None:
        step = case["steps"][name]
        cluster = {WORKER: tuple(step["addresses"])}
        for rank, variables in enumerate(_processes(step["nodes"], step["per_node"])):
            found = seen[name][rank]
            expect(
                isinstance(found, str),
                expected=_("a TF_CONFIG as TensorFlow reads it"),
                found=type(found).__name__,
                hint=_("TF_CONFIG is a string. json.dumps converts a dict to it."),
            )
            right = TFConfig(cluster, ClusterTask(WORKER, rank))
            expect(
                _config(found) == right,
                expected=right.to_json(),
                found=_("{text}, with {variables}").format(text=found, variables=variables),
                hint=_("Slurm numbers the processes node by node, in the order of its list."),
            )

    return check


def _config(text: str) -> TFConfig | None:
    """The configuration in an answer, or None if the answer is not a `TF_CONFIG`."""
    try:
        return TFConfig.parse(text)
    except ConfigError:
        return None


class _GoesOn(Exception):
    """The answer restarts a group endlessly."""


def _endless(case: Case) -> Case:
    """The groups with their last codes repeated, so that the answer cannot see the end."""
    groups = {
        name: [
            {**group, "codes": [*group["codes"], *[group["codes"][-1]] * MAX_STARTS][:MAX_STARTS]}
            for group in groups
        ]
        for name, groups in case["groups"].items()
    }
    return {**case, "groups": groups}


def _supervise(answer: Callable[..., Any], case: Case) -> dict[str, list[tuple[int, Any]]]:
    """The number of times that the answer starts each group, and its result."""
    return {
        name: [_starts(answer, **group) for group in groups]
        for name, groups in case["groups"].items()
    }


def _starts(
    answer: Callable[..., Any], codes: Sequence[Sequence[int]], restarts: int
) -> tuple[int, Any]:
    """The number of times that the answer starts one group, and its result."""
    starts = 0

    def start() -> list[int]:
        nonlocal starts
        if starts == len(codes):
            raise _GoesOn
        starts += 1
        return list(codes[starts - 1])

    try:
        value = answer(start, restarts)
    except _GoesOn:
        value = NO_END
    return starts, value


def _started_well(name: str, hint: str) -> Callable[[dict[str, list[tuple[int, Any]]], Case], None]:
    def check(seen: dict[str, list[tuple[int, Any]]], case: Case) -> None:
        for group, (starts, value) in zip(case["groups"][name], seen[name], strict=True):
            right = (len(group["codes"]), group["codes"][-1] == [0, 0])
            expected = _("{starts}, and {value} is returned, with the exit codes {codes}")
            found = _("{starts}, and {value} is returned, with restarts={restarts}")
            shown = NO_END if value == NO_END else repr(value)
            expect(
                (starts, value) == right and type(value) is bool,
                expected=expected.format(
                    starts=labels.starts(right[0]), value=right[1], codes=group["codes"]
                ),
                found=found.format(
                    starts=labels.starts(starts), value=shown, restarts=group["restarts"]
                ),
                hint=_(hint),
            )

    return check


LOST, KILLED, FAULT = 138, 137, 1
DONE = [0, 0]
EXERCISES = {
    "own_part": Exercise(
        _parts,
        (
            Criterion(
                2,
                gettext_noop("Two workers and an evaluator do the work of their roles."),
                _does_its_part("workers"),
            ),
            Criterion(
                1, gettext_noop("So do a chief, a worker and a ps."), _does_its_part("with a chief")
            ),
        ),
        {
            "clusters": {
                "workers": {
                    "machines": 2,
                    "roles": {"evaluator": True},
                    "parts": {
                        "worker 0": ["train", "export"],
                        "worker 1": ["train"],
                        "evaluator 0": ["evaluate"],
                    },
                },
                "with a chief": {
                    "machines": 3,
                    "roles": {"chief": True, "ps": 1},
                    "parts": {
                        "chief 0": ["train", "export"],
                        "worker 0": ["train"],
                        "ps 0": ["serve"],
                    },
                },
            },
            "real": True,
        },
        visible_case=hide_key("clusters", "parts"),
    ),
    "slurm_config": Exercise(
        _slurm_texts,
        (
            Criterion(
                2,
                gettext_noop("One process on each node finds its place."),
                _finds_its_place("one on each node"),
            ),
            Criterion(
                1,
                gettext_noop("So do several on one node."),
                _finds_its_place("several on a node"),
            ),
        ),
        {
            "steps": {
                "one on each node": {
                    "nodes": ["node9", "node10", "gpu1"],
                    "per_node": 1,
                    "addresses": ["node9:20000", "node10:20000", "gpu1:20000"],
                },
                "several on a node": {
                    "nodes": ["node9", "node10"],
                    "per_node": 2,
                    "addresses": ["node9:20000", "node9:20001", "node10:20000", "node10:20001"],
                },
            }
        },
        visible_case=hide_key("steps", "addresses"),
    ),
    "start_again": Exercise(
        _supervise,
        (
            Criterion(
                1,
                gettext_noop("A group is restarted if that helps, and only then."),
                _started_well(
                    "that may go on",
                    gettext_noop("Look at the codes of all processes. What does each code mean?"),
                ),
            ),
            Criterion(
                1,
                gettext_noop("It is not started more often than you allow."),
                _started_well(
                    "that never goes on",
                    gettext_noop("`restarts` does not count the first start."),
                ),
            ),
        ),
        {
            "groups": {
                "that may go on": [
                    {"codes": [DONE], "restarts": 3},
                    {"codes": [[LOST, KILLED], DONE], "restarts": 3},
                    {"codes": [[0, LOST], [LOST, LOST], DONE], "restarts": 3},
                    {"codes": [[LOST, FAULT]], "restarts": 3},
                ],
                "that never goes on": [
                    {"codes": [[LOST, KILLED]] * 3, "restarts": 2},
                    {"codes": [[KILLED, LOST]], "restarts": 0},
                ],
            }
        },
        visible_case=_endless,
    ),
    "mended_job": MENDED_JOB,
    "export_part": EXPORT_PART,
}
