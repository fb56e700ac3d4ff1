"""What a `TF_CONFIG` must hold to, each rule with a message of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _, join_items, ngettext

CHIEF, WORKER, PS, EVALUATOR = "chief", "worker", "ps", "evaluator"
JOBS = (CHIEF, WORKER, PS)  # what may stand in `cluster`; the evaluator may not
TASK_EXAMPLE = '{"type": "worker", "index": 0}'


@dataclass(frozen=True, order=True)
class Task:
    """One place in a cluster: a job and an index within it."""

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type} {self.index}"


def read_cluster(value: Any) -> dict[str, tuple[str, ...]]:
    """The ``cluster`` of a decoded `TF_CONFIG`, with tuples for lists."""
    if not isinstance(value, dict):
        message = _(
            'TF_CONFIG["cluster"] must map job names to lists of addresses, not {value!r:.60}.'
        )
        raise ConfigError(message.format(value=value))
    for job, addresses in value.items():
        if not isinstance(addresses, list):
            message = _(
                'TF_CONFIG["cluster"]["{job}"] must be a list of "host:port" strings, '
                "not {addresses!r:.60}."
            )
            raise ConfigError(message.format(job=job, addresses=addresses))
    return {job: tuple(addresses) for job, addresses in value.items()}


def read_task(value: dict[str, Any]) -> Task:
    """The ``task`` of a decoded `TF_CONFIG`."""
    task = value.get("task")
    if task is None and not value.get("cluster"):
        return Task(WORKER, 0)
    if task is None:
        message = _(
            'TF_CONFIG has no "task", so this process cannot know which entry of "cluster" '
            'it is. Add "task": {example}.'
        )
        raise ConfigError(message.format(example=TASK_EXAMPLE))
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        message = _(
            'TF_CONFIG["task"] is {task!r:.60}; it needs both "type" and "index", as in {example}.'
        )
        raise ConfigError(message.format(task=task, example=TASK_EXAMPLE))
    index = task["index"]
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10:
        index = int(index)  # TensorFlow reads "1" as 1 too
    if isinstance(index, bool) or not isinstance(index, int):
        message = _(
            'TF_CONFIG["task"]["index"] is {index!r:.40}; it must be a whole number from 0.'
        )
        raise ConfigError(message.format(index=index))
    return Task(task["type"], index)


def check_cluster(cluster: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ConfigError unless every job and every address is one that TensorFlow can use."""
    for job, addresses in cluster.items():
        _check_job(job, addresses)
    check_addresses(cluster)


def check_addresses(cluster: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ConfigError unless every address is one, and none is given twice."""
    seen: dict[str, str] = {}
    for job, addresses in cluster.items():
        for index, address in enumerate(addresses):
            task = f"{job} {index}"
            _check_address(task, address)
            if address in seen:
                message = _(
                    "{first} and {second} of TF_CONFIG have the same address {address!r}. "
                    "Two processes cannot share a port: give each its own."
                )
                raise ConfigError(message.format(first=seen[address], second=task, address=address))
            seen[address] = task


def _check_job(job: str, addresses: tuple[str, ...]) -> None:
    if job == EVALUATOR:
        message = _(
            'TF_CONFIG["cluster"] lists an evaluator. The evaluator reads checkpoints and is no '
            'member of the cluster: leave it out of "cluster" and name it only in its own "task".'
        )
        raise ConfigError(message)
    if job == "master":
        message = _('TF_CONFIG["cluster"] has a "master": that is the old name of "chief".')
        raise ConfigError(message)
    if job not in JOBS:
        message = _(
            'TF_CONFIG["cluster"] has a job {job!r:.40}; '
            'the jobs are "chief", "worker" and "ps". Correct the name.'
        )
        raise ConfigError(message.format(job=job))
    if not addresses:
        message = _(
            'TF_CONFIG["cluster"]["{job}"] is empty: list its addresses or leave the job out.'
        )
        raise ConfigError(message.format(job=job))
    if job == CHIEF and len(addresses) > 1:
        message = ngettext(
            "TF_CONFIG names {count} chief ({addresses}); a cluster has one. "
            "Make the others workers.",
            "TF_CONFIG names {count} chiefs ({addresses}); a cluster has one. "
            "Make the others workers.",
            len(addresses),
        )
        names = join_items(map(str, addresses))
        raise ConfigError(message.format(count=len(addresses), addresses=names))


def _check_address(owner: str, address: Any) -> None:
    if not isinstance(address, str) or ":" not in address:
        message = _(
            'The address of {task} in TF_CONFIG is {address!r:.60}; it must be "host:port".'
        )
        raise ConfigError(message.format(task=owner, address=address))
    host, _colon, port = address.rpartition(":")
    if not host or any(char.isspace() or char in "/," for char in host):
        message = _(
            "The address of {task} in TF_CONFIG is {address!r:.60}; its host {host!r:.40} is no "
            'host name. Write "host:port" without "http://" or spaces.'
        )
        raise ConfigError(message.format(task=owner, address=address, host=host))
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        message = _(
            "The address of {task} in TF_CONFIG is {address!r:.60}; its port {port!r:.20} must "
            "be a number from 1 to 65535."
        )
        raise ConfigError(message.format(task=owner, address=address, port=port))


def check_task(task: Task, cluster: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ConfigError unless `task` is a place in `cluster`, or its evaluator."""
    if not isinstance(task.type, str):
        raise ConfigError(
            _('TF_CONFIG["task"]["type"] is {value!r:.40}; it must be a name, as "worker".').format(
                value=task.type
            )
        )
    if task.type == EVALUATOR or not cluster:
        allowed = 1
    elif task.type not in cluster:
        message = _(
            'TF_CONFIG["task"]["type"] is {type!r:.40}, but "cluster" has only {jobs}. '
            "Use one of these, or evaluator."
        )
        raise ConfigError(message.format(type=task.type, jobs=join_items(cluster)))
    else:
        allowed = len(cluster[task.type])
    if not 0 <= task.index < allowed:
        message = _(
            'TF_CONFIG["task"]["index"] is {index}, but the tasks of job {type} are '
            "numbered from 0 and the last is {last}. Correct the index, or the cluster."
        )
        raise ConfigError(message.format(index=task.index, type=task.type, last=allowed - 1))
