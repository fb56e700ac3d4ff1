"""The rules for a `TF_CONFIG`, each with its own message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.i18n import _, join_items, ngettext
from helpers.tf_config.addresses import SPARSE_JOBS, check_address, check_addresses

CHIEF, WORKER, PS, EVALUATOR = "chief", "worker", "ps", "evaluator"
JOBS = (CHIEF, WORKER, PS)  # allowed in `cluster`, unlike the evaluator
TASK_EXAMPLE = '{"type": "worker", "index": 0}'
CLUSTER, SPARSE_CLUSTER, TASK = "cluster", "sparseCluster", "task"
# TensorFlow reads the first four, and hosted services write the others.
OTHER_KEYS = (
    "eval_session_master",
    "model_dir",
    "rpc_layer",
    "service",
    "session_master",
    "environment",
    "job",
    "trial",
)
MAX_INDEX = 99_999  # in a sparse job


@dataclass(frozen=True, order=True)
class Task:
    """One task of a cluster: a job and an index within it."""

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type} {self.index}"

    @property
    def label(self) -> str:
        """The task in the language in use; `str` is English, as in keys, files and logs."""
        return labels.task(self)


def find_cluster(value: dict[str, Any]) -> Any:
    """The part of a decoded `TF_CONFIG` that describes the cluster, or an empty dict.

    Kubeflow's training operator, up to 1.6, wrote the cluster of dynamic workers under the key
    ``sparseCluster``, which TensorFlow ignores. From 1.7 on it writes ``cluster``
    (https://github.com/kubeflow/trainer/issues/1795).
    """
    if CLUSTER in value and SPARSE_CLUSTER in value:
        message = _('TF_CONFIG has both "cluster" and "sparseCluster". Keep only "cluster".')
        raise ConfigError(message)
    if SPARSE_CLUSTER in value:
        return value[SPARSE_CLUSTER]
    unknown = [key for key in value if key not in (CLUSTER, TASK, *OTHER_KEYS)]
    if CLUSTER not in value and unknown:
        message = _(
            'TF_CONFIG has no "cluster", but a key {key!r:.40} that TensorFlow ignores: this '
            'process would train alone. Correct the key to "cluster" or "task", or remove it.'
        )
        raise ConfigError(message.format(key=unknown[0]))
    return value.get(CLUSTER, {})


def read_cluster(value: Any) -> dict[str, tuple[str, ...]]:
    """The ``cluster`` of a decoded `TF_CONFIG`, with tuples for lists.

    As in `tf.train.ClusterSpec`, a job may also be sparse, a mapping from indices to addresses.
    If an index is missing, the tuple has an empty string.
    """
    if not isinstance(value, dict):
        message = _(
            'TF_CONFIG["cluster"] must map job names to lists of addresses, not {value!r:.60}.'
        )
        raise ConfigError(message.format(value=value))
    cluster = {job: _read_job(job, addresses) for job, addresses in value.items()}
    for job in SPARSE_JOBS:
        if value.get(job) == {}:  # no worker is known
            del cluster[job]
    if value and not cluster:
        message = _('TF_CONFIG["cluster"] is {value!r:.60}: it lists no tasks. Add the addresses.')
        raise ConfigError(message.format(value=value))
    return cluster


def _read_job(job: str, addresses: Any) -> tuple[str, ...]:
    """The addresses of a job by index."""
    if isinstance(addresses, list):
        if "" in addresses:
            check_address(f"{job} {addresses.index('')}", "")
        return tuple(addresses)
    if not isinstance(addresses, dict):
        message = _(
            'TF_CONFIG["cluster"]["{job}"] must be a list of "host:port" strings, '
            "not {addresses!r:.60}."
        )
        raise ConfigError(message.format(job=job, addresses=addresses))
    by_index = {_sparse_index(job, key): address for key, address in addresses.items()}
    for index, address in by_index.items():
        check_address(f"{job} {index}", address)
    return tuple(by_index.get(k, "") for k in range(max(by_index, default=-1) + 1))


def _sparse_index(job: str, key: str) -> int:
    if key.isascii() and key.isdigit() and int(key[:9]) <= MAX_INDEX and str(int(key[:9])) == key:
        return int(key)
    message = _(
        'TF_CONFIG["cluster"]["{job}"] has the index {key!r:.40}, but an index is a whole number '
        "from 0 to {most}."
    )
    raise ConfigError(message.format(job=job, key=key, most=MAX_INDEX))


def is_sparse(addresses: Iterable[str]) -> bool:
    """Whether some tasks of a job are unknown to this process."""
    return "" in addresses


def sparse(addresses: tuple[str, ...]) -> dict[int, str]:
    """The known addresses of a job by index."""
    return {index: address for index, address in enumerate(addresses) if address}


def read_task(value: dict[str, Any]) -> Task:
    """The ``task`` of a decoded `TF_CONFIG`."""
    task = value.get(TASK)
    if TASK not in value and not find_cluster(value):
        return Task(WORKER, 0)
    if TASK not in value:
        message = _(
            'TF_CONFIG has no "task", so this process cannot know which entry of "cluster" '
            'it is. Add "task": {example}.'
        )
        raise ConfigError(message.format(example=TASK_EXAMPLE))
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        message = _(
            'TF_CONFIG["task"] is {task!r:.60}, but it needs both "type" and "index", as in '
            "{example}."
        )
        raise ConfigError(message.format(task=task, example=TASK_EXAMPLE))
    index = task["index"]
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10:
        index = int(index)  # TensorFlow reads "1" as 1 too
    if isinstance(index, bool) or not isinstance(index, int):
        message = _(
            'TF_CONFIG["task"]["index"] is {index!r:.40}, but it must be a whole number of at '
            "least 0."
        )
        raise ConfigError(message.format(index=index))
    return Task(task["type"], index)


def check_cluster(cluster: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ConfigError unless TensorFlow can use every job and every address."""
    for job, addresses in cluster.items():
        _check_job(job, addresses)
    check_addresses(cluster)
    _check_sparse_jobs(cluster)


def _check_sparse_jobs(cluster: Mapping[str, tuple[str, ...]]) -> None:
    workers = cluster.get(WORKER, ())
    if is_sparse(workers) and PS not in cluster:
        message = _(
            'TF_CONFIG["cluster"]["worker"] does not list every worker from 0 to {last}. Without '
            '"ps", all workers train together and need all addresses: list them.'
        )
        raise ConfigError(message.format(last=len(workers) - 1))


def _check_job(job: str, addresses: tuple[str, ...]) -> None:
    if job == EVALUATOR:
        message = _(
            'TF_CONFIG["cluster"] lists an evaluator. The evaluator reads checkpoints and is not a '
            'member of the training cluster: leave it out of "cluster" and name it only in its own '
            '"task", or give it a "cluster" of only the evaluator.'
        )
        raise ConfigError(message)
    if job == "master":
        message = _('TF_CONFIG["cluster"] has a "master": that is the old name of "chief".')
        raise ConfigError(message)
    if job not in JOBS:
        message = _(
            'TF_CONFIG["cluster"] has a job {job!r:.40}, '
            'but the jobs are "chief", "worker" and "ps". Correct the name.'
        )
        raise ConfigError(message.format(job=job))
    if not addresses:
        message = _(
            'TF_CONFIG["cluster"]["{job}"] is empty: list its addresses or leave the job out.'
        )
        raise ConfigError(message.format(job=job))
    if job == CHIEF and len(addresses) > 1:
        message = ngettext(
            "TF_CONFIG names {count} chief ({addresses}), but a cluster has one. "
            "Make the others workers.",
            "TF_CONFIG names {count} chiefs ({addresses}), but a cluster has one. "
            "Make the others workers.",
            len(addresses),
        )
        names = join_items(map(str, addresses))
        raise ConfigError(message.format(count=len(addresses), addresses=names))


def check_task(task: Task, cluster: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ConfigError unless `task` is in `cluster`, or its evaluator."""
    if not isinstance(task.type, str):
        raise ConfigError(
            _(
                'TF_CONFIG["task"]["type"] is {value!r:.40}, but it must be a name, such as '
                '"worker".'
            ).format(value=task.type)
        )
    if not cluster and task.type not in (WORKER, EVALUATOR):
        message = _(
            'TF_CONFIG["task"]["type"] is {type!r:.40}, but TF_CONFIG has no "cluster": this '
            'process would train alone. Add the "cluster", which is the same in every process.'
        )
        raise ConfigError(message.format(type=task.type))
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
    if cluster and task.type != EVALUATOR and not cluster[task.type][task.index]:
        message = _(
            'TF_CONFIG["cluster"]["{type}"] has no address for {task}, which is this process. Add '
            "it, or correct the index."
        )
        raise ConfigError(message.format(type=task.type, task=task.label))
