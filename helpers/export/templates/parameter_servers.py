"""Runs the server of a worker or a parameter server until its clients have finished."""

from __future__ import annotations

import json
import os
import socket
import time

import tensorflow as tf

THREADS = 4  # because one thread of a worker waits for the result of another thread
LOST_AFTER = 5  # seconds without an answer from any client


def serve(role: str, index: int) -> None:
    """Runs a `tf.distribute.Server`, which never ends by itself, until its clients have ended.

    The chief is a client of the workers. The chief and the workers are clients of the parameter
    servers.
    """
    cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
    server = tf.distribute.Server(
        cluster,
        job_name=role,
        task_index=index,
        config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=THREADS),
    )
    print(f"{role} {index}: serves at {server.target}", flush=True)
    clients = cluster["chief"] + (cluster["worker"] if role == "ps" else [])
    while not all(map(_answers, clients)):
        time.sleep(1)
    failures = 0
    while failures < LOST_AFTER:
        time.sleep(1)
        failures = 0 if any(map(_answers, clients)) else failures + 1


def _answers(address: str) -> bool:
    host, _colon, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
