"""Strategies, made; and the devices and cores that they run on.

A strategy is made only inside a worker: its constructor starts a server that cannot be stopped
again.
"""

from __future__ import annotations

from typing import Any

from helpers.errors import unknown_choice
from helpers.estimator import tf
from helpers.strategies import MIRRORED, MULTI_WORKER, ONE_DEVICE, PARAMETER_SERVER, STRATEGIES
from helpers.system.machine import pin_to_cores


def make_strategy(name: str, collective: str = "AUTO", replicas: int = 1) -> Any:
    """The `tf.distribute` strategy of that name, as an Estimator takes it.

    Call it once, in a worker, before any other TensorFlow operation: for
    MultiWorkerMirroredStrategy it returns when every worker of `TF_CONFIG` has come.

    Args:
      name: one of `STRATEGIES`.
      collective: for MultiWorkerMirroredStrategy.
      replicas: how many logical CPU devices MirroredStrategy gets.
    """
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
    [cpu] = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    tf.config.set_logical_device_configuration(cpu, parts)
    return [f"/cpu:{index}" for index in range(count)]


def use_cores(cores: list[int]) -> None:
    """Pins this process to `cores` and gives TensorFlow one thread for each.

    Call it before TensorFlow runs its first operation.
    """
    if not cores:
        return
    pin_to_cores(cores)
    tf.config.threading.set_intra_op_parallelism_threads(len(cores))
    tf.config.threading.set_inter_op_parallelism_threads(len(cores))
