"""The `RunConfig` of a task, with the data on the cluster for the reader's functions."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from helpers.estimator import tf
from helpers.protocol.job import EstimatorJob
from helpers.protocol.portable import are_large, captured_arrays
from helpers.tf_config import (
    CHIEF,
    EVALUATOR,
    PS,
    TFConfig,
    restored_env,
    set_tf_config_env,
)


def make_run_config(job: EstimatorJob, config: TFConfig, strategy: Any = None) -> Any:
    """The RunConfig of a task that trains with `strategy` or evaluates without a strategy.

    `TF_CONFIG` does not change.
    """
    options: dict[str, Any] = {}
    if (seed := job.params.get("seed")) is not None:
        options["tf_random_seed"] = seed
    with _readable_for_estimator(config, strategy):
        return tf.estimator.RunConfig(
            model_dir=job.model_dir,
            save_checkpoints_steps=job.save_checkpoints_steps,
            checkpoint_save_graph_def=False,  # saves a tenth of the time to the first step
            session_config=_session_config(job),
            experimental_max_worker_delay_secs=0,  # 5 s for each worker with parameter servers
            train_distribute=strategy,
            **options,
        )


def place(run_config: Any, config: TFConfig) -> Any:
    """A copy of a RunConfig that describes the task, as Estimator does while it trains.

    Before training starts, a RunConfig with a strategy describes every task as worker 0 of 1.
    """
    mine, task = copy.deepcopy(run_config), config.task
    if not config.cluster or task.type == EVALUATOR:
        return mine
    servers = len(config.cluster.get(PS, ()))
    settings = {
        "cluster_spec": tf.train.ClusterSpec(
            {job: list(addresses) for job, addresses in config.cluster.items()}
        ),
        "distribute_coordinator_mode": None,
        "evaluation_master": f"grpc://{config.address}",
        "global_id_in_cluster": config.tasks.index(task),
        "is_chief": task == config.chief,
        "master": f"grpc://{config.address}",
        "num_ps_replicas": servers,
        "num_worker_replicas": len(config.tasks) - servers,
        "service": None,
        "task_id": task.index,
        "task_type": task.type,
    }
    for name, value in settings.items():
        setattr(mine, f"_{name}", value)
    return mine


def as_shard(run_config: Any, context: Any) -> Any:
    """A copy of a RunConfig that describes the worker of a `tf.distribute.InputContext`."""
    mine = copy.deepcopy(run_config)
    mine._global_id_in_cluster = mine._task_id = context.input_pipeline_id
    mine._is_chief = not context.input_pipeline_id
    mine._num_worker_replicas = context.num_input_pipelines
    return mine


def without_rewriting() -> Any:
    """The configuration of a session that runs its graph unchanged.

    Grappler copies large constants repeatedly, which increased the time for 188 MB from 8 to 45 s.
    """
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def _session_config(job: EstimatorJob) -> Any:
    """None selects Estimator's own configuration."""
    if job.replicas > 1:
        # A session does not see the logical devices of the process unless they are named.
        return tf.compat.v1.ConfigProto(device_count={"CPU": job.replicas})
    large = are_large(captured_arrays((job.model_fn, job.input_fn)))
    return without_rewriting() if large else None


@contextmanager
def _readable_for_estimator(config: TFConfig, strategy: Any) -> Iterator[None]:
    """Lets a RunConfig read a `TF_CONFIG` that it accepts, and restores the variable.

    Without a strategy it requires a chief. An evaluation by a worker runs outside its cluster.
    """
    with restored_env():
        if config.task.type == EVALUATOR:
            set_tf_config_env(_with_chief(config))
        elif strategy is None:
            set_tf_config_env(None)
        yield


def _with_chief(config: TFConfig) -> TFConfig:
    """The same cluster with worker 0 as its chief.

    An evaluator without a cluster gets a chief that it never connects to.
    """
    if CHIEF in config.cluster:
        return config
    if not config.cluster:
        return TFConfig({CHIEF: ("localhost:1",)}, config.task)
    first, *rest = (config.address_of(task) for task in config.tasks)
    cluster = {"chief": (first,), "worker": tuple(rest)} if rest else {"chief": (first,)}
    return TFConfig(cluster, config.task)
