"""The server of a worker or parameter server of a coordinator."""

from __future__ import annotations

import time
from typing import Any, NoReturn

from helpers.either_keras import tf
from helpers.protocol.events import EventType
from helpers.worker.context import WorkerContext

SERVER_THREADS = 4  # a worker waits in one thread for a result of another
SLEEP_SECONDS = 3600.0


def serve(context: WorkerContext) -> NoReturn:
    """Runs a `tf.distribute.Server` for this task until the process is ended."""
    config = context.config
    tf.distribute.Server(
        tf.train.ClusterSpec(config.spec),
        job_name=config.task.type,
        task_index=config.task.index,
        config=server_options(),
    )
    context.report(EventType.READY, step=0)
    while True:
        time.sleep(SLEEP_SECONDS)  # the server has its own threads


def server_options() -> Any:
    """The ConfigProto of a server."""
    return tf.compat.v1.ConfigProto(inter_op_parallelism_threads=SERVER_THREADS)
