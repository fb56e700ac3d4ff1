"""Runs the training of an Estimator in one task of a cluster, on TensorFlow 2.16 and later.

tensorflow-estimator calls the public functions of this module. They replace
`tensorflow.python.distribute.estimator_training`, which TensorFlow had up to 2.15. They support
only the usual cluster mode: every process runs the same program and finds its task in `TF_CONFIG`.
The removed module also supported a client that drives a remote cluster, which this module rejects.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tensorflow.python.distribute import distribute_coordinator as coordinator
from tensorflow.python.distribute.distribute_coordinator_context import get_current_worker_context
from tensorflow.python.training.server_lib import ClusterSpec

from helpers.errors import ConfigError
from helpers.i18n import _

_IN_CLUSTER = coordinator.CoordinatorMode.INDEPENDENT_WORKER


def init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Completes a RunConfig that has a strategy.

    Raises:
      ConfigError: a strategy is passed twice, or a remote cluster is named.
    """
    _take_strategies(config)
    cluster = ClusterSpec(tf_config.get("cluster", {}))
    if cluster and config.train_distribute and "master" not in cluster.jobs:
        config._init_distributed_setting_from_environment_var({})
        config._cluster_spec = cluster  # the task is not known before training starts
        config._distribute_coordinator_mode = _IN_CLUSTER
    else:
        config._init_distributed_setting_from_environment_var(tf_config)
        config._maybe_overwrite_session_config_for_distributed_training()
        config._distribute_coordinator_mode = None


def should_run_distribute_coordinator(config: Any) -> bool:
    """Whether `tf.estimator.train_and_evaluate` is to train with other tasks."""
    mode = getattr(config, "_distribute_coordinator_mode", None)  # a subclass may lack it
    return mode == _IN_CLUSTER and bool(config.cluster_spec)


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Any) -> None:
    """Runs this process's task: it trains with the other tasks, or evaluates alone."""

    def train(strategy: Any) -> None:
        task_estimator = _task_copy(estimator)
        task_estimator._train_distribution = task_estimator._config._train_distribute = strategy
        hooks = list(train_spec.hooks)
        task_estimator.train(train_spec.input_fn, hooks=hooks, max_steps=train_spec.max_steps)

    def evaluate(strategy: Any) -> None:
        task_estimator = _task_copy(estimator)
        task_estimator._eval_distribution = task_estimator._config._eval_distribute = strategy
        executor_cls(task_estimator, train_spec, eval_spec)._start_continuous_evaluation()

    config = estimator.config
    coordinator.run_distribute_coordinator(
        train,
        config.train_distribute,
        evaluate,
        config.eval_distribute,
        mode=_IN_CLUSTER,
        session_config=config.session_config,
    )


def estimator_train(estimator: Any, train: Callable[..., Any], hooks: Any) -> None:
    """Rejects `Estimator.train` in a cluster, as TensorFlow 2.15 does.

    Raises:
      ConfigError: always.
    """
    raise _single_process_only("Estimator.train")


def estimator_evaluate(estimator: Any, evaluate: Callable[..., Any], hooks: Any) -> None:
    """Rejects `Estimator.evaluate` in a cluster, as TensorFlow 2.15 does.

    Raises:
      ConfigError: always.
    """
    raise _single_process_only("Estimator.evaluate")


def _take_strategies(config: Any) -> None:
    """Uses strategies of the older argument `experimental_distribute` as if passed directly."""
    older = config._experimental_distribute
    if not older:
        return
    if older.remote_cluster:
        message = _(
            "experimental_distribute has a remote_cluster ({cluster}), which helpers.estimator "
            "does not support. Start one process for each task, with its TF_CONFIG."
        )
        raise ConfigError(message.format(cluster=older.remote_cluster))
    for name in ("train_distribute", "eval_distribute"):
        if strategy := getattr(older, name):
            if getattr(config, name):
                message = _(
                    "{name} is passed twice, once in experimental_distribute. Pass it once."
                )
                raise ConfigError(message.format(name=name))
            setattr(config, f"_{name}", strategy)


def _task_copy(estimator: Any) -> Any:
    """A copy of the estimator whose RunConfig contains this process's task in the cluster."""
    task_estimator = copy.deepcopy(estimator)
    config = task_estimator._config  # `task_estimator.config` would be a copy
    task = get_current_worker_context()
    settings = {
        "distribute_coordinator_mode": None,  # or train() would reject the cluster again
        "evaluation_master": task.master_target,
        "is_chief": task.is_chief,
        "master": task.master_target,
        "service": None,
        "task_id": task.task_id,
        "task_type": task.task_type,
        **_cluster_fields(task),
    }
    for name, value in settings.items():
        setattr(config, f"_{name}", value)
    return task_estimator


def _cluster_fields(task: Any) -> dict[str, Any]:
    """The cluster as the task sees it, and the numbers of tasks for RunConfig."""
    cluster, workers, parameter_servers = task.cluster_spec, 1, 0
    number: int | None = 0
    if task.task_type == "evaluator":  # it belongs to no cluster
        cluster, workers, number = ClusterSpec({}), 0, None
    elif cluster:
        workers = _size(cluster, "chief") + _size(cluster, "worker")
        parameter_servers = _size(cluster, "ps")
        number = _number(cluster, task)
    return {
        "cluster_spec": cluster,
        "num_worker_replicas": workers,
        "num_ps_replicas": parameter_servers,
        "global_id_in_cluster": number,
    }


def _number(cluster: Any, task: Any) -> int:
    """The number of a task: first the chief, then the jobs by name, then the parameter servers."""
    jobs = sorted(cluster.jobs, key=lambda job: (job != "chief", job == "ps", job))
    before = jobs[: jobs.index(task.task_type)] if task.task_type else []
    return sum(_size(cluster, job) for job in before) + (task.task_id or 0)


def _size(cluster: Any, job: str) -> int:
    return cluster.num_tasks(job) if job in cluster.jobs else 0


def _single_process_only(method: str) -> ConfigError:
    message = _(
        "{method} works in one process only, but TF_CONFIG names a cluster, for which the "
        "RunConfig has a strategy. Call tf.estimator.train_and_evaluate."
    )
    return ConfigError(message.format(method=method))
