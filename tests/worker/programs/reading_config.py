"""A program whose functions read `config` and `TF_CONFIG`. Run directly, a plain Estimator.

python -m tests.worker.programs.reading_config FOLDER STRATEGY STEPS
"""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

from helpers.estimator import tf
from tests.support.functions import tiny_model_fn

BATCH = 5
READ = (
    "cluster_spec",
    "evaluation_master",
    "global_id_in_cluster",
    "is_chief",
    "master",
    "num_ps_replicas",
    "num_worker_replicas",
    "task_id",
    "task_type",
)


def note(folder: str, where: str, mode: str, config: Any) -> None:
    """Writes the values that a function sees to a file of its task."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    seen = {name: getattr(config, name) for name in READ}
    seen["cluster_spec"] = seen["cluster_spec"].as_dict()
    seen |= {"where": where, "mode": mode, "TF_CONFIG": json.loads(os.environ["TF_CONFIG"])}
    with (Path(folder) / f"{task['type']}-{task['index']}").open("a") as file:
        file.write(json.dumps(seen, sort_keys=True) + "\n")


def input_fn(folder: str, mode: str, config: Any) -> Any:
    """Shards by `config`, like programs that are older than `input_context`."""
    note(folder, "input_fn", mode, config)
    values = tf.range(100, dtype=tf.float32)[:, None] / 100
    data = tf.data.Dataset.from_tensor_slices((values, 2 * values))
    if mode == "train":
        data = data.shard(config.num_worker_replicas, config.global_id_in_cluster)
    return data.batch(BATCH)


def model_fn(folder: str, features: Any, labels: Any, mode: str, config: Any) -> Any:
    """The tiny model."""
    note(folder, "model_fn", mode, config)
    return tiny_model_fn(features, labels, mode, {"batch_size": BATCH})


def functions(folder: str) -> tuple[Any, Any]:
    """Returns both functions, for a folder."""
    return functools.partial(model_fn, folder), functools.partial(input_fn, folder)


def main(folder: str, strategy: str, steps: str) -> None:
    """The code in TensorFlow's guides for a task of `TF_CONFIG`."""
    mine, data = functions(folder)
    chosen: Any = None
    if json.loads(os.environ["TF_CONFIG"])["task"]["type"] != "evaluator":
        chosen = (
            tf.compat.v1.distribute.experimental.ParameterServerStrategy()
            if strategy == "ps"
            else tf.distribute.MultiWorkerMirroredStrategy()
        )
    config = tf.estimator.RunConfig(
        model_dir=str(Path(folder) / "model"),
        train_distribute=chosen,
        save_checkpoints_steps=10,
        experimental_max_worker_delay_secs=0,
    )
    estimator = tf.estimator.Estimator(mine, config=config)
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(lambda config: data("train", config).repeat(), int(steps)),
        tf.estimator.EvalSpec(lambda config: data("eval", config), None, throttle_secs=0),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
