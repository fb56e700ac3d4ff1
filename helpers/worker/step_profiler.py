"""Records the operations of training steps with TensorFlow's profiler, in a worker."""

from __future__ import annotations

import importlib
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.protocol.spans import ALL_REDUCE, COMPUTE, INPUT, STEP, Span

if TYPE_CHECKING:
    from typing_extensions import Self

CPU_PLANE = "/host:CPU"
XPLANE = "tensorflow.tsl.profiler.protobuf.xplane_pb2"  # the format of the profiler's files
OPERATION_THREADS = ("tf_Compute", "collective_ops")  # tf.data's own threads are excluded
OTHER_EVENTS = {  # events of operations, with the type of the operation
    "IteratorGetNextOp::DoCompute": "IteratorGetNext",
    "CollectiveOpV2Kernel::Run": "CollectiveReduceV2",  # before a thread of collective_ops starts
}
ALL_OPERATIONS = 3  # host_tracer_level
WALL_CLOCK = "time_ns"  # the wall-clock time at the start of a step, in the profiler's event
# The event of the last collective ends a moment after the step that waited for its result.
LAST_EVENT_SECONDS = 0.01
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class StepProfiler:
    """Profiles the steps of a custom training loop with TensorFlow's profiler.

        with StepProfiler() as profiler:
            for _ in range(3):
                train_step()
                profiler.step()
        return profiler.spans

    The first step begins with the block. Operations after the last call of `step` belong to no
    step. The profiler records the operations of a step, but not the work of an input pipeline in
    its own threads. So "input" is the time in which the step waits for its batch.

    Args:
      first_step: the number of the first step.

    Attributes:
      spans: the steps and their operations, in order of their start, available after the block.
    """

    def __init__(self, first_step: int = 1) -> None:
        self.spans: list[Span] = []
        self._next = first_step
        self._folder = tempfile.TemporaryDirectory()
        self._mark: Any = None

    def __enter__(self) -> Self:
        profiler = _profiler()
        options = profiler.ProfilerOptions(host_tracer_level=ALL_OPERATIONS)
        profiler.start(self._folder.name, options)
        self._begin()
        return self

    def step(self) -> None:
        """Ends a step, and begins the next one."""
        self._mark.__exit__(None, None, None)
        self._begin()

    def __exit__(self, *_error: object) -> None:
        # The profiler records only events that have ended, so the unfinished step is omitted.
        time.sleep(LAST_EVENT_SECONDS)
        _profiler().stop()
        self._mark.__exit__(None, None, None)
        with self._folder as folder:
            [file] = Path(folder).rglob("*.xplane.pb")
            self.spans = spans(file.read_bytes())

    def _begin(self) -> None:
        # TensorBoard shows such an event as a step.
        fields = {"step_num": self._next, "_r": 1, WALL_CLOCK: time.time_ns()}
        self._mark = _profiler().Trace(STEP, **fields)
        self._mark.__enter__()
        self._next += 1


def _profiler() -> Any:
    return importlib.import_module("tensorflow").profiler.experimental


def spans(profile: bytes) -> list[Span]:
    """The steps and operations in a profile, the content of an `.xplane.pb` file.

    The operations of tf.data run in other threads during the step, and are excluded.
    """
    space = importlib.import_module(XPLANE).XSpace()
    space.ParseFromString(profile)
    planes = [plane for plane in space.planes if plane.name == CPU_PLANE]
    steps = [step for plane in planes for step in _steps(plane)]
    # The profiler's clock starts with the profile.
    epoch = steps[0][3] - steps[0][1] if steps else 0.0
    clock = _clock()
    found: list[Span] = [
        [STEP, str(number), start + epoch, end + epoch, clock]
        for number, start, end, _wall in steps
    ]
    for plane in planes:
        for kind, start, end, keys in _operations(plane):
            found.append([category(kind), kind, start + epoch, end + epoch, keys])
    return sorted(found, key=lambda span: span[2])


def _steps(plane: Any) -> Iterator[tuple[int, float, float, float]]:
    """The number of each step, its start and end in the profile, and its start by the wall clock.

    Times are in microseconds.
    """
    for line in plane.lines:
        for event in line.events:
            if plane.event_metadata[event.metadata_id].name == STEP:
                stats = _stats(plane, event)
                if WALL_CLOCK in stats:
                    start, end = _interval(line, event)
                    yield stats["step_num"], start, end, stats[WALL_CLOCK] / 1e3


def _operations(plane: Any) -> Iterator[tuple[str, float, float, str]]:
    """The type, start, end and keys of each operation. Times are in microseconds.

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
            start, end = _interval(line, event)
            yield kind, start, end, _keys(plane, event) if category(kind) == ALL_REDUCE else ""


def _interval(line: Any, event: Any) -> tuple[float, float]:
    start = line.timestamp_ns / 1e3 + event.offset_ps / 1e6
    return start, start + event.duration_ps / 1e6


def _keys(plane: Any, event: Any) -> str:
    """The keys by which TensorFlow matches a collective with those of the other workers.

    They are empty if the event is only a part of the collective.
    """
    stats = _stats(plane, event)
    found = stats.get("group_key"), stats.get("instance_key")
    return "" if None in found else "{}/{}".format(*found)


def _stats(plane: Any, event: Any) -> dict[str, Any]:
    """The integers of an event, by name."""
    found = {}
    for stat in event.stats:
        kind = stat.WhichOneof("value")
        if kind in ("int64_value", "uint64_value"):
            found[plane.stat_metadata[stat.metadata_id].name] = getattr(stat, kind)
    return found


def _type_of_operation(name: str) -> str | None:
    """The type in an event's name, or None if it is not an operation or belongs to tf.data."""
    operation, _colon, kind = name.rpartition(":")
    return kind if operation and "::" not in name and "Iterator" not in kind else None


def category(kind: str) -> str:
    """The category of the operations of a type: input, compute or all-reduce."""
    if "Iterator" in kind:
        return INPUT
    return ALL_REDUCE if kind.startswith("Collective") else COMPUTE


def _clock() -> str:
    """An identifier of this machine's clock, which its containers share."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:  # not Linux
        return socket.gethostname()
