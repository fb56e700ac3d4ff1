"""Keras 3 beside Keras 2: the same `fit` on the same cluster of two workers, in turns.

    python -m benchmarks.keras_2_and_3 [--repeat 5] [--output FOLDER]

Needs TensorFlow 2.16 or later. Both have their workers ready when the clock starts. Writes
`results/keras_2_and_3.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from benchmarks import RESULTS
from benchmarks.contenders.keras_ours import train
from benchmarks.contenders.ours import Watch
from benchmarks.contenders.report import Report
from benchmarks.report import page, publish
from benchmarks.stats import median_ratios, medians
from benchmarks.throughput.launch import arguments
from benchmarks.throughput.lineup import GOAL_ACCURACY
from benchmarks.throughput.measure import throughput
from helpers import LocalCluster
from helpers.cluster.environment import base_env
from helpers.cluster.fork_client import ForkServer

WORKERS, BATCH, FROM_STEP, MAX_EPOCHS = 2, 64, 100, 3
KERAS = (2, 3)


class Measured(NamedTuple):
    """What one run showed; examples per second, seconds, and the test accuracy."""

    throughput: float
    first_step: float
    result: float
    accuracy: float


def measure(keras: int, epochs: int) -> Measured:
    """Trains and evaluates."""
    with tempfile.TemporaryDirectory() as folder, LocalCluster(WORKERS, max_restarts=0) as cluster:
        args = arguments(Path(folder), WORKERS, BATCH, epochs)
        watch = Watch(cluster)
        begun = time.time()
        accuracy, *_others = cluster.run(partial(train, args), keras=keras, on_event=watch)
        ended = time.time()
    speed = throughput([Report(args.global_batch, watch.marks)], FROM_STEP)
    assert speed is not None
    return Measured(speed, watch.marks[0][1] - begun, ended - begun, accuracy)


def get_ready() -> None:
    """Has workers of both kinds got ready."""
    for keras in KERAS:
        server = ForkServer.get(base_env(keras))
        while not server.is_ready:
            time.sleep(0.1)


def measure_all(rounds: int) -> tuple[dict[int, list[Measured]], int]:
    """The runs of each Keras, and the fewest epochs with which all of them reach the goal."""
    for epochs in range(1, MAX_EPOCHS + 1):
        runs: dict[int, list[Measured]] = {keras: [] for keras in KERAS}
        for _round in range(rounds):
            for keras, found in runs.items():
                found.append(measure(keras, epochs))
            if min(runs[keras][-1].accuracy for keras in KERAS) < GOAL_ACCURACY:
                break
        else:
            return runs, epochs
    raise SystemExit(f"{MAX_EPOCHS} epochs did not always reach {GOAL_ACCURACY:.0%}.")


def row(name: str, found: list[Measured]) -> str:
    """Medians, as a line of the table."""
    speed, first, result, accuracy = medians(found)
    return f"| {name} | {speed:,.0f} | {first:.1f} | {result:.1f} | {accuracy:.4f} |"


def main() -> None:
    """Measures, prints, and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    get_ready()
    runs, epochs = measure_all(args.repeat)
    releases = {2: version("tf-keras"), 3: version("keras")}
    rows = [row(f"Keras {releases[keras]}", found) for keras, found in runs.items()]
    shown = " | ".join(f"{ratio:.2f}" for ratio in median_ratios(runs[3], runs[2]))
    rows.append(f"| Keras 3 / Keras 2, median of {args.repeat} rounds | {shown} |")
    columns = [f"two workers, batch {BATCH}, {epochs} epoch(s)", "examples/s"]
    columns += ["to the first step, s", "to 97 %, s", "accuracy"]
    publish(page("Keras 3 beside Keras 2", columns, rows), args.output, "keras_2_and_3.md")


if __name__ == "__main__":
    main()
