"""Runs train.py in the workers of a Ray cluster.

    MODEL_DIR=/mnt/shared/model python ray_train.py --address auto --storage /mnt/shared/ray

Ray Train starts the workers, sets their TF_CONFIG and restarts them after a failure
(https://docs.ray.io/en/latest/train/distributed-tensorflow-keras.html).
"""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.tensorflow import TensorflowTrainer

WORKERS = 2
USE_GPU = False


def train_loop(config: dict[str, str]) -> None:
    """Runs in each worker. TF_CONFIG is set when Ray calls it."""
    os.environ.pop("TF_USE_LEGACY_KERAS", None)  # Ray sets it, but train.py selects Keras
    os.environ["MODEL_DIR"] = config["model_dir"]
    importlib.import_module("train").run_task()


def main() -> None:
    """Connects to Ray, or starts it on this machine, and trains."""
    folder = Path(__file__).parent.resolve()
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="local", help='"auto" on a node of a Ray cluster')
    parser.add_argument("--storage", default=str(folder / "ray"), help="a shared folder")
    arguments = parser.parse_args()
    ray.init(arguments.address, runtime_env={"working_dir": str(folder)})
    model_dir = os.path.abspath(os.environ.get("MODEL_DIR", folder / "model"))
    TensorflowTrainer(
        train_loop,
        train_loop_config={"model_dir": model_dir},
        scaling_config=ScalingConfig(num_workers=WORKERS, use_gpu=USE_GPU),
        run_config=RunConfig(
            storage_path=arguments.storage, failure_config=FailureConfig(max_failures=3)
        ),
    ).fit()


if __name__ == "__main__":
    main()
