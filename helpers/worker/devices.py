"""Strategies, and the devices, cores and variables that they use.

A strategy is created only inside a worker, because its constructor starts a server that cannot be
stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from helpers.either_keras import tf
from helpers.errors import unknown_choice
from helpers.strategies import MIRRORED, MULTI_WORKER, ONE_DEVICE, PARAMETER_SERVER, STRATEGIES
from helpers.system.machine import pin_to_cores
from helpers.tf_config import Task


def make_strategy(name: str, collective: str = "AUTO", replicas: int = 1) -> Any:
    """Creates the `tf.distribute` strategy of that name in the form that Estimator accepts.

    Call it once, in a worker, before any other TensorFlow operation. For
    MultiWorkerMirroredStrategy it returns when every worker of `TF_CONFIG` is connected.

    Args:
      name: one of `STRATEGIES`.
      collective: for MultiWorkerMirroredStrategy.
      replicas: the number of logical CPU devices for MirroredStrategy.
    """
    if name == MIRRORED:
        return tf.distribute.MirroredStrategy(logical_cpus(replicas))
    if name == ONE_DEVICE:
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if name == PARAMETER_SERVER:  # tf.distribute's own needs a coordinator
        return tf.compat.v1.distribute.experimental.ParameterServerStrategy()
    if name != MULTI_WORKER:
        raise unknown_choice("strategy", name, STRATEGIES)
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation[collective]
    )
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def logical_cpus(count: int) -> list[str]:
    """Divides the CPU into `count` devices and returns their names.

    Call it before TensorFlow uses the CPU.
    """
    [cpu] = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    tf.config.set_logical_device_configuration(cpu, parts)
    return [f"/cpu:{index}" for index in range(count)]


def use_cores(cores: list[int]) -> None:
    """Pins this process to `cores` and limits TensorFlow to one thread for each core.

    Call it before TensorFlow runs its first operation.
    """
    if not cores:
        return
    pin_to_cores(cores)
    tf.config.threading.set_intra_op_parallelism_threads(len(cores))
    tf.config.threading.set_inter_op_parallelism_threads(len(cores))


def bytes_by_task(local_task: Task, variables: Iterable[Any]) -> dict[str, int]:
    """The number of bytes of variables that each task stores, by its name.

    Args:
      local_task: the task of this process. It stores the variables whose device names no task.
      variables: the variables of a graph. If a strategy has copied a variable, each copy counts. A
        copy that is also listed separately counts once.
    """
    copies = {
        copy.name: copy
        for variable in variables
        for copy in getattr(variable, "values", None) or [variable]
    }
    found: Counter[str] = Counter()
    for copy in copies.values():
        device = tf.DeviceSpec.from_string(copy.device)
        named = device.job not in (None, "localhost") and device.task is not None
        task = f"{device.job} {device.task}" if named else str(local_task)
        found[task] += (copy.shape.num_elements() or 0) * copy.dtype.size
    return dict(found)
