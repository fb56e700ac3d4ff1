"""A parameter-server cluster inside one process, for experiments and tests."""

from __future__ import annotations

from typing import Any

from helpers.system.ports import free_ports
from helpers.tf_config import set_tf_config_env
from helpers.worker.server import server_options


def in_process_cluster(workers: int, ps: int) -> Any:
    """Starts the servers of `workers` workers and `ps` parameter servers in this process.

    They are real TensorFlow servers with real connections, on loopback addresses, but without
    separate processes. They cannot be stopped before the process ends, so call it once, in a
    separate process, such as a worker of `LocalCluster(workers=1).run`.

    Returns: the `ClusterResolver` for `tf.distribute.ParameterServerStrategy`.
    """
    import tensorflow as tf

    set_tf_config_env(None)  # it describes another cluster
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers + ps)]
    spec = tf.train.ClusterSpec({"worker": addresses[:workers], "ps": addresses[workers:]})
    for job in spec.jobs:
        for index in range(spec.num_tasks(job)):
            tf.distribute.Server(spec, job_name=job, task_index=index, config=server_options())
    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
