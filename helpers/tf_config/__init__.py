"""`TF_CONFIG`, a TensorFlow process's only information about its cluster.

The value is JSON in an environment variable::

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 1}}

`cluster` is the same in every process, and `task` specifies the entry of this process. The rules
checked here are documented for
https://www.tensorflow.org/api_docs/python/tf/estimator/train_and_evaluate and
`tf.distribute.cluster_resolver.TFConfigClusterResolver`. TensorFlow itself hangs after most
violations.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from helpers.errors import ConfigError
from helpers.i18n import _, join_items, join_sentences, ngettext
from helpers.tf_config.addresses import check_addresses
from helpers.tf_config.validation import (
    CHIEF,
    EVALUATOR,
    JOBS,
    PS,
    SPARSE_CLUSTER,
    WORKER,
    Task,
    check_cluster,
    check_task,
    find_cluster,
    is_sparse,
    read_cluster,
    read_task,
    sparse,
)

__all__ = [
    "CHIEF",
    "EVALUATOR",
    "PS",
    "WORKER",
    "TFConfig",
    "Task",
    "build_tf_configs",
    "set_tf_config_env",
]

VARIABLE = "TF_CONFIG"
EVALUATOR_ALONE = {EVALUATOR: ["localhost:2222"]}  # no process connects to it


@dataclass(frozen=True)
class TFConfig:
    """A validated `TF_CONFIG`.

    Attributes:
      cluster: addresses (``"host:port"``) by job: ``chief``, ``worker``, ``ps``. Empty if the
        process works alone. A dynamic worker does not get the addresses of the other workers, which
        are empty strings in its cluster.
      task: the task of this process. An evaluator is not in `cluster`.

    Raises:
      ConfigError: TensorFlow would reject or misread it, or hang.
    """

    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    task: Task = field(default_factory=lambda: Task(WORKER, 0))

    def __post_init__(self) -> None:
        check_cluster(self.cluster)
        check_task(self.task, self.cluster)

    @classmethod
    def parse(cls, text: str) -> TFConfig:
        """Reads the JSON text of a `TF_CONFIG`. With an empty text, the process works alone."""
        if not text.strip():
            return cls()
        try:
            value = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            message = _(
                "TF_CONFIG is not JSON: {error}. It begins {beginning!r}. "
                "Write it with json.dumps(...)."
            )
            raise ConfigError(message.format(error=error, beginning=text[:60])) from None
        if not isinstance(value, dict):
            message = _("TF_CONFIG must be a JSON object {example}, not {value!r:.60}.")
            raise ConfigError(message.format(example="{…}", value=value))
        cluster, task = read_cluster(find_cluster(value)), read_task(value)
        if task.type == EVALUATOR and not cluster:
            message = _(
                'TF_CONFIG has a task "evaluator" and no "cluster". Add the cluster of the '
                "workers, or a cluster of only the evaluator: {example}."
            )
            raise ConfigError(message.format(example=json.dumps(EVALUATOR_ALONE)))
        if set(cluster) == {EVALUATOR} and task.type == EVALUATOR:
            check_addresses(cluster)  # its own cluster, as in some guides, which joins no other
            cluster = {}
        return cls(cluster, task)

    @property
    def is_dynamic(self) -> bool:
        """Whether this process does not get the addresses of all workers."""
        return is_sparse(self.cluster.get(WORKER, ()))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> TFConfig:
        """Reads `TF_CONFIG` of this process. Without one, the process works alone."""
        return cls.parse(environ.get(VARIABLE, ""))

    def to_json(self) -> str:
        """The value for the environment of this task."""
        task = {"type": self.task.type, "index": self.task.index}
        alone = self.task.type == EVALUATOR and not self.cluster
        return json.dumps({"cluster": EVALUATOR_ALONE if alone else self.spec, "task": task})

    @property
    def spec(self) -> dict[str, list[str] | dict[int, str]]:
        """`cluster` as `tf.train.ClusterSpec` accepts it."""
        return {
            job: sparse(addresses) if is_sparse(addresses) else list(addresses)
            for job, addresses in self.cluster.items()
        }

    @property
    def tasks(self) -> list[Task]:
        """Every task whose address is in `cluster`, chief first, parameter servers last."""
        return [Task(job, i) for job in JOBS for i in sparse(self.cluster.get(job, ()))]

    @property
    def chief(self) -> Task:
        """The task that saves checkpoints: `chief 0`, or `worker 0` if there is none."""
        return Task(CHIEF, 0) if CHIEF in self.cluster else Task(WORKER, 0)

    @property
    def is_server(self) -> bool:
        """Whether it only serves a coordinator: a worker or ps in a cluster with chief and ps."""
        return {PS, CHIEF} <= self.cluster.keys() and self.task.type in (WORKER, PS)

    @property
    def is_asynchronous(self) -> bool:
        """Whether there are parameter servers, so that no task waits for the step of another."""
        return PS in self.cluster

    @property
    def is_respawnable(self) -> bool:
        """Whether the others continue without it and accept a replacement: a worker with a ps."""
        return self.is_asynchronous and self.task.type == WORKER

    @property
    def address(self) -> str | None:
        """The address at which this task listens, or None for an evaluator or a single process."""
        addresses = self.cluster.get(self.task.type, ())
        return addresses[self.task.index] if addresses else None

    def address_of(self, task: Task) -> str:
        """The address at which `task` of this cluster listens."""
        return self.cluster[task.type][task.index]

    def explain(self) -> str:
        """Describes this process and the tasks that it waits for."""
        if self.task.type == EVALUATOR:
            return _(
                "This process is the evaluator. It is not part of the cluster, does not wait for "
                "any task, and evaluates the checkpoints that the chief writes, skipping to the "
                "newest when it falls behind."
            )
        if not self.cluster:
            return _("TF_CONFIG names no cluster: this process trains alone.")
        return join_sentences(self._sentences())

    def _sentences(self) -> Iterator[str]:
        message = _("This process is {task}, listening on {address}.")
        yield message.format(task=self.task.label, address=self.address)
        if self.task == self.chief:
            yield _("It is the chief: it also writes checkpoints and summaries.")
        else:
            message = _("The chief, which writes checkpoints and summaries, is {chief}.")
            yield message.format(chief=self.chief.label)
        if self.is_asynchronous:
            yield self._part_beside_servers()
        elif others := [task for task in self.tasks if task != self.task]:
            yield _("Training starts as soon as this process can reach {tasks}.").format(
                tasks=self._named(others)
            )

    def _part_beside_servers(self) -> str:
        """Estimator and the coordinator read the same variable, but assign different roles."""
        if self.task.type == PS:
            return _(
                "It stores variables and answers requests; it does not wait for any other task and "
                "never computes a gradient."
            )
        servers = self._named([task for task in self.tasks if task.type == PS])
        if self.task == self.chief:
            message = _(
                "With Estimator, it starts training as soon as it can reach {servers} and does not "
                "wait for any worker. As a coordinator it does not train: it hands out steps to "
                "the workers and must be able to reach every task."
            )
        else:
            message = _(
                "With Estimator, it trains independently as soon as it can reach {servers} and the "
                "chief has created the variables; it does not wait for other workers. With a "
                "coordinator, it only runs a server and computes the steps it is sent."
            )
        return message.format(servers=servers)

    def _named(self, tasks: Sequence[Task]) -> str:
        message = _("{task} ({address})")
        return join_items(
            message.format(task=task.label, address=self.address_of(task)) for task in tasks
        )


def build_tf_configs(
    addresses: Sequence[str], *, chief: bool = False, ps: int = 0, evaluator: bool = False
) -> list[TFConfig]:
    """Creates one `TFConfig` for every process of a cluster.

    Args:
      addresses: one ``"host:port"`` for each of chief, workers and parameter servers, in this
        order. The addresses that remain after `chief` and `ps` are workers.
      chief: whether the first address is a separate ``chief`` task. Without it, worker 0 is the
        chief.
      ps: the number of parameter servers, which are the last addresses.
      evaluator: whether to add an evaluator, which needs no address.
    """
    workers = len(addresses) - int(chief) - ps
    if workers < 0 or not addresses or ps < 0:
        message = ngettext(
            "{count} address is too few for chief={chief} and ps={ps}: pass one for every task.",
            "{count} addresses are too few for chief={chief} and ps={ps}: pass one for every task.",
            len(addresses),
        )
        raise ConfigError(message.format(count=len(addresses), chief=chief, ps=ps))
    sizes = {CHIEF: int(chief), WORKER: workers, PS: ps}
    cluster, rest = {}, list(addresses)
    for job, size in sizes.items():
        if size:
            cluster[job], rest = tuple(rest[:size]), rest[size:]
    tasks = [Task(job, i) for job, size in sizes.items() for i in range(size)]
    if evaluator:
        tasks.append(Task(EVALUATOR, 0))
    return [TFConfig(cluster, task) for task in tasks]


def set_tf_config_env(config: TFConfig | None) -> None:
    """Sets `TF_CONFIG` of this process to `config`, or removes it."""
    if config is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = config.to_json()


@contextmanager
def restored_env() -> Iterator[None]:
    """Restores the `TF_CONFIG` of this process at its end."""
    given = os.environ.get(VARIABLE)
    try:
        yield
    finally:
        if given is not None:
            os.environ[VARIABLE] = given


def normalize_env() -> TFConfig:
    """Reads `TF_CONFIG` of this process, and normalizes it for TensorFlow.

    TensorFlow fails on an empty text, and ignores ``sparseCluster``.
    """
    config = TFConfig.from_env()
    text = os.environ.get(VARIABLE)
    if text is not None and (not text.strip() or SPARSE_CLUSTER in json.loads(text)):
        set_tf_config_env(None if config == TFConfig() else config)
    return config
