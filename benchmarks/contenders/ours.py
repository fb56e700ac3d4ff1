"""This package as a reader uses it: `LocalCluster(...).train(model_fn, input_fn)`.

With `ready`, as in a notebook that has run its first cells: the workers are ready before the run.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.contenders.report import Arguments, Mark, Report, peak_memory
from helpers import LocalCluster, init, input_fn, model_fn
from helpers.cluster.prewarm import is_prewarming

CHIEF = "worker 0"
POLL_INTERVAL = 0.05


class Watch:
    """Collects marks and memory from the cluster's events."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._peaks: dict[int, float] = {}
        self.marks: list[Mark] = []
        self.evaluated: float | None = None

    def __call__(self, event: dict[str, Any]) -> None:
        """Processes one event."""
        kind = event["event"]
        if kind == "step" and event["task"] == CHIEF:
            self.marks.append((event["step"], event["time"]))
        elif kind in ("heartbeat", "evaluation"):
            self._sample_memory()
        if kind == "evaluation":
            self.evaluated = time.time()

    @property
    def peaks(self) -> list[float]:
        """Returns the largest resident memory of each worker, in MB."""
        return list(self._peaks.values())

    def _sample_memory(self) -> None:
        for process in self._cluster.processes:
            peak = peak_memory(process.pid)
            if peak is not None:
                self._peaks[process.pid] = peak


def main() -> None:
    """Trains, and reports the data from the events."""
    args = Arguments.parse()
    init()
    with LocalCluster(workers=args.workers, max_restarts=0) as cluster:
        watch = Watch(cluster)
        pressed = _wait_until_ready() if args.ready else None
        result = cluster.train(
            model_fn,
            input_fn,
            epochs=None if args.limit else args.epochs,
            steps=args.limit,
            params={
                "batch_size": args.batch_size,
                "learning_rate": args.learning_rate,
                "momentum": args.momentum,
            },
            on_event=watch,
            progress=False,
        )
    report = Report(args.global_batch, watch.marks, watch.peaks, result.accuracy)
    report.evaluated, report.pressed = watch.evaluated, pressed
    report.save(args.folder, args.rank)


def _wait_until_ready() -> float:
    """Waits for the workers and returns the time in seconds since the epoch."""
    while is_prewarming():
        time.sleep(POLL_INTERVAL)
    return time.time()


if __name__ == "__main__":
    main()
