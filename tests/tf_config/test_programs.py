"""Programs of one task, started by `python -m helpers.worker` with a `TF_CONFIG` of an operator."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from helpers import estimator_job, free_ports
from helpers.protocol.job import FunctionJob, Job
from helpers.system.ports import without_proxies
from helpers.worker.context import WorkerContext
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn

SECONDS = 240.0


def start(job: Job, folder: Path, tf_config: dict[str, Any]) -> subprocess.Popen[str]:
    payload = folder / "payload.pkl"
    job.save(payload)
    text = json.dumps(tf_config)
    return subprocess.Popen(
        [sys.executable, "-m", "helpers.worker", str(payload)],
        env={**without_proxies(os.environ), "TF_CONFIG": text},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def task(job: str, index: int) -> dict[str, Any]:
    return {"type": job, "index": index}


WRONG = {
    "clusters": {"clusters": {"worker": ["h:1", "h:2"]}, "task": task("worker", 0)},
    "a ps alone": {"task": task("ps", 0)},
    "the chief of dynamic workers": {"sparseCluster": {"worker": {}}, "task": task("chief", 0)},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_worker_that_would_train_alone_ends_with_a_sentence(name: str, tmp_path: Path) -> None:
    process = start(FunctionJob(print), tmp_path, WRONG[name])
    told, _none = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, told
    assert "TF_CONFIG" in told and "Traceback" not in told, told


def assign_on_the_server(folder: str, context: WorkerContext) -> str | None:
    """The server runs until the worker has assigned a variable there."""
    import tensorflow as tf

    spec = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    mine, done = context.config.task, Path(folder, "done")
    server = tf.distribute.Server(spec, job_name=mine.type, task_index=mine.index)
    if mine.type == "ps":
        while not done.exists():
            time.sleep(0.05)
        return None
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        variable = tf.compat.v1.get_variable("v", [], initializer=tf.zeros_initializer())
        with tf.compat.v1.Session(server.target) as session:
            session.run(variable.initializer)
            value = session.run(variable.assign_add(3.0))
    done.touch()
    return f"{value} on {variable.device}"


@pytest.mark.programs
@pytest.mark.parametrize("key", ["cluster", "sparseCluster"])
def test_a_dynamic_worker_computes_with_its_parameter_server(key: str, tmp_path: Path) -> None:
    worker, ps = (f"127.0.0.1:{port}" for port in free_ports(2))
    job = FunctionJob(functools.partial(assign_on_the_server, str(tmp_path)))
    texts = [
        {key: {"worker": {}, "ps": [ps]}, "task": task("ps", 0)},
        {key: {"worker": {"3": worker}, "ps": [ps]}, "task": task("worker", 3)},
    ]
    processes = [start(job, tmp_path, text) for text in texts]
    try:
        told = [process.communicate(timeout=SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], told
    assert "3.0 on /job:ps/task:0" in told[1], told[1]


@pytest.mark.programs
def test_an_estimator_of_a_dynamic_worker_is_refused(tmp_path: Path) -> None:
    job = estimator_job(
        tiny_model_fn,
        tiny_input_fn,
        model_dir=str(tmp_path / "model"),
        strategy="ParameterServerStrategy",
        steps=10,
        params=PARAMS,
    )
    cluster = {"chief": ["h:1"], "worker": {"1": "h:2"}, "ps": ["h:3"]}
    process = start(job, tmp_path, {"cluster": cluster, "task": task("worker", 1)})
    told, _none = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, told
    assert "has the addresses of the parameter servers but not of all workers" in told
