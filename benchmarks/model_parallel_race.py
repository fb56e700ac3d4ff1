"""Project 4: the block of the reference solution, and the same two layers with DTensor.

Both divide the columns of the first layer and the rows of the second one between two processes. A
step is a forward pass, a backward pass and an update, and each step has other inputs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from helpers.cluster.local import LocalCluster
from helpers.course.projects.data_parallel_race import Side, Sides
from helpers.course.projects.group import HANG, ProcessGroup
from helpers.course.projects.model_parallel_expected import RATE, Block, make_block, make_pass
from helpers.course.projects.model_parallel_runs import NAME
from helpers.course.projects.observations import all_returned
from helpers.course.projects.race import WORKERS, take_turns
from helpers.worker.context import WorkerContext

WIDTHS, BATCH, SEED = (512, 1024, 512), 64, 1
ROUNDS, STEPS = 5, 40


def measure(module: Path, rounds: int = ROUNDS, steps: int = STEPS) -> Sides:
    """Measures both in turns. The differences are those of the outputs of the last step."""
    alone = Block(make_block(WIDTHS, SEED))
    for turn in range(steps):
        inputs, gradient = make_pass(WIDTHS, BATCH, SEED, turn)
        wanted = alone.forward(inputs)
        alone.backward(gradient)
        alone.update(RATE)
    own, tensorflow = Side([]), Side([])

    def own_turn(group: ProcessGroup) -> bool:
        group.put([make_block(WIDTHS, SEED)] * WORKERS)
        works, seconds = all_returned(group.call("create_block", HANG)), []
        for turn in range(steps):
            inputs, gradient = make_pass(WIDTHS, BATCH, SEED, turn)
            calls = {"forward": inputs, "backward": gradient, "update": np.array(RATE)}
            seconds.append(0.0)
            for method, argument in calls.items():
                group.put([[argument]] * WORKERS)
                replies = group.call(method, HANG)
                works = works and all_returned(replies)
                if not works:
                    return False
                seconds[-1] += replies[0].seconds[0]
                if method == "forward":
                    outputs = group.fetch()[0]
        own.add(float(np.median(seconds[1:])), outputs - wanted)
        return True

    def other_turn(cluster: LocalCluster) -> None:
        seconds, outputs = cluster.run(_train, steps, timeout=120)[0]
        tensorflow.add(float(np.median(seconds[1:])), outputs - wanted)

    take_turns(module, NAME, rounds, own_turn, other_turn)
    return Sides(own, tensorflow)


def _train(context: WorkerContext, steps: int) -> tuple[list[float], Any]:
    """Runs in each worker of TensorFlow: returns the seconds of each step, and the last outputs."""
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    workers = context.config.cluster["worker"]
    os.environ["DTENSOR_JOB_NAME"] = "worker"
    os.environ["DTENSOR_JOBS"] = ",".join(workers)
    os.environ["DTENSOR_NUM_CLIENTS"] = str(len(workers))
    os.environ["DTENSOR_CLIENT_ID"] = str(context.config.task.index)
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=1)
    mesh = dtensor.create_distributed_mesh([("model", len(workers))], device_type="CPU")
    whole = dtensor.UNSHARDED
    sharding = [[whole, "model"], ["model"], ["model", whole], [whole]]  # of w1, b1, w2 and b2

    def place(array: Any, axes: list[str]) -> Any:
        replicated = dtensor.Layout.replicated(mesh, rank=array.ndim)
        return dtensor.relayout(dtensor.copy_to_mesh(array, replicated), dtensor.Layout(axes, mesh))

    weights = [
        dtensor.DVariable(place(array, axes))
        for array, axes in zip(make_block(WIDTHS, SEED), sharding, strict=True)
    ]

    def step(inputs: Any, gradient: Any) -> Any:
        first, biases, second, last_biases = weights
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.tanh(inputs @ first + biases) @ second + last_biases
        *gradients, back = tape.gradient(outputs, [*weights, inputs], gradient)
        for variable, own in zip(weights, gradients, strict=True):
            variable.assign_sub(RATE * own)
        return outputs, back

    function, seconds = tf.function(step), []
    for turn in range(steps):
        batch = [place(array, [whole] * 2) for array in make_pass(WIDTHS, BATCH, SEED, turn)]
        start = time.perf_counter()
        outputs, back = (dtensor.unpack(found)[0].numpy() for found in function(*batch))
        seconds.append(time.perf_counter() - start)
    assert back.shape == (BATCH, WIDTHS[0])
    return seconds, outputs
