"""Trains while a seeded program kills, freezes and blocks workers at random.

    python -m benchmarks.chaos            # 10 faults on each of three seeds
    python -m benchmarks.chaos --workers 4
    python -m benchmarks.chaos --keras 3  # `fit` instead of an Estimator
    python -m benchmarks.chaos --quick    # 3 faults on one seed

Each seed is trained twice to the same step: undisturbed, and with the faults. The final weights
must be equal bit for bit, and no run may exceed its time limit. No attempt may begin before the
last checkpoint but one, because a fault can interrupt the last one. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks import RESULTS
from benchmarks.machine import describe
from helpers import LocalCluster, input_fn, model_fn
from helpers.errors import ClusterError, StoppedError
from helpers.estimator import tf
from helpers.protocol.events import Event
from helpers.system.keras_version import is_keras_3_chosen
from helpers.worker.context import WorkerContext

SAVE = 50
STEP_TIMEOUT = 8.0
LIMIT_SECONDS = 900.0  # of one run, and a longer one counts as a hang
Array = np.ndarray[Any, Any]
Weights = dict[str, Array]
KINDS = ("kill", "kill at start", "freeze", "block")


@dataclass
class Fault:
    """One fault for worker `task`, injected at `step` or at the next start. Times are in seconds.

    Attributes:
      kind: "kill" and "freeze" happen at a step, "kill at start" and "block" (the worker never
        starts) at a start.
      noticed: from the injection to the decision to restart.
      recovered: from there to the next step, if no other fault was injected in between.
    """

    kind: str
    task: int
    step: int
    noticed: float | None = None
    recovered: float | None = None


@dataclass
class Outcome:
    """The result of one seed.

    Attributes:
      keras: the Keras version whose `fit` trained, 2 or 3, or None for an Estimator.
    """

    seed: int
    workers: int
    steps: int
    faults: list[Fault]
    keras: int | None = None
    restarts: list[str] = field(default_factory=list)
    hangs: int = 0
    lost_checkpoints: int = 0
    equal: bool = False
    seconds: float = 0.0
    undisturbed_seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing hung, nothing was lost, and every planned fault was injected."""
        done = all(fault.noticed is not None for fault in self.faults)
        return done and self.equal and not self.hangs and not self.lost_checkpoints


class Chaos:
    """Injects the planned faults one after another, and records how the cluster reacts.

    Args:
      inject: `LocalCluster.inject_fault`.
    """

    def __init__(self, faults: list[Fault], inject: Callable[[str, str], None]) -> None:
        self._left = list(faults)
        self._inject = inject
        self._done: tuple[Fault, float] | None = None  # not yet detected
        self._noticed: tuple[Fault, float] | None = None  # not yet recovered
        self._reached = self._attempt = 0
        self.lost_checkpoints = 0

    def on_event(self, event: Event) -> None:
        """Processes one event, and may inject the next fault."""
        match event["event"]:
            case "group_restart":
                self._notice(event["time"])
            case "started":
                self._do_at_start(event)
            case "step":
                self._recover(event["time"])
                self._compare(event["step"], event["attempt"])
                self._do_at_step(event["step"])

    def _notice(self, now: float) -> None:
        if self._done:
            fault, since = self._done
            fault.noticed = now - since
            self._done, self._noticed = None, (fault, now)

    def _recover(self, now: float) -> None:
        if self._noticed and not self._done:
            fault, since = self._noticed
            fault.recovered = now - since
            self._noticed = None

    def _compare(self, step: int, attempt: int) -> None:
        if attempt > self._attempt and step < self._reached - 2 * SAVE:
            self.lost_checkpoints += 1
        self._attempt, self._reached = attempt, max(self._reached, step)

    def _do_at_start(self, event: Event) -> None:
        fault = self._next("kill at start", "block")
        if fault and event["task"] == f"worker {fault.task}":
            self._do(fault)

    def _do_at_step(self, step: int) -> None:
        fault = self._next("kill", "freeze")
        if fault and step >= fault.step:
            self._do(fault)

    def _next(self, *kinds: str) -> Fault | None:
        due = self._left and not self._done and self._left[0].kind in kinds
        return self._left[0] if due else None

    def _do(self, fault: Fault) -> None:
        self._left.remove(fault)
        self._done, self._noticed = (fault, time.time()), None
        kind = "kill" if fault.kind.startswith("kill") else "pause"
        self._inject(kind, f"worker {fault.task}")


def plan(seed: int, count: int, workers: int, steps: int) -> list[Fault]:
    """Draws faults from a seed, spread over the run, each kind at least once in four faults."""
    random = Random(seed)
    kinds = [KINDS[i % len(KINDS)] for i in range(count)]
    random.shuffle(kinds)
    at = sorted(random.randrange(1, int(steps * 0.8)) for _ in kinds)
    # A fault at a start is injected at the first start if no fault at a step precedes it.
    return [
        Fault(kind, random.randrange(workers), step) for kind, step in zip(kinds, at, strict=True)
    ]


def train_estimator(
    cluster: LocalCluster, outcome: Outcome, folder: Path, on_event: Callable[[Event], None]
) -> Weights:
    """Trains the lessons' Estimator. Returns all variables of its last checkpoint, by name."""
    cluster.train(
        model_fn,
        input_fn,
        steps=outcome.steps,
        params={"seed": outcome.seed},
        model_dir=folder,
        save_checkpoints_steps=SAVE,
        evaluate=None,
        on_event=on_event,
        progress=False,
    )
    reader = tf.train.load_checkpoint(str(folder))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def train_keras(
    cluster: LocalCluster, outcome: Outcome, folder: Path, on_event: Callable[[Event], None]
) -> Weights:
    """Trains the same network with `fit`, one epoch per checkpoint. Returns worker 0's weights."""
    work = functools.partial(fit, folder=str(folder), steps=outcome.steps, seed=outcome.seed)
    weights = cluster.run(work, keras=outcome.keras or 2, on_event=on_event)[0]
    return {str(i): np.asarray(weight, np.float32) for i, weight in enumerate(weights)}


