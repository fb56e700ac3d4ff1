"""One timeline of the training steps of all workers, from the spans that they recorded.

A worker records its spans with `helpers.keras_callbacks.TraceStep`,
`helpers.worker.step_profiler.StepProfiler` or the option `trace_steps` of `LocalCluster.train`.
"""

from __future__ import annotations

import gzip
import itertools
import json
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers import labels
from helpers.i18n import _, gettext_noop, number
from helpers.protocol.spans import ALL_REDUCE, COMPUTE, INPUT, STEP, Span
from helpers.results.svg_figure import SvgFigure

Key = tuple[str, int]
"""The keys of a collective, and how often they were used before."""

WAITING = "waiting"
COMMUNICATION = "communication"
IDLE = "idle"

CATEGORIES = {
    INPUT: gettext_noop("input"),
    COMPUTE: gettext_noop("compute"),
    WAITING: gettext_noop("waiting"),
    COMMUNICATION: gettext_noop("communication"),
    ALL_REDUCE: gettext_noop("all-reduce"),
}
COLOURS = {
    INPUT: "tab:green",
    COMPUTE: "tab:blue",
    WAITING: "tab:red",
    COMMUNICATION: "tab:orange",
    ALL_REDUCE: "tab:orange",
}
# Of concurrent operations, the first one in this order counts.
PRECEDENCE = (COMPUTE, INPUT, COMMUNICATION, WAITING, ALL_REDUCE)


@dataclass(frozen=True)
class Timeline:
    """The spans of several workers on one clock.

    Attributes:
      workers: the spans of each worker, in microseconds since the start of the first one. Each
        all-reduce is divided into "waiting", until the last worker has started it, and
        "communication". An all-reduce that not all workers recorded remains "all-reduce".
      clock_error: the uncertainty of the alignment of the workers' clocks, in microseconds. It is 0
        if all workers run on one machine, and None if clocks differ and cannot be aligned.
    """

    workers: dict[str, list[Span]]
    clock_error: float | None


def merge_traces(workers: Mapping[str, Sequence[Span]]) -> Timeline:
    """Aligns the clocks of the workers, and divides each all-reduce into waiting and communication.

    All processes of a machine share its clock. The clocks of two machines are aligned by the ends
    of the collectives that both recorded: all workers leave a collective at nearly the same time.
    The offset is the median of the differences, and the clock error is the median of the absolute
    deviations from it.

    Args:
      workers: the spans of each worker, by its name. All workers traced the same steps.
    """
    found = {
        worker: {key: span for key, span in _keyed(spans) if key}
        for worker, spans in workers.items()
    }
    shared = set.intersection(*map(set, found.values())) if found else set()
    offsets, clock_error = _offsets(workers, found, shared)
    starts = [span[2] - offsets[worker] for worker, spans in workers.items() for span in spans]
    begin = min(starts, default=0)
    shifts = {worker: offset + begin for worker, offset in offsets.items()}
    arrivals = {
        key: max(spans[key][2] - shifts[worker] for worker, spans in found.items())
        for key in shared
    }
    aligned = {
        worker: [
            part
            for key, span in _keyed(spans)
            for part in _divided(_shifted(span, shifts[worker]), arrivals.get(key) if key else None)
        ]
        for worker, spans in workers.items()
    }
    return Timeline(aligned, clock_error)


def _keyed(spans: Iterable[Span]) -> Iterator[tuple[Key | None, Span]]:
    """Each span, with the key of a collective. A graph uses the same keys again in each step."""
    counts: Counter[str] = Counter()
    for span in spans:
        if span[0] == ALL_REDUCE and (keys := span[4]):
            yield (keys, counts[keys]), span
            counts[keys] += 1
        else:
            yield None, span


def _shifted(span: Span, shift: float) -> Span:
    category, name, start, end, identity = span
    return [category, name, start - shift, end - shift, identity]


def _offsets(
    workers: Mapping[str, Sequence[Span]],
    found: Mapping[str, Mapping[Key, Span]],
    shared: Collection[Key],
) -> tuple[dict[str, float], float | None]:
    """How far the clock of each worker is ahead of the first worker's, and the clock error."""
    clocks = {
        worker: next((span[4] for span in spans if span[0] == STEP), worker)
        for worker, spans in workers.items()
    }
    offsets = dict.fromkeys(workers, 0.0)
    reference = next(iter(workers), "")
    errors: list[float] = [0.0]
    for clock in set(clocks.values()) - {clocks.get(reference)}:
        group = [worker for worker in workers if clocks[worker] == clock]
        ahead = [found[one][key][3] - found[reference][key][3] for one in group for key in shared]
        if not ahead:
            return offsets, None
        offset = statistics.median(ahead)
        offsets |= dict.fromkeys(group, offset)
        errors.append(statistics.median(abs(one - offset) for one in ahead))
    return offsets, max(errors)


def _divided(span: Span, last_arrival: float | None) -> Iterator[Span]:
    """The parts of an operation: two for an all-reduce for which the last arrival is known."""
    category, name, start, end, identity = span
    if category != ALL_REDUCE or (last_arrival is None and identity):
        yield span
        return
    # An event without keys is a preparation of the all-reduce.
    arrival = start if last_arrival is None else min(last_arrival, end)
    if arrival > start:
        yield [WAITING, name, start, arrival, identity]
    yield [COMMUNICATION, name, arrival, end, identity]


