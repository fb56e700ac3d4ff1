"""Where the time of a training step goes: TensorFlow's own record of one step, as a picture."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from helpers.estimator import tf
from helpers.i18n import _, gettext_noop, number
from helpers.results.svg_figure import SvgFigure
from helpers.worker.devices import make_strategy

# A span is (category, name, start, end): which kind of work, the operation's type, microseconds
# from the beginning of the step. As a list, so that it travels from a worker to the notebook.
Span = Sequence[Any]

CATEGORIES = {
    "input": gettext_noop("input"),
    "compute": gettext_noop("compute"),
    "all-reduce": gettext_noop("all-reduce"),
}
COLOURS = {"input": "tab:green", "compute": "tab:blue", "all-reduce": "tab:orange"}


def trace_step(
    model_fn: Callable[..., Any],
    input_fn: Callable[..., Any],
    params: Mapping[str, Any],
    *,
    collective: str = "RING",
    step: int = 40,
) -> list[Span]:
    """Trains an Estimator up to `step`, and returns what TensorFlow did in that step.

    Call it in every worker of a cluster, `cluster.run(lambda: trace_step(…))`. TensorFlow records
    the operations of a session, but not what a pipeline does in its own threads: "input" is the
    time that the step waits for its batch.

    Args:
      model_fn, input_fn, params: as `LocalCluster.train` takes them.
      step: late enough that the pipeline is filled and memory is allocated.
    """
    hook = _TraceHook(step)
    strategy = make_strategy("MultiWorkerMirroredStrategy", collective)
    with tempfile.TemporaryDirectory() as folder:
        config = tf.estimator.RunConfig(
            folder,
            train_distribute=strategy,
            save_checkpoints_steps=None,
            save_checkpoints_secs=None,
        )
        estimator = tf.estimator.Estimator(model_fn, params=dict(params), config=config)
        train = tf.estimator.TrainSpec(
            lambda mode, params, input_context: input_fn(mode, params, input_context).repeat(),
            max_steps=step,
            hooks=[hook],
        )
        tf.estimator.train_and_evaluate(estimator, train, tf.estimator.EvalSpec(input_fn))
    return hook.spans


class _TraceHook(tf.estimator.SessionRunHook):
    """Has one step of a session recorded."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._steps = 0
        self.spans: list[Span] = []

    def before_run(self, run_context: Any) -> Any:
        self._steps += 1
        if self._steps < self._step:
            return None
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        return tf.estimator.SessionRunArgs([], options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._steps == self._step:
            self.spans = spans(run_values.run_metadata.step_stats)


def spans(step_stats: Any) -> list[Span]:
    """The operations in a `tf.compat.v1.RunMetadata`'s `step_stats`, in order of their start.

    Transfers (RecvBuf) and the source of the graph are left out: they are parts of an all-reduce,
    and nothing.
    """
    nodes = [node for device in step_stats.dev_stats for node in device.node_stats]
    found = []
    for node in nodes:
        kind = node.timeline_label.rpartition(" = ")[2].partition("(")[0]
        if kind.isidentifier() and node.node_name != "_SOURCE":
            start = node.all_start_micros
            found.append([category(kind), kind, start, start + node.all_end_rel_micros])
    first = min((start for _category, _kind, start, _end in found), default=0)
    shifted = [[c, kind, start - first, end - first] for c, kind, start, end in found]
    return sorted(shifted, key=lambda span: span[2])


def category(kind: str) -> str:
    """Which of CATEGORIES an operation of this type belongs to."""
    if "Iterator" in kind:
        return "input"
    return "all-reduce" if kind.startswith("Collective") else "compute"


def exclusive_times(spans: Sequence[Span]) -> dict[str, float]:
    """Milliseconds of a step in which a category was all that ran, or the first of those that did.

    An all-reduce that waits while something is computed costs nothing, so of several at once,
    compute counts first, then input, then all-reduce. "idle" is when none of them ran. The sum is
    the time of the step.
    """
    times = dict.fromkeys((*CATEGORIES, "idle"), 0.0)
    marks = sorted({mark for span in spans for mark in span[2:4]})
    for start, end in itertools.pairwise(marks):
        running = {span[0] for span in spans if span[2] <= start and end <= span[3]}
        first = next((c for c in ("compute", "input", "all-reduce") if c in running), "idle")
        times[first] += (end - start) / 1000
    return times


def timeline_chart(workers: Mapping[str, Sequence[Span]]) -> SvgFigure:
    """One step of each worker: a row for each category, a bar for each operation, in ms.

    Each worker's time begins with its own step: their clocks are not compared.
    """
    figure = Figure(figsize=(9, 0.5 + 1.1 * len(workers)), layout="constrained")
    rows = figure.subplots(len(workers), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (worker, steps) in zip(rows, workers.items(), strict=True):
        for height, name in enumerate(CATEGORIES):
            bars = [(s[2] / 1000, (s[3] - s[2]) / 1000) for s in steps if s[0] == name]
            axes.broken_barh(bars, (height - 0.4, 0.8), color=COLOURS[name])
        axes.set_yticks(range(len(CATEGORIES)), [_(name) for name in CATEGORIES.values()])
        axes.invert_yaxis()
        axes.set_title(worker, loc="left", fontsize="medium")
    rows[-1].set_xlabel(_("ms"))
    rows[-1].xaxis.set_major_formatter(lambda value, _position: number(value, ",.7g"))
    return SvgFigure(figure, _("one training step of each worker: input, compute, all-reduce"))
