"""How soon a group trains, and what it takes: workers that are forked, beside workers started anew.

    python benchmarks/start.py [--rounds 5] [--workers 2 4] [--output FOLDER]

Both ways take turns in one run. A worker is killed on the way, for the time of a restart. The first
fork server is started before: a program pays for its import once. Writes `results/start.md`.
"""

from __future__ import annotations

import argparse
import re
import signal
import statistics
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from benchmarks.machine import describe, sentence

from helpers import LocalCluster
from helpers.cluster.local import processes
from helpers.deferred import input_fn, model_fn
from helpers.messages.events import Event
from helpers.cluster.fork_client import can_fork

HERE = Path(__file__).parent
KILL_AT, STEPS = 150, 300


class Measured(NamedTuple):
    """What one run showed; seconds, and bytes of all its processes together."""

    first_step: float
    next_step: float
    memory: int


def measure(workers: int) -> Measured:
    """Trains, kills a worker at a step, and trains on."""
    with LocalCluster(workers, collective="RING") as cluster:
        watch = _Watch(cluster)
        result = cluster.train(
            model_fn,
            input_fn,
            steps=STEPS,
            save_checkpoints_steps=50,
            evaluate=None,
            progress=False,
            on_event=watch,
        )
    assert len(result.restarts) == 1
    assert result.seconds_to_first_step is not None
    return Measured(result.seconds_to_first_step, watch.stepped_at - watch.lost_at, watch.memory)


class _Watch:
    """Does the harm, and notes what came of it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.memory = 0
        self.lost_at = self.stepped_at = 0.0

    def __call__(self, event: Event) -> None:
        if event["event"] == "restart":
            self.lost_at = event["time"]
        if event["event"] != "step":
            return
        if not self.memory and event["step"] >= KILL_AT:
            self.memory = sum(_share(pid) for pid in self._pids())
            self._cluster.processes[1].signal(signal.SIGKILL)
        if self.lost_at and not self.stepped_at:
            self.stepped_at = event["time"]

    def _pids(self) -> set[int]:
        """The workers, and the process that they were forked from."""
        workers = [process.pid for process in self._cluster.processes]
        parents = {_parent(pid) for pid in workers}
        return {*workers, *(pid for pid in parents if _runs(pid, "helpers.cluster.fork_server"))}


def _share(pid: int) -> int:
    """Bytes of a process, in which a page of several counts for each in part (proc(5), Pss)."""
    found = re.search(r"Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())
    assert found
    return int(found[1]) * 1024


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _runs(pid: int, module: str) -> bool:
    return module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


def compare(workers: int, rounds: int) -> str:
    """A row for each way, and the ratios, as Markdown."""
    runs: dict[bool, list[Measured]] = {True: [], False: []}
    for _round in range(rounds):
        for forked, found in runs.items():
            with patch.object(processes, "can_fork", return_value=forked):
                found.append(measure(workers))
    medians = {forked: _medians(found) for forked, found in runs.items()}
    lines = [
        f"| {workers} | {'forked' if forked else 'started anew'} | {first:.1f} | {after:.1f} "
        f"| {memory / 1e6:.0f} |"
        for forked, (first, after, memory) in medians.items()
    ]
    pairs = zip(runs[True], runs[False], strict=True)
    ratios = [[b / a for a, b in zip(one, other, strict=True)] for one, other in pairs]
    shown = " | ".join(f"{statistics.median(column):.1f}" for column in zip(*ratios, strict=True))
    return "\n".join([*lines, f"| {workers} | anew / forked | {shown} |"])


def _medians(found: list[Measured]) -> list[float]:
    return [statistics.median(column) for column in zip(*found, strict=True)]


def main() -> None:
    """Measures, prints, and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--output", type=Path, default=HERE / "results")
    args = parser.parse_args()
    if not can_fork():
        parser.exit(1, "Workers are not forked on this machine, so there is nothing to compare.\n")
    about = sentence(describe(None))
    measure(2)  # starts the fork server
    head = (
        "| workers | they are | first step after, s | next step after a kill, s | MB together |\n"
        "|---|---|---|---|---|"
    )
    rows = [compare(workers, args.rounds) for workers in args.workers]
    text = "\n".join(["# The start of a group", "", about, "", head, *rows, ""])
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "start.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
