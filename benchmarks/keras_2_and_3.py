"""Keras's `fit` on two replicas, in turns: Keras 3 with our fix, Keras 2, one process, a cluster.

    python -m benchmarks.keras_2_and_3 [--repeat 5] [--before CHECKOUT] [--output FOLDER]

Needs TensorFlow 2.16 or later. All run `contenders/keras_program.py`, with 64 examples for each
replica. `--before` is a checkout whose `helpers.keras_3` is measured too. The clock starts when the
processes are launched. A `LocalCluster` has its workers ready at that moment. Writes
`results/keras_2_and_3.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.contenders import keras_program
from benchmarks.report import page, publish
from benchmarks.stats import median_ratios, medians
from benchmarks.throughput.lineup import GOAL_ACCURACY
from helpers import LocalCluster, free_ports
from helpers.cluster.environment import base_env
from helpers.cluster.fork_client import ForkServer
from helpers.system.ports import without_proxies
from helpers.tf_config import build_tf_configs

PROGRAM = Path(keras_program.__file__)
MAX_EPOCHS = 3
EXACT, BEFORE, KERAS_2, MIRRORED, CLUSTER = (
    "two processes, `helpers.keras_3`",
    "two processes, `helpers.keras_3` of the other checkout",
    "two processes, Keras 2",
    "one process, MirroredStrategy of two logical processors",
    "LocalCluster",
)
Measured = tuple[float, float, float, float]
"""Examples per second, seconds to the first step and to the result, test accuracy."""


def measure(name: str, mnist: Path, epochs: int, before: Path | None) -> Measured:
    """Trains and evaluates."""
    if name == CLUSTER:
        return measure_cluster(mnist, epochs)
    environ = without_proxies(os.environ) | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    environ["PYTHONPATH"] = str(before if name == BEFORE else ROOT)
    environ["TF_USE_LEGACY_KERAS"] = str(int(name == KERAS_2))
    options = ["--mirrored"] if name == MIRRORED else []
    options += ["--fix=helpers.keras_3"] if name in (EXACT, BEFORE) else []
    command = [sys.executable, str(PROGRAM), str(mnist), f"--epochs={epochs}", *options]
    configs = build_tf_configs([f"127.0.0.1:{port}" for port in free_ports(2)])
    if name == MIRRORED:
        tasks: list[dict[str, str]] = [{}]
    else:
        tasks = [{"TF_CONFIG": config.to_json()} for config in configs]
    begun = time.time()
    processes = [
        subprocess.Popen(command, env=environ | task, stdout=subprocess.PIPE, text=True)
        for task in tasks
    ]
    try:
        printed = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return since(begun, json.loads(printed[0].splitlines()[-1]))


def measure_cluster(mnist: Path, epochs: int) -> Measured:
    """Runs the same function in the workers of a cluster."""
    server = ForkServer.get(base_env(3))
    while not server.is_ready:
        time.sleep(0.1)
    with LocalCluster(2, max_restarts=0) as cluster:
        begun = time.time()
        found = cluster.run(partial(keras_program.train, str(mnist), epochs), keras=3)
    return since(begun, found[0])


def since(begun: float, found: list[float]) -> Measured:
    """Converts the times that `keras_program.train` returned to seconds since the launch."""
    speed, first, result, accuracy = found
    return speed, first - begun, result - begun, accuracy


def measure_all(
    names: list[str], rounds: int, mnist: Path, before: Path | None
) -> tuple[dict[str, list[Measured]], int]:
    """Runs each contender, and finds the fewest epochs with which all of them reach the goal."""
    for epochs in range(1, MAX_EPOCHS + 1):
        runs: dict[str, list[Measured]] = {name: [] for name in names}
        for _round in range(rounds):
            for name, found in runs.items():
                found.append(measure(name, mnist, epochs, before))
                print(f"{name}: {found[-1]}", flush=True)
            if min(found[-1][-1] for found in runs.values()) < GOAL_ACCURACY:
                break
        else:
            return runs, epochs
    raise SystemExit(f"{MAX_EPOCHS} epochs did not always reach {GOAL_ACCURACY:.0%}.")


def rows(runs: Mapping[str, list[Measured]]) -> list[str]:
    """Formats medians, and the ratio of rates to the first contender: its median and range."""
    lines = []
    for name, found in runs.items():
        speed, first, result, accuracy = medians(found)
        shown = f"| {name} | {speed:,.0f} | {first:.1f} | {result:.1f} | {accuracy:.4f} |"
        ratios = [one[0] / other[0] for one, other in zip(found, runs[EXACT], strict=True)]
        ratio = median_ratios(found, runs[EXACT])[0]
        lines.append(f"{shown} {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")
    return lines


def main() -> None:
    """Measures, prints, and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    names = [EXACT, *([BEFORE] if args.before else []), KERAS_2, MIRRORED, CLUSTER]
    with tempfile.TemporaryDirectory() as folder:
        mnist = Path(folder, "mnist.npz")
        command = [sys.executable, "-m", "benchmarks.contenders.dump_mnist", str(mnist)]
        subprocess.run(command, cwd=ROOT, check=True)
        runs, epochs = measure_all(names, args.repeat, mnist, args.before)
    releases = f"Keras {version('keras')} and tf-keras {version('tf-keras')}"
    columns = [f"batch 2 × {keras_program.BATCH}, {epochs} epoch(s); {releases}", "examples/s"]
    columns += ["to the first step, s", "to the result, s", "accuracy"]
    columns += [f"rate / the first's, {args.repeat} rounds"]
    publish(page("Keras fit on two replicas", columns, rows(runs)), args.output, "keras_2_and_3.md")


if __name__ == "__main__":
    main()