def rows(spans: Iterable[Span]) -> list[str]:
    """The categories of a worker's spans, with or without a separate category for waiting."""
    found = {span[0] for span in spans}
    reduced = [one for one in (WAITING, COMMUNICATION) if found & {WAITING, COMMUNICATION}]
    return [INPUT, COMPUTE, *reduced, *([ALL_REDUCE] if ALL_REDUCE in found or not reduced else [])]


def exclusive_times(spans: Sequence[Span]) -> dict[str, float]:
    """The milliseconds of one worker by category, in which concurrent time counts once.

    An all-reduce that waits during a computation costs nothing. So if several categories run
    concurrently, the time counts for the first of compute, input, communication, waiting and
    all-reduce. "idle" is the time in which none of them ran. The sum is the time of all steps.
    """
    times = dict.fromkeys((*rows(spans), IDLE), 0.0)
    changes = [change for s in spans for change in ((s[2], 1, s[0]), (s[3], -1, s[0]))]
    changes.sort(key=lambda change: change[0])
    running: Counter[str] = Counter()
    for (time, change, category), (next_time, *_next) in itertools.pairwise(changes):
        running[category] += change
        first = next((one for one in PRECEDENCE if running[one] > 0), IDLE)
        times[first] += (next_time - time) / 1000
    return times


def timeline_chart(workers: Mapping[str, Sequence[Span]]) -> SvgFigure:
    """The steps of all workers on one clock, in ms, with a row for each category.

    Args:
      workers: the spans of each worker, by its name, as they were recorded.
    """
    from matplotlib.figure import Figure

    timeline = merge_traces(workers)
    figure = Figure(figsize=(9, 0.5 + 1.5 * len(workers)), layout="constrained")
    panels = figure.subplots(len(workers), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (worker, spans) in zip(panels, timeline.workers.items(), strict=True):
        names = rows(spans)
        for height, name in enumerate(names):
            bars = [(s[2] / 1000, (s[3] - s[2]) / 1000) for s in spans if s[0] == name]
            axes.broken_barh(bars, (height - 0.4, 0.8), color=COLOURS[name])
        axes.set_yticks(range(len(names)), [_(CATEGORIES[name]) for name in names])
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_title(labels.task(worker), loc="left", fontsize="medium", pad=16)  # above steps
        for step in (span for span in spans if span[0] == STEP):
            axes.axvline(step[2] / 1000, color="gray", linewidth=0.8)
            axes.annotate(
                _("step {number}").format(number=step[1]),
                (step[2] / 1000, 1),
                (3, 3),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                fontsize="small",
            )
    panels[-1].set_xlabel(_axis_label(timeline.clock_error))
    panels[-1].xaxis.set_major_formatter(lambda value, _position: number(value, ",.7g"))
    return SvgFigure(
        figure, _("training steps of each worker: input, compute, waiting, communication")
    )


def _axis_label(clock_error: float | None) -> str:
    if clock_error is None:
        return _("ms, clocks of the machines not aligned")
    if clock_error:
        return _("ms, clocks aligned to within {error} ms").format(
            error=number(clock_error / 1000, ".2g")
        )
    return _("ms")


def write_chrome_trace(path: str | Path, workers: Mapping[str, Sequence[Span]]) -> None:
    """Writes the steps of all workers on one clock in the Chrome Trace Event Format.

    ui.perfetto.dev and chrome://tracing open the file. Each worker is a process, and each category
    is a thread, or several if its operations overlap, because events of a thread may not overlap.
    The main thread has the steps, and all ids differ. Perfetto does not accept 0 as a thread's id:
    its events would appear in the main thread.

    Args:
      path: the JSON file. If its name ends in `.gz`, it is compressed.
      workers: the spans of each worker, by its name, as they were recorded.
    """
    timeline = merge_traces(workers)
    threads = itertools.count(1 + len(workers))
    events = [
        event
        for process, (worker, spans) in enumerate(timeline.workers.items(), 1)
        for event in _events(process, threads, worker, spans)
    ]
    content = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"clock_error_us": timeline.clock_error},
    }
    data = json.dumps(content).encode()
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


def _events(
    process: int, threads: Iterator[int], worker: str, spans: Sequence[Span]
) -> Iterator[dict[str, Any]]:
    """The events of a worker. `threads` are the ids of all threads but the main thread."""
    yield _metadata("process_name", process, process, name=labels.task(worker))
    yield _metadata("process_sort_index", process, process, sort_index=process)
    thread = process  # as the main thread on Linux
    for category in (STEP, *rows(spans)):
        title = _("step") if category == STEP else _(CATEGORIES[category])
        for lane in _lanes(span for span in spans if span[0] == category):
            yield _metadata("thread_name", process, thread, name=title)
            yield _metadata("thread_sort_index", process, thread, sort_index=thread)
            for _category, name, start, end, _identity in lane:
                yield {
                    "ph": "X",
                    "name": f"{title} {name}" if category == STEP else name,
                    "cat": category,
                    "ts": start,
                    "dur": end - start,
                    "pid": process,
                    "tid": thread,
                }
            thread = next(threads)


def _metadata(kind: str, process: int, thread: int, **args: object) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def _lanes(spans: Iterable[Span]) -> list[list[Span]]:
    """Distributes spans among as few lanes as possible, so that no spans of a lane overlap."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: span[2]):
        free = next((lane for lane in lanes if lane[-1][3] <= span[2]), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return lanes
