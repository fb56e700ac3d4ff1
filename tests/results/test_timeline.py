"""One timeline from the spans of several workers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from helpers.protocol.spans import Span
from helpers.results.timeline import (
    exclusive_times,
    merge_traces,
    timeline_chart,
    write_chrome_trace,
)


def worker(arrives: float, ahead: float = 0.0, clock: str = "one") -> list[Span]:
    """A step of 10 ms with an all-reduce that ends at 9 ms, on a clock that is ahead."""
    spans: list[tuple[str, str, float, float, str]] = [
        ("step", "7", 0, 10_000, clock),
        ("input", "IteratorGetNext", 0, 1000, ""),
        ("compute", "MatMul", 1000, arrives, ""),
        ("all-reduce", "CollectiveReduceV2", arrives, 9000, "1/5"),
        ("compute", "AssignAdd", 9000, 10_000, ""),
    ]
    return [[a, b, start + ahead, end + ahead, key] for a, b, start, end, key in spans]


def test_the_first_worker_waits_until_the_last_one_starts_the_all_reduce() -> None:
    timeline = merge_traces({"worker 0": worker(3000), "worker 1": worker(8000)})
    first, second = map(exclusive_times, timeline.workers.values())
    assert first == {
        "input": pytest.approx(1),
        "compute": pytest.approx(3),
        "waiting": pytest.approx(5),
        "communication": pytest.approx(1),
        "idle": pytest.approx(0),
    }
    assert second["waiting"] == 0
    assert second["communication"] == pytest.approx(1)
    assert timeline.clock_error == 0


def test_one_machine_has_one_clock() -> None:
    late = worker(8000, ahead=500)
    timeline = merge_traces({"worker 0": worker(3000), "worker 1": late})
    assert timeline.workers["worker 1"][0][2] == 500


def test_the_clocks_of_two_machines_are_aligned_by_the_ends_of_collectives() -> None:
    other = worker(8000, ahead=1e9, clock="two")
    timeline = merge_traces({"worker 0": worker(3000), "worker 1": other})
    assert timeline.workers["worker 1"][0][2] == pytest.approx(0)
    assert exclusive_times(timeline.workers["worker 0"])["waiting"] == pytest.approx(5)
    assert timeline.clock_error == pytest.approx(0)


def test_the_clock_error_is_the_spread_of_the_ends() -> None:
    def traced(ends: list[float], clock: str) -> list[Span]:
        reduces = [["all-reduce", "C", e - 10, e, f"1/{k}"] for k, e in enumerate(ends)]
        return [["step", "1", 0, 1000, clock], *reduces]

    first, second = traced([100, 200, 300], "one"), traced([600, 705, 790], "two")
    timeline = merge_traces({"worker 0": first, "worker 1": second})
    assert timeline.clock_error == 5  # the offsets are 500, 505 and 490


def test_clocks_without_a_shared_collective_are_not_aligned() -> None:
    alone = [["step", "1", 0, 10, "two"]]
    timeline = merge_traces({"worker 0": worker(3000), "worker 1": alone})
    assert timeline.clock_error is None
    assert "all-reduce" in exclusive_times(timeline.workers["worker 0"])


def test_keys_that_a_graph_uses_in_each_step_are_matched_in_order() -> None:
    def traced(*arrivals: float) -> list[Span]:
        return [
            ["all-reduce", "CollectiveReduce", start, 1000 * (k + 1), "1/5"]
            for k, start in enumerate(arrivals)
        ]

    timeline = merge_traces({"a": traced(100, 1900), "b": traced(700, 1200)})
    waits = {
        name: [span[3] - span[2] for span in spans if span[0] == "waiting"]
        for name, spans in timeline.workers.items()
    }
    assert waits == {"a": [600], "b": [700]}


def check_chrome_trace(events: list[dict[str, Any]]) -> None:
    """The required fields of the Trace Event Format. Events of a thread do not overlap."""
    ends: dict[tuple[int, int], float] = {}
    assert {event["ph"] for event in events} == {"M", "X"}
    for event in events:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["args"]
            continue
        assert event["dur"] >= 0
        lane = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(lane, 0)
        ends[lane] = event["ts"] + event["dur"]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_file_is_in_the_trace_event_format(tmp_path: Path, name: str) -> None:
    overlapping = [*worker(3000), ["compute", "Add", 1500, 2500, ""]]
    path = tmp_path / name
    write_chrome_trace(path, {"worker 0": overlapping, "worker 1": worker(8000)})
    data = path.read_bytes()
    content = json.loads(gzip.decompress(data) if name.endswith("gz") else data)
    events = content["traceEvents"]
    check_chrome_trace(events)
    assert sum(event["ph"] == "X" for event in events) == 12
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert processes == ["worker 0", "worker 1"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names[1, 1] == names[2, 2] == "step"  # in the main thread of each process
    threads = [thread for _process, thread in names]
    assert len({*threads}) == len(threads) and min(threads) > 0


def test_the_chart_names_workers_steps_and_rows() -> None:
    chart = timeline_chart({"worker 0": worker(3000), "worker 1": worker(8000)})
    panel, _second = chart.figure.axes
    assert panel.get_title(loc="left") == "worker 0"
    assert [text.get_text() for text in panel.texts] == ["step 7"]
    rows = [label.get_text() for label in panel.get_yticklabels()]
    assert rows == ["input", "compute", "waiting", "communication"]
