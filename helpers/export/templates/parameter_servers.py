"""Runs the server of a worker or a parameter server until the chief has finished."""

from __future__ import annotations

import json
import os
import socket
import time

import tensorflow as tf

THREADS = 4  # a worker waits in one thread for the result of another one
LOST_AFTER = 5  # seconds without an answer of the chief


def serve(role: str, index: int) -> None:
    """Runs a `tf.distribute.Server`, which never ends by itself, until the chief has ended."""
    cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
    server = tf.distribute.Server(
        cluster,
        job_name=role,
        task_index=index,
        config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=THREADS),
    )
    print(f"{role} {index}: serves at {server.target}", flush=True)
    host, _colon, port = cluster["chief"][0].rpartition(":")
    while not _answers(host, int(port)):
        time.sleep(1)
    failures = 0
    while failures < LOST_AFTER:
        time.sleep(1)
        failures = 0 if _answers(host, int(port)) else failures + 1


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
