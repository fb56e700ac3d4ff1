"""This package as a reader uses it: `LocalCluster(...).train(model_fn, input_fn)`.

With `ready`, as in a notebook that has run its first cells: the workers are ready before the run.
Without `stacks`, the workers remove what they have registered to report their stacks.
"""

from __future__ import annotations

import faulthandler
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.contenders.report import Arguments, Mark, Report, peak_memory
from helpers import LocalCluster, init, input_fn, model_fn
from helpers.cluster.prewarm import is_prewarming
from helpers.protocol.stack_dump import SIGNAL, DumpFiles

CHIEF = "worker 0"
POLL_INTERVAL = 0.05
END = b"e"  # any byte that is no request ends the thread that answers requests


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
            input_fn if args.stacks else without_stacks(input_fn),
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


def without_stacks(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same `input_fn`, in a worker that no longer reports its stacks."""

    def unregistered(mode: str, params: Any, input_context: Any = None) -> Any:
        requests = DumpFiles.of(Path(tempfile.gettempdir()), os.getpid()).requests
        if SIGNAL is not None and requests.exists():
            faulthandler.unregister(SIGNAL)
            requests.write_bytes(END)
            requests.unlink()  # an evaluation calls this again
        return function(mode, params, input_context)

    return unregistered


def _wait_until_ready() -> float:
    """Waits for the workers and returns the time in seconds since the epoch."""
    while is_prewarming():
        time.sleep(POLL_INTERVAL)
    return time.time()


if __name__ == "__main__":
    main()
