"""Runs clusters of all kinds in one process for an hour, and checks for resource leaks.

    python -m benchmarks.soak                  # an hour
    python -m benchmarks.soak --minutes 5

After each round it counts the resources of this process and all its descendants: memory,
descriptors, threads, processes, network namespaces and temporary folders. At the end there must not
be more of anything than after the first sixth of the time, in which caches fill and modules are
imported. If there is more, the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import gc
import io
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks import RESULTS
from benchmarks.report import page, publish
from helpers import LocalCluster, input_fn, model_fn
from helpers.course.panel import Panel
from helpers.errors import StoppedError, UserCodeError
from helpers.protocol.events import Event

SETTLED = 1 / 6  # of the time, which is ten minutes of an hour
SAMPLES = 5  # the number of samples whose median is compared
# The allowed growth from then to the end, with memory in MB.
TOLERANCE = {
    "memory": 10.0,
    "descriptors": 0.0,
    "threads": 0.0,
    "processes": 0.0,
    "namespaces": 0.0,
    "folders": 0.0,
}
PARAMS = {"batch_size": 64, "max_examples": 6400, "seed": 1}
Sample = dict[str, float]


Watch = Callable[[LocalCluster, Event], None]


def train(watch: Watch | None = None, *, steps: int = 60, **options: Any) -> None:
    """Trains the lessons' Estimator for some steps in a cluster of two workers with `options`."""
    with LocalCluster(2, **options) as cluster:
        cluster.train(
            model_fn,
            input_fn,
            steps=steps,
            params=PARAMS,
            save_checkpoints_steps=20,
            evaluate=None,
            progress=False,
            on_event=functools.partial(watch, cluster) if watch else None,
        )


def train_with_fault(fault: str, **options: Any) -> None:
    """Injects a fault into worker 1 of a training run at step 30."""
    injected = False

    def watch(cluster: LocalCluster, event: Event) -> None:
        nonlocal injected
        if event["event"] == "step" and event["step"] >= 30 and not injected:
            injected = True
            cluster.inject_fault(fault, "worker 1")

    train(watch, step_timeout=6.0, **options)


def fit(keras: int) -> None:
    """Trains some epochs with Keras's `fit` on two workers."""
    with LocalCluster(2) as cluster:
        cluster.run(_fit, keras=keras)


def _fit() -> None:
    from helpers.system.keras_version import is_keras_3_chosen

    if is_keras_3_chosen():
        import helpers.keras_3  # noqa: F401
    from helpers.estimator import tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensors((tf.ones([8, 4]), tf.ones([8, 1]))).repeat(20)
    model.fit(data, epochs=2, verbose=0)


def fail() -> None:
    """Runs a function that raises in one worker while the others wait."""
    with LocalCluster(3) as cluster, contextlib.suppress(UserCodeError):
        cluster.run(_fail)


def _fail(context: Any) -> None:
    if context.config.task.index == 1:
        raise ValueError("on purpose")
    time.sleep(600)


def leave_children() -> None:
    """Runs a function that leaves processes behind, in their own sessions."""
    with LocalCluster(2) as cluster:
        cluster.run(_leave_children)


def _leave_children() -> None:
    import subprocess

    for _child in range(3):
        subprocess.Popen(["sleep", "600"], start_new_session=True)


def stop() -> None:
    """Stops a training run from another thread."""
    with LocalCluster(2) as cluster:
        timer = threading.Timer(3.0, cluster.stop)
        timer.start()
        with contextlib.suppress(StoppedError):
            cluster.train(model_fn, input_fn, epochs=50, evaluate=None, progress=False)
        timer.join()


def run_scenario() -> None:
    """Trains in a panel and closes it."""
    panel = Panel()
    panel.run(workers=2, batch_size=1024)
    panel.close()


ACTIONS: dict[str, Callable[[], None]] = {
    "trains": train,
    "trains with parameter servers": functools.partial(train, ps=1),
    "trains over a slow network": functools.partial(train, bandwidth=4e8, steps=20),
    "loses a worker": functools.partial(train_with_fault, "kill"),
    "loses a worker with parameter servers": functools.partial(train_with_fault, "kill", ps=1),
    "has a frozen worker": functools.partial(train_with_fault, "pause"),
    "fits with Keras 2": functools.partial(fit, 2),
    "fits with Keras 3": functools.partial(fit, 3),
    "fails": fail,
    "leaves children": leave_children,
    "is stopped": stop,
    "plays with the panel": run_scenario,
}


