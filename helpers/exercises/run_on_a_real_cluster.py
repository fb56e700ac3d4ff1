"""The tasks of lesson 7: one program for all roles, Slurm's variables, exit codes, a manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

from helpers.check import Part, Task, as_it_is, expect
from helpers.cluster.local import LocalCluster
from helpers.errors import ConfigError
from helpers.i18n import _, gettext_noop
from helpers.tf_config.slurm import config_from_slurm
from helpers.tf_config import EVALUATOR, PS, TFConfig, build
from helpers.engines.kubernetes.tfjob import TFJob
from helpers.engines.kubernetes.rules import CONTAINER

Case = Mapping[str, Any]
Parts = dict[str, list[str]]  # by task, what its program called

WORK = ("train", "export", "evaluate", "serve")
MOST_STARTS = 20  # an answer that starts a group more often is stopped


def _parts(answer: Callable[..., Any], case: Case) -> dict[str, Parts]:
    """What the program does in each task; in real processes, where it is right without them."""
    seen = {
        name: {str(config.task): _calls(answer, config) for config in _configs(cluster)}
        for name, cluster in case["clusters"].items()
    }
    if case["real"] and seen["workers"] == _right_parts(case["clusters"]["workers"]):
        with LocalCluster(workers=2) as cluster:
            program = _program(answer)
            found = cluster.run(program, beside=program, timeout=60)
        seen["workers"] = dict(zip(seen["workers"], found, strict=True))
    return seen


def _configs(cluster: Mapping[str, Any]) -> list[TFConfig]:
    """The `TF_CONFIG` of every task."""
    addresses = [f"10.0.0.{k + 1}:2222" for k in range(cluster["machines"])]
    return build(addresses, **cluster["roles"])


def _calls(answer: Callable[..., Any], config: TFConfig) -> list[str]:
    """What the program calls in one task; to ask a resolver, no other has to be there."""
    from helpers.estimator import tf

    calls: list[str] = []
    with patch.dict(os.environ, TF_CONFIG=config.to_json()):
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        answer(resolver, *[partial(calls.append, name) for name in WORK])
    return calls


def _program(answer: Callable[..., Any]) -> Callable[[], list[str]]:
    """What runs in each real process: those that train wait for each other."""

    def run() -> list[str]:
        from helpers.estimator import tf

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


def _right_parts(cluster: Mapping[str, Any]) -> Parts:
    alone = {EVALUATOR: ["evaluate"], PS: ["serve"]}
    return {
        str(config.task): alone.get(config.task.type, ["train"])
        + ["export"] * (config.task == config.chief)
        for config in _configs(cluster)
    }


def _does_its_part(name: str) -> Callable[[dict[str, Parts], Case], None]:
    def judge(seen: dict[str, Parts], case: Case) -> None:
        right = _right_parts(case["clusters"][name])
        expect(
            seen[name] == right,
            expected=_in_words(right),
            found=_in_words(seen[name]),
            hint=_("Which task does the chief's work, if there is a chief, and if there is none?"),
        )

    return judge


def _in_words(parts: Parts) -> str:
    return "; ".join(f"{task}: {', '.join(calls) or '–'}" for task, calls in parts.items())


def _slurm_texts(answer: Callable[..., Any], case: Case) -> dict[str, list[Any]]:
    """The answer in each process of a Slurm step."""
    return {
        name: [answer(dict(variables)) for variables in _processes(**step)]
        for name, step in case["steps"].items()
    }


def _processes(nodes: Sequence[str], per_node: int) -> list[dict[str, str]]:
    """The variables that each process finds."""
    return [
        {
            "SLURM_PROCID": str(rank),
            "SLURM_STEP_NODELIST": ",".join(nodes),
            "SLURM_NTASKS_PER_NODE": str(per_node),
        }
        for rank in range(per_node * len(nodes))
    ]


def _finds_its_place(name: str) -> Callable[[dict[str, list[Any]], Case], None]:
    def judge(seen: dict[str, list[Any]], case: Case) -> None:
        step = case["steps"][name]
        for found, variables in zip(seen[name], _processes(**step), strict=True):
            expect(
                isinstance(found, str),
                expected=_("a TF_CONFIG as TensorFlow reads it"),
                found=type(found).__name__,
                hint=_("TF_CONFIG is a text. json.dumps makes it of a dict."),
            )
            right = _right_config(variables, **step)
            expect(
                _config(found) == right,
                expected=right.to_json(),
                found=_("{text}, with {variables}").format(text=found, variables=variables),
                hint=_("Slurm numbers the processes node by node, in the order of its list."),
            )

    return judge


def _right_config(variables: Mapping[str, str], nodes: Sequence[str], per_node: int) -> TFConfig:
    counts = {
        "SLURM_STEP_NUM_TASKS": str(per_node * len(nodes)),
        "SLURM_STEP_TASKS_PER_NODE": f"{per_node}(x{len(nodes)})",
    }
    config = config_from_slurm({**variables, **counts})
    assert config is not None  # there are several processes
    return config


def _config(text: str) -> TFConfig | None:
    """What an answer says; None if it is no `TF_CONFIG`."""
    try:
        return TFConfig.parse(text)
    except ConfigError:
        return None


class _GoesOn(Exception):
    """The answer starts a group again and again."""


def _supervise(answer: Callable[..., Any], case: Case) -> dict[str, list[tuple[int, Any]]]:
    """How often the answer starts each group, and what it returns."""
    return {
        name: [_starts(answer, **group) for group in groups]
        for name, groups in case["groups"].items()
    }


def _starts(
    answer: Callable[..., Any], codes: Sequence[Sequence[int]], restarts: int
) -> tuple[int, Any]:
    """How often it starts one group, and what it returns. The last codes come again and again."""
    starts = 0

    def start() -> list[int]:
        nonlocal starts
        if starts == MOST_STARTS:
            raise _GoesOn
        starts += 1
        return list(codes[min(starts, len(codes)) - 1])

    try:
        value = answer(start, restarts)
    except _GoesOn:
        value = _GoesOn
    return starts, value


def _started_well(name: str, hint: str) -> Callable[[dict[str, list[tuple[int, Any]]], Case], None]:
    def judge(seen: dict[str, list[tuple[int, Any]]], case: Case) -> None:
        for group, (starts, value) in zip(case["groups"][name], seen[name], strict=True):
            right = (len(group["codes"]), group["codes"][-1] == [0, 0])
            expected = _("starts: {count}, returned: {value}, with the exit codes {codes}")
            found = _("starts: {count}, returned: {value}, with restarts={restarts}")
            shown = "–" if value is _GoesOn else repr(value)
            expect(
                (starts, value) == right and type(value) is bool,
                expected=expected.format(count=right[0], value=right[1], codes=group["codes"]),
                found=found.format(count=starts, value=shown, restarts=group["restarts"]),
                hint=_(hint),
            )

    return judge


def _pods_work(job: Any, case: Case) -> None:
    replicas = _replicas(job)
    counts = {role: spec.get("replicas", 1) for role, spec in replicas.items()}
    expect(
        counts == case["counts"],
        expected=case["counts"],
        found=counts,
        hint=_("Mend the roles that are there, and add or remove none."),
    )
    for role, spec in replicas.items():
        pod = spec["template"]["spec"]
        expect(
            _claim(pod) == case["claim"],
            expected=_("{path} in the claim {claim}, for {role}").format(
                path=case["payload"], claim=case["claim"], role=role
            ),
            found={"volumes": pod.get("volumes")},
            hint=_("On which volume does each pod look for the payload?"),
        )


def _replicas(job: Any) -> Mapping[str, Any]:
    """The roles of a TFJob; raises `Wrong` if it cannot work."""
    hint = _("Keep what `yaml.safe_load` has made of the text, and mend what is in it.")
    try:
        manifest = TFJob(job).manifest
    except ConfigError as error:
        expect(False, expected=_("a TFJob that can work"), found=str(error), hint=hint)
        raise
    replicas: Mapping[str, Any] = manifest["spec"]["tfReplicaSpecs"]
    return replicas


def _claim(pod: Mapping[str, Any]) -> str | None:
    """The claim in which the payload of a pod lies; None if it lies in no claim."""
    [container] = [one for one in pod["containers"] if one["name"] == CONTAINER]
    payload = str(container["command"][-1])
    volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        if payload.startswith(f"{mount['mountPath'].rstrip('/')}/"):
            claim = volumes.get(mount["name"], {}).get("persistentVolumeClaim", {})
            return str(claim.get("claimName"))
    return None


def _restarts_well(job: Any, case: Case) -> None:
    for role, spec in _replicas(job).items():
        expect(
            spec.get("restartPolicy") == "ExitCode",
            expected=_("pods of {role} that are started again after 138, and not after 1").format(
                role=role
            ),
            found={"restartPolicy": spec.get("restartPolicy")},
            hint=_("Which policy looks at the code that a pod ends with?"),
        )


LOST, KILLED, FAULT = 138, 137, 1
DONE = [0, 0]
TASKS = {
    "own_part": Task(
        _parts,
        (
            Part(
                2,
                gettext_noop("Two workers and an evaluator do their parts."),
                _does_its_part("workers"),
            ),
            Part(
                1, gettext_noop("So do a chief, a worker and a ps."), _does_its_part("with a chief")
            ),
        ),
        {
            "clusters": {
                "workers": {"machines": 2, "roles": {"evaluator": True}},
                "with a chief": {"machines": 3, "roles": {"chief": True, "ps": 1}},
            },
            "real": True,
        },
    ),
    "slurm_config": Task(
        _slurm_texts,
        (
            Part(
                2,
                gettext_noop("One process on each node finds its place."),
                _finds_its_place("one on each node"),
            ),
            Part(
                1,
                gettext_noop("So do several on one node."),
                _finds_its_place("several on a node"),
            ),
        ),
        {
            "steps": {
                "one on each node": {"nodes": ["node9", "node10", "gpu1"], "per_node": 1},
                "several on a node": {"nodes": ["node9", "node10"], "per_node": 2},
            }
        },
    ),
    "start_again": Task(
        _supervise,
        (
            Part(
                1,
                gettext_noop("A group is started again where that helps, and only there."),
                _started_well(
                    "that may go on",
                    gettext_noop(
                        "Look at the codes of all processes. What does each of them ask for?"
                    ),
                ),
            ),
            Part(
                1,
                gettext_noop("It is started no more often than you allow."),
                _started_well(
                    "that never goes on",
                    gettext_noop("`restarts` counts the starts that come after the first one."),
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
    ),
    "mended_job": Task(
        as_it_is,
        (
            Part(1, gettext_noop("All pods share the folder of the payload."), _pods_work),
            Part(1, gettext_noop("Pods are started again where that helps."), _restarts_well),
        ),
        {"counts": {"Chief": 1, "Worker": 3}, "claim": "shared", "payload": "/shared/payload.pkl"},
    ),
}
