"""What workers and parameter servers of a coordinator do: they serve."""

from __future__ import annotations

import time
from typing import NoReturn

from helpers.estimator import tf
from helpers.worker.program import WorkerContext


def serve(context: WorkerContext) -> NoReturn:
    """Runs a `tf.distribute.Server` for this task until the process is ended."""
    config = context.config
    tf.distribute.Server(
        tf.train.ClusterSpec({job: list(addresses) for job, addresses in config.cluster.items()}),
        job_name=config.task.type,
        task_index=config.task.index,
        # A worker waits in one thread for what another must compute.
        config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4),
    )
    context.report("ready", step=0)
    while True:
        time.sleep(3600)  # the server has threads of its own
