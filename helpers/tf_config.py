"""`TF_CONFIG`, the one thing a TensorFlow process is told about its cluster.

The value is JSON in an environment variable::

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 1}}

`cluster` is the same in every process; `task` says which entry this process is.
The rules checked here are those of
https://www.tensorflow.org/api_docs/python/tf/estimator/train_and_evaluate and of
`tf.distribute.cluster_resolver.TFConfigClusterResolver`; TensorFlow itself meets
most violations with a hang.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.errors import ConfigError

CHIEF, WORKER, PS, EVALUATOR = "chief", "worker", "ps", "evaluator"
JOBS = (CHIEF, WORKER, PS)  # what may stand in `cluster`; the evaluator may not


@dataclass(frozen=True, order=True)
class Task:
    """One place in a cluster: a job and an index within it."""

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type} {self.index}"


@dataclass(frozen=True)
class TFConfig:
    """A checked `TF_CONFIG`.

    Attributes:
      cluster: addresses (``"host:port"``) by job: ``chief``, ``worker``, ``ps``. Empty
        when the process works alone.
      task: which of them this process is. An evaluator stands outside `cluster`.

    Raises:
      ConfigError: for anything TensorFlow would refuse, misread or hang on.
    """

    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    task: Task = Task(WORKER, 0)

    def __post_init__(self) -> None:
        _check_cluster(self.cluster)
        _check_task(self.task, self.cluster)

    @classmethod
    def parse(cls, text: str) -> TFConfig:
        """Reads the JSON text of a `TF_CONFIG`; an empty text is a process alone."""
        if not text.strip():
            return cls()
        try:
            value = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ConfigError(
                f"TF_CONFIG is not JSON: {error}. It begins {text[:60]!r}. "
                "Write it with json.dumps(...)."
            ) from None
        if not isinstance(value, dict):
            raise ConfigError(f"TF_CONFIG must be a JSON object {{…}}, not {value!r:.60}.")
        return cls(_read_cluster(value.get("cluster", {})), _read_task(value))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> TFConfig:
        """Reads `TF_CONFIG` of this process; without one, the process works alone."""
        return cls.parse(environ.get("TF_CONFIG", ""))

    def to_json(self) -> str:
        """The value to put into the environment of this task."""
        return json.dumps(
            {
                "cluster": {job: list(addresses) for job, addresses in self.cluster.items()},
                "task": {"type": self.task.type, "index": self.task.index},
            }
        )

    @property
    def tasks(self) -> list[Task]:
        """Every task in `cluster`, chief first, parameter servers last."""
        return [Task(job, i) for job in JOBS for i in range(len(self.cluster.get(job, ())))]

    @property
    def chief(self) -> Task:
        """The task that saves checkpoints: `chief 0`, or `worker 0` where there is none."""
        return Task(CHIEF, 0) if CHIEF in self.cluster else Task(WORKER, 0)

    @property
    def address(self) -> str | None:
        """Where this task listens; None for an evaluator and for a process alone."""
        addresses = self.cluster.get(self.task.type, ())
        return addresses[self.task.index] if addresses else None

    def address_of(self, task: Task) -> str:
        """Where `task` of this cluster listens."""
        return self.cluster[task.type][task.index]

    def explain(self) -> str:
        """Says in words who this process is and whom it waits for."""
        me = self.task
        if not self.cluster:
            return "TF_CONFIG names no cluster: this process trains alone and waits for nobody."
        if me.type == EVALUATOR:
            return (
                "This process is the evaluator. It stands outside the cluster, waits for nobody, "
                "and evaluates each checkpoint that the chief writes."
            )
        others = [task for task in self.tasks if task != me]
        lines = [f"This process is {me}, listening on {self.address}."]
        if me == self.chief:
            lines.append("It is the chief: it also writes checkpoints and summaries.")
        else:
            lines.append(f"The chief, which writes checkpoints and summaries, is {self.chief}.")
        if me.type == PS:
            lines.append(
                "It holds variables and serves whoever asks; it never computes a gradient."
            )
        if others:
            names = ", ".join(f"{task} ({self.address_of(task)})" for task in others)
            lines.append(f"Training starts when it can reach {names}.")
        return " ".join(lines)


def build(
    addresses: Sequence[str], *, chief: bool = False, ps: int = 0, evaluator: bool = False
) -> list[TFConfig]:
    """One `TFConfig` for every process of a cluster.

    Args:
      addresses: one ``"host:port"`` for each of chief, workers and parameter servers,
        in this order. What is left after `chief` and `ps` are workers.
      chief: whether the first address is a separate ``chief`` task. Without it, worker 0
        does the chief's work.
      ps: how many of the last addresses are parameter servers.
      evaluator: whether to add an evaluator, which needs no address.
    """
    workers = len(addresses) - int(chief) - ps
    if workers < 0 or not addresses or ps < 0:
        raise ConfigError(
            f"{len(addresses)} address(es) are too few for chief={chief} and ps={ps}: "
            "give one for every task."
        )
    sizes = {CHIEF: int(chief), WORKER: workers, PS: ps}
    cluster, rest = {}, list(addresses)
    for job, size in sizes.items():
        if size:
            cluster[job], rest = tuple(rest[:size]), rest[size:]
    tasks = [Task(job, i) for job, size in sizes.items() for i in range(size)]
    if evaluator:
        tasks.append(Task(EVALUATOR, 0))
    return [TFConfig(cluster, task) for task in tasks]


def _read_cluster(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ConfigError(
            f'TF_CONFIG["cluster"] must map job names to lists of addresses, not {value!r:.60}.'
        )
    for job, addresses in value.items():
        if not isinstance(addresses, list):
            raise ConfigError(
                f'TF_CONFIG["cluster"]["{job}"] must be a list of "host:port" strings, '
                f"not {addresses!r:.60}."
            )
    return {job: tuple(addresses) for job, addresses in value.items()}


def _read_task(value: dict[str, Any]) -> Task:
    task = value.get("task")
    if task is None and not value.get("cluster"):
        return Task(WORKER, 0)
    if task is None:
        raise ConfigError(
            'TF_CONFIG has no "task", so this process cannot know which entry of "cluster" '
            'it is. Add "task": {"type": "worker", "index": 0}.'
        )
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        raise ConfigError(
            f'TF_CONFIG["task"] is {task!r:.60}; it needs both "type" and "index", '
            'as in {"type": "worker", "index": 0}.'
        )
    index = task["index"]
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10:
        index = int(index)  # TensorFlow reads "1" as 1 too
    if isinstance(index, bool) or not isinstance(index, int):
        raise ConfigError(
            f'TF_CONFIG["task"]["index"] is {index!r:.40}; it must be a whole number from 0.'
        )
    return Task(task["type"], index)


def _check_cluster(cluster: Mapping[str, tuple[str, ...]]) -> None:
    seen: dict[str, str] = {}
    for job, addresses in cluster.items():
        _check_job(job, addresses)
        for index, address in enumerate(addresses):
            _check_address(f"{job} {index}", address)
            if address in seen:
                raise ConfigError(
                    f"{seen[address]} and {job} {index} of TF_CONFIG have the same address "
                    f"{address!r}. Two processes cannot share a port: give each its own."
                )
            seen[address] = f"{job} {index}"


def _check_job(job: str, addresses: tuple[str, ...]) -> None:
    if job == EVALUATOR:
        raise ConfigError(
            'TF_CONFIG["cluster"] lists an evaluator. The evaluator reads checkpoints and is no '
            'member of the cluster: leave it out of "cluster" and name it only in its own "task".'
        )
    if job == "master":
        raise ConfigError('TF_CONFIG["cluster"] has a "master": that is the old name of "chief".')
    if job not in JOBS:
        raise ConfigError(
            f'TF_CONFIG["cluster"] has a job {job!r:.40}; '
            "the jobs are chief, worker and ps. Correct the name."
        )
    if not addresses:
        raise ConfigError(
            f'TF_CONFIG["cluster"]["{job}"] is empty: list its addresses or leave the job out.'
        )
    if job == CHIEF and len(addresses) > 1:
        raise ConfigError(
            f"TF_CONFIG names {len(addresses)} chiefs ({', '.join(map(str, addresses))}); a "
            "cluster has one. Make the others workers."
        )


def _check_address(owner: str, address: Any) -> None:
    if not isinstance(address, str) or ":" not in address:
        raise ConfigError(
            f'The address of {owner} in TF_CONFIG is {address!r:.60}; it must be "host:port".'
        )
    host, _, port = address.rpartition(":")
    if not host or any(char.isspace() or char in "/," for char in host):
        raise ConfigError(
            f"The address of {owner} in TF_CONFIG is {address!r:.60}; its host {host!r:.40} is no "
            'host name. Write "host:port" without "http://" or spaces.'
        )
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        raise ConfigError(
            f"The address of {owner} in TF_CONFIG is {address!r:.60}; its port {port!r:.20} must "
            "be a number from 1 to 65535."
        )


def _check_task(task: Task, cluster: Mapping[str, tuple[str, ...]]) -> None:
    if task.type == EVALUATOR or not cluster:
        allowed = 1
    elif task.type not in cluster:
        raise ConfigError(
            f'TF_CONFIG["task"]["type"] is {task.type!r:.40}, but "cluster" has only '
            f"{', '.join(cluster)}. Use one of these, or evaluator."
        )
    else:
        allowed = len(cluster[task.type])
    if not 0 <= task.index < allowed:
        raise ConfigError(
            f'TF_CONFIG["task"]["index"] is {task.index}, but the tasks of job {task.type} are '
            f"numbered from 0 and the last is {allowed - 1}. Correct the index, or the cluster."
        )
