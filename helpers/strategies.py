"""Strategies and collectives by name, and the share of the machine a worker gets.

Nothing here imports TensorFlow until a strategy is made, and a strategy is made only
inside a worker: its constructor starts a server that cannot be stopped again.
"""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Callable
from typing import Any

from helpers.errors import ConfigError, unknown_choice
from helpers.i18n import _, ngettext

COLLECTIVES = ("AUTO", "RING", "NCCL")
HEARTBEAT_MILLISECONDS = 24 * 3600 * 1000  # as good as none
MULTI_WORKER, MIRRORED, ONE_DEVICE, PARAMETER_SERVER = STRATEGIES = (
    "MultiWorkerMirroredStrategy",
    "MirroredStrategy",
    "OneDeviceStrategy",
    "ParameterServerStrategy",
)
ONE_PROCESS = (MIRRORED, ONE_DEVICE)  # their replicas are devices of one process


def check_collective(name: str, workers: int) -> None:
    """Raises ConfigError if this machine cannot run collective `name` on `workers` workers."""
    if name not in COLLECTIVES:
        raise unknown_choice("collective", name, COLLECTIVES)
    if name == "NCCL" and (gpus := nvidia_gpus()) < workers:
        raise _too_few_gpus(workers, gpus)


def check_strategy(name: str, workers: int, ps: int | None) -> None:
    """Raises ConfigError if strategy `name` is unknown, or cannot have so many workers and ps."""
    if name not in STRATEGIES:
        raise unknown_choice("strategy", name, STRATEGIES)
    if name == ONE_DEVICE and workers > 1:
        message = _(
            "OneDeviceStrategy trains on one device, so workers={workers} cannot be. Say "
            "workers=1, or choose MirroredStrategy."
        )
        raise ConfigError(message.format(workers=workers))
    if (name == PARAMETER_SERVER) != bool(ps) and ps is not None:
        message = _(
            "strategy={strategy!r} and ps={ps} exclude each other: parameter servers belong to "
            "ParameterServerStrategy, which needs at least one."
        )
        raise ConfigError(message.format(strategy=name, ps=ps))


def training_tasks(name: str, workers: int) -> list[str]:
    """The names of the processes that train an Estimator under strategy `name`, chief first."""
    if name in ONE_PROCESS:
        return ["worker 0"]
    return ["chief 0"] * (name == PARAMETER_SERVER) + [f"worker {k}" for k in range(workers)]


def way_of_exchange(name: str, collective: str) -> str:
    """What joins the replicas of strategy `name`: the collective, or it has a way of its own."""
    return collective if name == MULTI_WORKER else name


def nvidia_gpus() -> int:
    """How many NVIDIA devices the driver shows, without loading TensorFlow."""
    return len(glob.glob("/dev/nvidia[0-9]*"))


def make_strategy(name: str, collective: str = "AUTO", replicas: int = 1) -> Any:
    """The `tf.distribute` strategy of that name, as an Estimator takes it.

    Call it once, in a worker, before any other TensorFlow operation: for
    MultiWorkerMirroredStrategy it returns when every worker of `TF_CONFIG` has come.

    Args:
      name: one of `STRATEGIES`.
      collective: for MultiWorkerMirroredStrategy.
      replicas: how many logical CPU devices MirroredStrategy gets.
    """
    from helpers.estimator import tf

    if name == MIRRORED:
        return tf.distribute.MirroredStrategy(logical_cpus(replicas))
    if name == ONE_DEVICE:
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if name == PARAMETER_SERVER:  # that of tf.distribute has a coordinator, and no Estimator
        return tf.compat.v1.distribute.experimental.ParameterServerStrategy()
    if name != MULTI_WORKER:
        raise unknown_choice("strategy", name, STRATEGIES)
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation[collective]
    )
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def logical_cpus(count: int) -> list[str]:
    """Divides the CPU into `count` devices and returns their names. Call it before TensorFlow
    uses the CPU.
    """
    from helpers.estimator import tf

    [cpu] = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    tf.config.set_logical_device_configuration(cpu, parts)
    return [f"/cpu:{index}" for index in range(count)]


def leave_watching_to_us() -> None:
    """Keeps TensorFlow's own heartbeat from ending a group that a supervisor watches.

    Call it in a worker, before a strategy is made. By default a worker whose heartbeat is late by
    some seconds ends the collectives of all, and a machine that slept, or is busy, looks like that.
    TensorFlow has no public name for this timeout (coordination_config.proto has the field).
    """
    context = _eager_context()
    context.configure_coordination_service = functools.partial(
        context.configure_coordination_service, heartbeat_timeout_in_ms=HEARTBEAT_MILLISECONDS
    )


def tell_of_waiting(report: Callable[[str], None]) -> None:
    """Lets a worker tell when its collectives wait for the peers.

    Call it before a strategy is made. The worker holds Python's lock as long as that takes (to
    TensorFlow 2.21), so that no thread of it can give a sign of life.

    Args:
      report: sends "connecting" before the wait, and "connected" after it.
    """
    context = _eager_context()
    configure = context.configure_coordination_service

    def connect() -> None:
        del context.ensure_initialized  # the class's own again
        report("connecting")
        context.ensure_initialized()
        report("connected")

    def configure_and_connect(*args: Any, **options: Any) -> None:
        configure(*args, **options)
        context.ensure_initialized = connect  # which comes next, and waits

    context.configure_coordination_service = configure_and_connect


def _eager_context() -> Any:
    import importlib

    from helpers import estimator

    return importlib.import_module("tensorflow.python.eager.context").context()


def keep_all_frames() -> None:
    """Keeps TensorFlow and Keras from cutting their own frames out of a traceback.

    Which of them a reader sees, `helpers.messages.failures` decides.
    """
    from helpers.estimator import tf

    tf.debugging.disable_traceback_filtering()


def drop_iterators_at_once() -> None:
    """Keeps a program from waiting, when it is done with an iterator, for a thread that tunes it.

    What each device takes from a distributed dataset is a dataset of its own, out of reach of the
    options of the reader's. The thread that tunes it sleeps, in the end for as long as the iterator
    has lived and up to a minute, and whoever drops the iterator waits until it wakes: Keras's `fit`
    on two workers, with 7 s of steps, returned 2.5 to 4.4 s after the last of them.
    """
    import importlib

    from helpers.estimator import tf

    iterators: Any = importlib.import_module("tensorflow.python.data.ops.multi_device_iterator_ops")
    create = iterators._create_device_dataset
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    iterators._create_device_dataset = lambda *args: create(*args).with_options(untuned)


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
