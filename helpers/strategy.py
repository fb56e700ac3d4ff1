"""Strategies and collectives by name, and the share of the machine a worker gets.

Nothing here imports TensorFlow until a strategy is made, and a strategy is made only
inside a worker: its constructor starts a server that cannot be stopped again.
"""

from __future__ import annotations

import functools
import glob
import os
from typing import Any

from helpers.errors import ConfigError, unknown_choice
from helpers.i18n import _, ngettext

COLLECTIVES = ("AUTO", "RING", "NCCL")
HEARTBEAT_MILLISECONDS = 24 * 3600 * 1000  # as good as none
STRATEGIES = ("MultiWorkerMirroredStrategy",)


def check_collective(name: str, workers: int) -> None:
    """Raises ConfigError if this machine cannot run collective `name` on `workers` workers."""
    if name not in COLLECTIVES:
        raise unknown_choice("collective", name, COLLECTIVES)
    if name == "NCCL" and (gpus := nvidia_gpus()) < workers:
        raise _too_few_gpus(workers, gpus)


def nvidia_gpus() -> int:
    """How many NVIDIA devices the driver shows, without loading TensorFlow."""
    return len(glob.glob("/dev/nvidia[0-9]*"))


def make_strategy(name: str, collective: str = "AUTO") -> Any:
    """The `tf.distribute` strategy of that name.

    Call it once, in a worker, before any other TensorFlow operation: for
    MultiWorkerMirroredStrategy it returns when every worker of `TF_CONFIG` has come.
    """
    from helpers.estimator import tf

    if name != "MultiWorkerMirroredStrategy":
        raise unknown_choice("strategy", name, STRATEGIES)
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation[collective]
    )
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def leave_watching_to_us() -> None:
    """Keeps TensorFlow's own heartbeat from ending a group that a supervisor watches.

    Call it in a worker, before a strategy is made. By default a worker whose heartbeat is late by
    some seconds ends the collectives of all, and a machine that slept, or is busy, looks like that.
    TensorFlow has no public name for this timeout (coordination_config.proto has the field).
    """
    import importlib

    from helpers import estimator  # noqa: F401  (before any part of TensorFlow)

    context = importlib.import_module("tensorflow.python.eager.context")
    configure = context.context().configure_coordination_service
    context.context().configure_coordination_service = functools.partial(
        configure, heartbeat_timeout_in_ms=HEARTBEAT_MILLISECONDS
    )


def share_cores(workers: int) -> list[list[int]]:
    """Deals this process's CPU cores out to `workers` workers.

    Each worker gets the same number of cores, at least one; with more workers than
    cores, several share one. On two cores, pinning two workers this way and giving each
    one thread per core made training 1.3 times as fast as leaving it to the scheduler.

    Returns: for each worker, the numbers of its cores; empty lists where the operating
      system cannot pin.
    """
    if not hasattr(os, "sched_getaffinity"):
        return [[] for worker in range(workers)]
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // workers)
    return [[cores[(i * each + k) % len(cores)] for k in range(each)] for i in range(workers)]


def use_cores(cores: list[int]) -> None:
    """Pins this process to `cores` and gives TensorFlow one thread for each.

    Call it before TensorFlow runs its first operation.
    """
    if not cores:
        return
    os.sched_setaffinity(0, cores)
    from helpers.estimator import tf

    tf.config.threading.set_intra_op_parallelism_threads(len(cores))
    tf.config.threading.set_inter_op_parallelism_threads(len(cores))


def _too_few_gpus(workers: int, gpus: int) -> ConfigError:
    message = _(
        "NCCL moves tensors between NVIDIA GPUs, one for each worker: {workers} asked, {gpus} "
        'found on this machine. Choose "RING", which runs over gRPC on CPUs, or "AUTO", which '
        "picks for you."
    )
    return ConfigError(
        message.format(
            workers=ngettext("{count} worker", "{count} workers", workers).format(count=workers),
            gpus=ngettext("{count} GPU", "{count} GPUs", gpus).format(count=gpus),
        )
    )
