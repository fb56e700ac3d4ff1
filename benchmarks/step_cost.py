"""The cost of a training step in each layer, from the bare graph to two communicating workers.

    python -m benchmarks.step_cost [--batch-size 64] [--repeat 3] [--output FOLDER]

Two processes train at the same time, with one pinned core and one thread each, on the same cached
input. Each layer adds something to the previous one, and only the last one has a peer. Wall-clock
and CPU time are measured over STEPS steps, in the best of several rounds. The times of the
operations in the last layer are from TensorFlow's trace. Writes `step_cost_64.md`, with the batch
size in its name.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from helpers import LocalCluster, input_fn, model_fn
from helpers.estimator import tf
from helpers.results.timeline import exclusive_times
from helpers.worker.devices import make_strategy

STEPS, WARM_UP = 500, 300
PARAMS = {"learning_rate": 0.025, "momentum": 0.9, "seed": 1}
Cost = tuple[float, float]
"""Milliseconds of a step: wall-clock time and CPU time."""


class CostHook(tf.estimator.SessionRunHook):
    """Reads both clocks after WARM_UP steps, and STEPS steps later."""

    def __init__(self) -> None:
        self._step = 0
        self._marks: list[Cost] = []

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts a step."""
        self._step += 1
        if self._step in (WARM_UP, WARM_UP + STEPS):
            self._marks.append((time.perf_counter(), time.process_time()))

    @property
    def cost(self) -> Cost:
        """Returns the time of a step between the two marks."""
        (wall, cpu), (wall_end, cpu_end) = self._marks
        return 1000 * (wall_end - wall) / STEPS, 1000 * (cpu_end - cpu) / STEPS


class TraceHook(tf.estimator.SessionRunHook):
    """Records the operations of one step of a session."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._steps = 0
        self.spans: list[list[Any]] = []

    def before_run(self, run_context: Any) -> Any:
        """Requests a full trace of the step."""
        self._steps += 1
        if self._steps < self._step:
            return None
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        return tf.estimator.SessionRunArgs([], options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps the trace."""
        if self._steps == self._step:
            self.spans = session_spans(run_values.run_metadata.step_stats)


def session_spans(step_stats: Any) -> list[list[Any]]:
    """The operations in a `tf.compat.v1.RunMetadata`'s `step_stats`, as spans.

    Transfers (RecvBuf) and the source of the graph are left out, because they are parts of an
    all-reduce, or not operations.
    """
    from helpers.worker.step_profiler import category  # Keras 2 has been chosen above

    found = []
    for node in (node for device in step_stats.dev_stats for node in device.node_stats):
        kind = node.timeline_label.rpartition(" = ")[2].partition("(")[0]
        if kind.isidentifier() and node.node_name != "_SOURCE":
            start = node.all_start_micros
            end = start + node.all_end_rel_micros
            found.append([category(kind), kind, start, end, ""])
    return found


def trace_step(params: dict[str, Any], step: int) -> list[list[Any]]:
    """Trains an Estimator up to `step`, and returns the operations of that step."""
    hook = TraceHook(step)
    strategy = make_strategy("MultiWorkerMirroredStrategy", "RING")
    with tempfile.TemporaryDirectory() as folder:
        config = tf.estimator.RunConfig(
            folder,
            train_distribute=strategy,
            save_checkpoints_steps=None,
            save_checkpoints_secs=None,
        )
        tf.estimator.train_and_evaluate(
            tf.estimator.Estimator(model_fn, params=params, config=config),
            tf.estimator.TrainSpec(endless, max_steps=step, hooks=[hook]),
            tf.estimator.EvalSpec(input_fn, steps=1),
        )
    return hook.spans


def endless(mode: str, params: Any, input_context: Any = None) -> Any:
    """Yields one batch after another, decoded once."""
    return input_fn(mode, params, input_context).take(20).cache().repeat()


def bare(params: dict[str, Any]) -> Cost:
    """Runs the graph in a session, with nothing around it."""
    os.environ.pop("TF_CONFIG")
    hook = CostHook()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        iterator = tf.compat.v1.data.make_initializable_iterator(endless("train", params))
        images, labels = iterator.get_next()
        spec = model_fn(images, labels, "train", params)
        session.run([tf.compat.v1.global_variables_initializer(), iterator.initializer])
        for _ in range(WARM_UP + STEPS):
            session.run([spec.train_op, spec.loss])
            hook.after_run(None, None)
    return hook.cost


def estimator(params: dict[str, Any], *, strategy: bool, peer: bool) -> Cost:
    """Runs an Estimator: by itself, under the strategy, and with a peer."""
    if not peer:
        os.environ.pop("TF_CONFIG")
    distribution = make_strategy("MultiWorkerMirroredStrategy", "RING") if strategy else None
    config = tf.estimator.RunConfig(train_distribute=distribution, save_checkpoints_steps=10**6)
    hook = CostHook()
    tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, params=params, config=config),
        tf.estimator.TrainSpec(endless, max_steps=WARM_UP + STEPS + 1, hooks=[hook]),
        tf.estimator.EvalSpec(input_fn, steps=1),
    )
    return hook.cost


LAYERS: dict[str, Callable[..., Cost]] = {
    "the graph in a session": bare,
    "+ Estimator": partial(estimator, strategy=False, peer=False),
    "+ MultiWorkerMirroredStrategy, alone": partial(estimator, strategy=True, peer=False),
    "+ a peer, all-reduce by RING": partial(estimator, strategy=True, peer=True),
}


def measure(batch_size: int, rounds: int) -> dict[str, Cost]:
    """Returns the cheapest round of each layer. Each round measures all layers in turn."""
    params = {**PARAMS, "batch_size": batch_size}
    found = defaultdict(list)
    for _ in range(rounds):
        for name, layer in LAYERS.items():
            with LocalCluster(workers=2, max_restarts=0) as cluster:
                first, _second = cluster.run(partial(layer, params), keras=2)
            found[name].append(tuple(first))
            print(f"{name}: {first[0]:.2f} ms, {first[1]:.2f} ms of CPU time", flush=True)
    return {name: min(costs) for name, costs in found.items()}


def trace(batch_size: int) -> dict[str, float]:
    """Milliseconds of one step of two workers by kind of operation, for the first worker."""
    params = {**PARAMS, "batch_size": batch_size}
    with LocalCluster(workers=2, collective="RING", max_restarts=0) as cluster:
        spans, _second = cluster.run(partial(trace_step, params, 200), keras=2)
    return exclusive_times(spans)


def report(batch_size: int, costs: dict[str, Cost], traced: dict[str, float]) -> str:
    """Formats the tables as Markdown."""
    lines = [
        f"# A step of {batch_size} examples, layer by layer\n",
        "| | ms per step | CPU ms | added to the previous layer |",
        "|---|---|---|---|",
    ]
    before = None
    for name, (wall, cpu) in costs.items():
        more = "" if before is None else f"{wall - before:+.2f} ms"
        lines.append(f"| {name} | {wall:.2f} | {cpu:.2f} | {more} |")
        before = wall
    lines += ["", "Operations of one step with a peer, by TensorFlow's trace (which slows it):", ""]
    lines += [", ".join(f"{name} {ms:.2f} ms" for name, ms in traced.items()) + ".", ""]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Measures and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step_cost")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args(argv)
    costs = measure(args.batch_size, args.repeat)
    text = report(args.batch_size, costs, trace(args.batch_size))
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / f"step_cost_{args.batch_size}.md").write_text(text, "utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