def fit(context: WorkerContext, folder: str, steps: int, seed: int) -> list[Array]:
    """Runs in a worker. Each epoch has the same examples in the same order, wherever it begins."""
    from helpers.course.model import make_network
    from helpers.estimator import tf
    from helpers.keras_callbacks import BackupAndRestore, StepReportCallback

    if is_keras_3_chosen():
        import helpers.keras_3  # noqa: F401
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    tf.keras.utils.set_random_seed(seed)
    params = {"batch_size": 64, "seed": seed}
    data = strategy.distribute_datasets_from_function(
        lambda part: input_fn("train", params, part).take(SAVE).cache()
    )
    with strategy.scope():
        model = make_network()
        model.build([None, 28, 28, 1])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), loss)
    callbacks = [BackupAndRestore(context, folder), StepReportCallback(context, global_batch=128)]
    model.fit(data, epochs=steps // SAVE, verbose=0, callbacks=callbacks)
    return model.get_weights()


def train(outcome: Outcome, folder: Path, faults: list[Fault]) -> tuple[float, list[str], Weights]:
    """Runs once with `faults`. Returns the seconds, the reasons for restarts, and the weights."""
    # One fault can cause one restart, and a loaded machine may add some more.
    cluster = LocalCluster(
        outcome.workers,
        collective="RING",
        max_restarts=3 * len(faults) + 3,
        step_timeout=STEP_TIMEOUT,
    )
    chaos = Chaos(faults, cluster.inject_fault)
    limit = threading.Timer(LIMIT_SECONDS, cluster.stop)
    limit.start()
    began = time.monotonic()
    restarts: list[str] = []
    weights: Weights = {}

    def on_event(event: Event) -> None:
        chaos.on_event(event)
        if event["event"] == "group_restart":
            restarts.append(event["reason"])

    try:
        with cluster:
            work = train_estimator if outcome.keras is None else train_keras
            weights = work(cluster, outcome, folder, on_event)
    except StoppedError:
        outcome.hangs += 1
    finally:
        limit.cancel()
    outcome.lost_checkpoints += chaos.lost_checkpoints
    return time.monotonic() - began, restarts, weights


def same(one: Weights, other: Weights) -> bool:
    """Whether there are weights, with the same names and equal bit for bit."""
    return (
        bool(one)
        and one.keys() == other.keys()
        and all(one[name].tobytes() == other[name].tobytes() for name in one)
    )


def try_seed(seed: int, count: int, workers: int, steps: int, keras: int | None) -> Outcome:
    """Trains one seed without and with faults, and compares the results."""
    outcome = Outcome(seed, workers, steps, plan(seed, count, workers, steps), keras)
    with tempfile.TemporaryDirectory() as folder:
        calm, wild = Path(folder, "calm"), Path(folder, "wild")
        outcome.undisturbed_seconds, _restarts, right = train(outcome, calm, [])
        outcome.seconds, outcome.restarts, weights = train(outcome, wild, outcome.faults)
        outcome.equal = same(right, weights)
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """Formats the outcomes as Markdown: a row for each seed, and the medians."""
    lines = [
        "| seed | workers | steps | faults | restarts | hangs | lost checkpoints | equal weights "
        "| seconds | undisturbed |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for o in outcomes:
        lines.append(
            f"| {o.seed} | {o.workers} | {o.steps} | {len(o.faults)} | {len(o.restarts)} "
            f"| {o.hangs} | {o.lost_checkpoints} | {'yes' if o.equal else 'NO'} "
            f"| {o.seconds:.0f} | {o.undisturbed_seconds:.0f} |"
        )
    lines += [
        "",
        "| fault | count | detected after, median (max) | next step after |",
        "|---|---|---|---|",
    ]
    for kind in KINDS:
        faults = [fault for o in outcomes for fault in o.faults if fault.kind == kind]
        noticed = [fault.noticed for fault in faults if fault.noticed is not None]
        recovered = [fault.recovered for fault in faults if fault.recovered is not None]
        lines.append(f"| {kind} | {len(faults)} | {spread(noticed)} | {spread(recovered)} |")
    return "\n".join(lines) + "\n"


def spread(seconds: list[float]) -> str:
    """Formats the median and the maximum, or a dash."""
    return f"{statistics.median(seconds):.2f} s ({max(seconds):.2f} s)" if seconds else "—"


def main() -> int:
    """Runs the seeds and writes chaos.json and chaos.md. Returns 0 if all passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--faults", type=int, default=10, help="number for each seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--keras", type=int, choices=[2, 3], help="use fit instead of an Estimator")
    parser.add_argument("--quick", action="store_true", help="3 faults on one seed, 200 steps")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.faults, args.steps = [1], 3, 200
    outcomes = []
    for seed in args.seeds:
        try:
            outcomes.append(try_seed(seed, args.faults, args.workers, args.steps, args.keras))
        except ClusterError as error:
            print(f"seed {seed}: {error}", file=sys.stderr)
            return 1
        print(table(outcomes[-1:]), flush=True)
    report = {"machine": describe(None), "outcomes": [asdict(o) for o in outcomes]}
    args.output.mkdir(parents=True, exist_ok=True)
    name = (
        "chaos"
        if args.workers == 2 and args.keras is None
        else "chaos_{}_workers{}".format(args.workers, f"_keras_{args.keras}" if args.keras else "")
    )
    (args.output / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
    (args.output / f"{name}.md").write_text(table(outcomes))
    return 0 if all(o.passed for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
