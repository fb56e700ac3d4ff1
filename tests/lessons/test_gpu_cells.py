"""The cells for GPUs and TPUs on a machine without them: logical devices and stand-ins.

Real ones differ in the devices themselves, in NCCL, and in when their memory is full.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.lessons
FASTER, STRATEGY = "10_make_it_faster", "02_choose_a_strategy"
CELLS = ("make-step", "gpu-batches", "gpus")
FULL_AT = 256  # examples per replica
VISIBLE = "CUDA_VISIBLE_DEVICES"
STAND_INS = f"""
import os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from helpers import print_tr, tr
import tensorflow as tf
from helpers.protocol import values
from helpers.course.model import make_network

parts = [tf.config.LogicalDeviceConfiguration() for _ in range(2)]
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
gpus = [tf.config.PhysicalDevice(f"GPU:{{n}}", "GPU") for n in range(int(sys.argv[1]))]
tf.config.list_physical_devices = lambda kind=None: gpus
two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class MultiWorkerMirroredStrategy:
    def __new__(cls):
        return two


tf.distribute.MultiWorkerMirroredStrategy = MultiWorkerMirroredStrategy


class LocalCluster:
    def __init__(self, workers, ps=0):
        print("cluster of", workers, ps)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def run(self, function):
        return [values.load(values.dump(function()))]  # as a result comes back from a worker


def until_memory_is_full(step):
    def make(strategy, batch, **options):
        if batch >= {FULL_AT}:
            raise tf.errors.ResourceExhaustedError(None, None, "the memory is full")
        return step(strategy, batch=batch, **options)

    return make
"""
AFTER_MAKE_STEP = "\nmake_step = until_memory_is_full(make_step)\n"
AFTER_BATCHES = "\nreplicas_of_a_worker = lambda: 2\n"


def source(lesson: str, cell_id: str) -> str:
    path = ROOT / "notebooks" / "en" / f"{lesson}.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    [found] = [cell for cell in cells if cell["id"] == cell_id]
    return "".join(found["source"])


def printed(gpus: int, program: Sequence[str]) -> list[str]:
    """The output of a program with Keras 3 and that many GPUs."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TF_USE_LEGACY_KERAS", VISIBLE)}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(program), str(gpus)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def program() -> list[str]:
    steps, batches, gpus = (source(FASTER, cell) for cell in CELLS)
    return [STAND_INS, steps, AFTER_MAKE_STEP, batches, AFTER_BATCHES, gpus]


def test_with_gpus_batches_double_for_each_collective_until_the_memory_is_full(
    program: list[str],
) -> None:
    lines = printed(3, program)
    assert lines[:3] == ["GPUs: GPU:0, GPU:1, GPU:2", "cluster of 2 0", "workers: 2; replicas: 2"]
    speeds = [line.split(":")[0] for line in lines[3:7]]
    assert speeds == [f"{name}, batch {size}" for name in ("RING", "NCCL") for size in (64, 128)]
    assert all(line.endswith(" examples/s") for line in lines[3:7])
    last = "with parameter servers, a step runs on 2 replicas of one worker"
    assert lines[7:] == ["cluster of 2 1", last]


def test_without_a_gpu_the_cell_says_so(program: list[str]) -> None:
    nothing = "There is no GPU on this machine, so there is nothing to measure."
    assert printed(0, program) == ["GPUs: -", nothing]


GPU_LIST = f"""
everything = list(gpus)


def list_visible(kind=None):
    setting = os.environ.get("{VISIBLE}")
    if setting is None:
        return everything
    return [everything[int(number)] for number in setting.split(",") if number]


tf.config.list_physical_devices = list_visible
"""


def test_the_visible_devices_are_those_of_the_variable() -> None:
    lines = printed(3, [STAND_INS, GPU_LIST, source(STRATEGY, "gpus")])
    found = [line for line in lines if not line.startswith("cluster")]
    expected = ["GPUs: GPU:0, GPU:1, GPU:2", f"{VISIBLE}='0': GPU:0", f"{VISIBLE}='': -"]
    assert found == expected


TPU = """
import keras
import numpy as np

done = []


class TPUClusterResolver:
    def __init__(self):
        if not gpus:
            raise ValueError("Please provide a TPU Name to connect to.")


tf.distribute.cluster_resolver.TPUClusterResolver = TPUClusterResolver
tf.config.experimental_connect_to_cluster = lambda resolver: done.append("connected")
tf.tpu.experimental.initialize_tpu_system = lambda resolver: done.append("initialized")


class TPUStrategy:
    def __new__(cls, resolver):
        return two if done == ["connected", "initialized"] else None


tf.distribute.TPUStrategy = TPUStrategy
"""


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (2, ["replicas: 2; variables of type MirroredVariable", "kernel on CPU:0, CPU:1"]),
        (0, ["ValueError: Please provide a TPU Name to connect to."]),
    ],
)
def test_a_tpu_is_connected_initialized_and_trains_the_same_program(
    cores: int, expected: list[str]
) -> None:
    cells = [source(STRATEGY, cell) for cell in ("dataset", "fit", "short", "tpu")]
    lines = printed(cores, [STAND_INS, TPU, *cells])
    assert len(lines) == len(expected)
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True))
