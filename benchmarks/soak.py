"""One process trains, fails, stops and starts clusters of all kinds for an hour: what stays?

    python -m benchmarks.soak                  # an hour
    python -m benchmarks.soak --minutes 5

After each round of deeds it counts what this process and all that it started hold: memory,
descriptors, threads, processes, network namespaces, temporary folders. At the end there may be no
more of anything than after the first sixth of the time, in which caches fill and modules are
imported. More makes the exit code 1.
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

SETTLED = 1 / 6  # of the time; after an hour's, the tenth minute
SAMPLES = 5  # whose median is compared
# How much more than then may be there at the end; memory in MB.
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
    """Some steps of the lessons' Estimator on two workers, in a cluster with these options."""
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
    """Some epochs of Keras's `fit` on two workers."""
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
    """A function that raises in one worker while the others wait."""
    with LocalCluster(3) as cluster, contextlib.suppress(UserCodeError):
        cluster.run(_fail)


def _fail(context: Any) -> None:
    if context.config.task.index == 1:
        raise ValueError("on purpose")
    time.sleep(600)


def leave_children() -> None:
    """A function that leaves processes behind, in sessions of their own."""
    with LocalCluster(2) as cluster:
        cluster.run(_leave_children)


def _leave_children() -> None:
    import subprocess

    for _child in range(3):
        subprocess.Popen(["sleep", "600"], start_new_session=True)


def stop() -> None:
    """A training that is stopped from another thread."""
    with LocalCluster(2) as cluster:
        timer = threading.Timer(3.0, cluster.stop)
        timer.start()
        with contextlib.suppress(StoppedError):
            cluster.train(model_fn, input_fn, epochs=50, evaluate=None, progress=False)
        timer.join()


def run_scenario() -> None:
    """A panel that trains, and is closed."""
    panel = Panel()
    panel.run(workers=2, batch_size=1024)
    panel.close()


ACTIONS: dict[str, Callable[[], None]] = {
    "trains": train,
    "trains with parameter servers": functools.partial(train, ps=1),
    "trains over a slow network": functools.partial(train, bandwidth=4e8, steps=20),
    "loses a worker": functools.partial(train_with_fault, "kill"),
    "loses a worker beside parameter servers": functools.partial(train_with_fault, "kill", ps=1),
    "has a frozen worker": functools.partial(train_with_fault, "pause"),
    "fits with Keras 2": functools.partial(fit, 2),
    "fits with Keras 3": functools.partial(fit, 3),
    "fails": fail,
    "leaves children": leave_children,
    "is stopped": stop,
    "plays with the panel": run_scenario,
}


def count(began: float, folder: str) -> Sample:
    """What this process and its descendants hold now."""
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
    """The network namespaces that a process is in, or keeps alive by a descriptor."""
    for link in (Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").glob("*")):
        with contextlib.suppress(OSError):  # ended, or closed
            target = os.readlink(link)
            if target.startswith("net:"):
                yield target


def soak(minutes: float, deeds: dict[str, Callable[[], None]] = ACTIONS) -> list[Sample]:
    """Rounds of all deeds until the time is over; what was held after each."""
    began = time.monotonic()
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder  # so that all that is left behind is counted
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
    """Medians of the first samples after things have settled, and of the last ones."""
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
    """The names of what is more at the end, by more than its tolerance."""
    then, end = settled_and_end(samples)
    return [name for name, more in TOLERANCE.items() if end[name] > then[name] + more]


def report(samples: Sequence[Sample]) -> str:
    """A page with both medians, and what of it has grown."""
    then, end = settled_and_end(samples)
    more = grown(samples)
    rows = [
        f"| {name} | {then[name]:.0f} | {end[name]:.0f} | {'NO' if name in more else 'yes'} |"
        for name in TOLERANCE
    ]
    text = page(
        "A soak",
        ["", f"minute {then['minute']:.0f}", f"minute {end['minute']:.0f}", "no more"],
        rows,
    )
    told = (
        f"{len(samples)} rounds of {len(ACTIONS)} deeds: {', '.join(ACTIONS)}. Memory in MB, of the"
    )
    return f"{text}\n{told} process that starts the clusters; all else of its descendants too.\n"


def draw(samples: Sequence[Sample], path: Path) -> None:
    """The curves, one below the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 9), layout="constrained")
    for axes, name in zip(figure.subplots(len(TOLERANCE), sharex=True), TOLERANCE, strict=True):
        axes.plot([s["minute"] for s in samples], [s[name] for s in samples], ".-")
        axes.set(ylabel=name, ylim=(0, None))
    axes.set(xlabel="minutes")
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    """Soaks, writes soak.md, soak.csv and soak.svg; 0 if nothing has grown."""
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
        print(f"At the end there are more {name} than when things had settled.", file=sys.stderr)
    return 1 if grown(samples) else 0


if __name__ == "__main__":
    sys.exit(main())
