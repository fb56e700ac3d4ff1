"""A profile of the time of one training step of Keras `fit`, and its chart."""

from __future__ import annotations

import importlib
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from helpers import labels
from helpers.either_keras import tf
from helpers.i18n import _, gettext_noop, number
from helpers.results.svg_figure import SvgFigure

# A span is (category, name, start, end): the kind of work, the type of the operation, and
# microseconds since the start of the step.
Span = Sequence[Any]

CATEGORIES = {
    "input": gettext_noop("input"),
    "compute": gettext_noop("compute"),
    "all-reduce": gettext_noop("all-reduce"),
}
COLOURS = {"input": "tab:green", "compute": "tab:blue", "all-reduce": "tab:orange"}
CPU_PLANE = "/host:CPU"
XPLANE = "tensorflow.tsl.profiler.protobuf.xplane_pb2"  # the format of the profiler's files
OPERATION_THREADS = ("tf_Compute", "collective_ops")  # tf.data's own threads are excluded
OTHER_EVENTS = {  # events of operations, with the type of the operation
    "IteratorGetNextOp::DoCompute": "IteratorGetNext",
    "CollectiveOpV2Kernel::Run": "CollectiveReduceV2",  # before a thread of collective_ops starts
}
ALL_OPERATIONS = 3  # host_tracer_level


class TraceStep(tf.keras.callbacks.Callback):
    """Profiles one step of `fit` with TensorFlow's profiler.

    The profiler records the operations of a step, but not the work of an input pipeline in its own
    threads. So "input" is the time in which the step waits for its batch.

    Args:
      step: the number of the step, from 1. It should be late enough for a filled pipeline and
        allocated memory.

    Attributes:
      spans: the operations of that step, available after the step.
    """

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step
        self.spans: list[Span] = []
        self._steps = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Starts the profiler before the step."""
        self._steps += 1
        if self._steps == self.step:
            self._folder = tempfile.TemporaryDirectory()
            options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=ALL_OPERATIONS)
            tf.profiler.experimental.start(self._folder.name, options)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Stops the profiler after the step."""
        if self._folder and self._steps == self.step:
            tf.profiler.experimental.stop()
            with self._folder as folder:
                [file] = Path(folder).rglob("*.xplane.pb")
                self.spans = spans(file.read_bytes())


def spans(profile: bytes) -> list[Span]:
    """The operations in a profile, the content of an `.xplane.pb` file, in order of their start.

    The operations of tf.data run in other threads during the step, and are excluded.
    """
    space = importlib.import_module(XPLANE).XSpace()
    space.ParseFromString(profile)
    found: list[tuple[str, str, float, float]] = [
        (category(kind), kind, start, end)
        for plane in space.planes
        if plane.name == CPU_PLANE
        for kind, start, end in _operations(plane)
    ]
    first = min((start for _category, _kind, start, _end in found), default=0)
    shifted = [[name, kind, start - first, end - first] for name, kind, start, end in found]
    return sorted(shifted, key=lambda span: span[2])


def _operations(plane: Any) -> Iterator[tuple[str, float, float]]:
    """The type, start and end, in microseconds, of each operation of a step.

    The profiler names the event of an operation `name:type`. Other events have no type.
    """
    for line in plane.lines:
        for event in line.events:
            name = plane.event_metadata[event.metadata_id].name
            kind = OTHER_EVENTS.get(name)
            if kind is None and line.name.startswith(OPERATION_THREADS):
                kind = _type_of_operation(name)
            if kind is None:
                continue
            start = line.timestamp_ns / 1e3 + event.offset_ps / 1e6
            yield kind, start, start + event.duration_ps / 1e6


def _type_of_operation(name: str) -> str | None:
    """The type in an event's name, or None if it is not an operation or belongs to tf.data."""
    operation, _colon, kind = name.rpartition(":")
    return kind if operation and "::" not in name and "Iterator" not in kind else None


def category(kind: str) -> str:
    """The item of CATEGORIES to which an operation of this type belongs."""
    if "Iterator" in kind:
        return "input"
    return "all-reduce" if kind.startswith("Collective") else "compute"


def exclusive_times(spans: Sequence[Span]) -> dict[str, float]:
    """The milliseconds of a step by category, in which concurrent time counts once.

    An all-reduce that waits during a computation costs nothing. So if several categories run
    concurrently, the time counts for the first of compute, input and all-reduce. "idle" is the time
    in which none of them ran. The sum is the time of the step.
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

    Each worker's time begins with its own step, and the workers' clocks are not compared.
    """
    figure = Figure(figsize=(9, 0.5 + 1.1 * len(workers)), layout="constrained")
    rows = figure.subplots(len(workers), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (worker, steps) in zip(rows, workers.items(), strict=True):
        for height, name in enumerate(CATEGORIES):
            bars = [(s[2] / 1000, (s[3] - s[2]) / 1000) for s in steps if s[0] == name]
            axes.broken_barh(bars, (height - 0.4, 0.8), color=COLOURS[name])
        axes.set_yticks(range(len(CATEGORIES)), [_(name) for name in CATEGORIES.values()])
        axes.invert_yaxis()
        axes.set_title(labels.task(worker), loc="left", fontsize="medium")
    rows[-1].set_xlabel(_("ms"))
    rows[-1].xaxis.set_major_formatter(lambda value, _position: number(value, ",.7g"))
    return SvgFigure(figure, _("one training step of each worker: input, compute, all-reduce"))