def count(began: float, folder: str) -> Sample:
    """Counts the resources that this process and its descendants hold now."""
    gc.collect()
    me = psutil.Process()
    family = [me, *me.children(recursive=True)]
    return {
        "minute": (time.monotonic() - began) / 60,
        "memory": me.memory_full_info().uss / 1e6,
        "descriptors": me.num_fds(),
        "threads": me.num_threads(),
        "processes": len(family),
        "namespaces": len({network for one in family for network in _networks(one.pid)}),
        "folders": len(os.listdir(folder)),
    }


def _networks(pid: int) -> Iterator[str]:
    """The network namespaces that a process is in, or keeps alive through a descriptor."""
    for link in (Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").glob("*")):
        with contextlib.suppress(OSError):  # process ended, or descriptor closed
            target = os.readlink(link)
            if target.startswith("net:"):
                yield target


def soak(minutes: float, deeds: dict[str, Callable[[], None]] = ACTIONS) -> list[Sample]:
    """Runs rounds of all actions until the time is over. Returns the resources held after each."""
    began = time.monotonic()
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder  # so that every temporary folder is counted
        try:
            while time.monotonic() < began + 60 * minutes:
                for name, deed in deeds.items():
                    with contextlib.redirect_stdout(io.StringIO()):
                        deed()
                    print(f"{(time.monotonic() - began) / 60:6.1f} min: {name}", flush=True)
                samples.append(count(began, folder))
                print(samples[-1], flush=True)
        finally:
            tempfile.tempdir = None
    return samples


def settled_and_end(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    """Returns the medians of the first samples after the warm-up and of the last ones."""
    first = next(
        (i for i, one in enumerate(samples) if one["minute"] >= SETTLED * samples[-1]["minute"]), 0
    )
    size = max(1, min(SAMPLES, (len(samples) - first) // 2))
    parts = samples[first : first + size], samples[-size:]
    then, end = (
        {key: statistics.median(s[key] for s in part) for key in part[0]} for part in parts
    )
    return then, end


def grown(samples: Sequence[Sample]) -> list[str]:
    """Returns the names of the resources that have grown by more than their tolerance."""
    then, end = settled_and_end(samples)
    return [name for name, more in TOLERANCE.items() if end[name] > then[name] + more]


def report(samples: Sequence[Sample]) -> str:
    """Formats a page with both medians and the resources that have grown."""
    then, end = settled_and_end(samples)
    more = grown(samples)
    rows = [
        f"| {name} | {then[name]:.0f} | {end[name]:.0f} | {'NO' if name in more else 'yes'} |"
        for name in TOLERANCE
    ]
    text = page(
        "Soak test",
        ["", f"minute {then['minute']:.0f}", f"minute {end['minute']:.0f}", "no growth"],
        rows,
    )
    note = (
        f"{len(samples)} rounds of {len(ACTIONS)} actions: {', '.join(ACTIONS)}. Memory is in MB, "
        "for the process that starts the clusters. All other rows include its descendants."
    )
    return f"{text}\n{note}\n"


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Draws the curves, one below the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 9), layout="constrained")
    for axes, name in zip(figure.subplots(len(TOLERANCE), sharex=True), TOLERANCE, strict=True):
        axes.plot([s["minute"] for s in samples], [s[name] for s in samples], ".-")
        axes.set(ylabel=name, ylim=(0, None))
    axes.set(xlabel="minutes")
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    """Runs the soak test and writes soak.md, soak.csv and soak.svg. Returns 0 if nothing grew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    samples = soak(args.minutes)
    publish(report(samples), args.output, "soak.md")
    with (args.output / "soak.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(samples[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({key: round(value, 1) for key, value in one.items()} for one in samples)
    draw(samples, args.output / "soak.svg")
    for name in grown(samples):
        print(f"There are more {name} at the end than after the warm-up.", file=sys.stderr)
    return 1 if grown(samples) else 0


if __name__ == "__main__":
    sys.exit(main())
