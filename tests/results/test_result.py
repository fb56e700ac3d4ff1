from __future__ import annotations

import io
from contextlib import redirect_stderr
from typing import Any
from xml.etree import ElementTree

import pytest

from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.protocol import events
from helpers.protocol.stack_dump import ThreadStack
from helpers.results import history
from helpers.results.progress import show_progress, status_line
from helpers.results.training_result import RESULT_MIME, TrainingResult


def event(kind: str, at: float, **fields: Any) -> events.Event:
    return {"event": kind, "time": 1000 + at, "task": "worker 0", "attempt": 0, **fields}


def a_run() -> TrainingResult:
    """Four seconds at 100 steps per second after a slow first second, then killed and resumed."""
    result = TrainingResult(2, "RING", "/tmp/model", 1000.0)
    result.add(event("run_info", 2, total_steps=400, global_batch=128))
    result.add(event("ready", 2.5, step=0))
    for tenth in range(51):
        step = tenth if tenth < 10 else 10 + (tenth - 10) * 10
        speed = None if tenth == 0 else 12_800.0
        at = 3 + tenth / 10
        result.add(event("step", at, step=step + 1, loss=2 / (step + 1), examples_per_second=speed))
    result.add(event("checkpoint", 8.0, step=400))
    result.add(event("group_restart", 8.1, reason="worker 1 ended with signal 9"))
    result.add(event("ready", 12, step=400) | {"attempt": 1})
    result.add(event("step", 12.5, step=401, loss=0.1, examples_per_second=None) | {"attempt": 1})
    result.add(event("evaluation", 13.0, step=401, metrics={"accuracy": 0.9812, "loss": 0.05}))
    return result


def test_a_result_reads_as_a_sentence() -> None:
    assert repr(a_run()) == (
        "TrainingResult(2 workers, RING: 401 steps in 13.0 s, 12,800 examples/s, "
        "accuracy 0.9812, 1 restart)"
    )


def test_throughput_leaves_out_the_first_second_and_other_attempts() -> None:
    assert a_run().examples_per_second == pytest.approx(12_800, rel=0.01)
    assert TrainingResult(1, "AUTO", "", 0.0).examples_per_second == 0


def test_traces_have_the_order_of_the_tasks_and_not_of_their_arrival() -> None:
    result = a_run()
    for task in ("worker 1", "worker 0"):
        result.add(event("trace", 14, spans=[]) | {"task": task})
    assert list(result.traces) == ["worker 0", "worker 1"]


def test_what_happened_is_kept() -> None:
    result = a_run()
    assert result.seconds_to_first_step == pytest.approx(3)
    assert result.resumed_at == {0: 0, 1: 400}
    assert result.restarts == ["worker 1 ended with signal 9"]
    assert result.evaluation == {"accuracy": 0.9812, "loss": 0.05}


def test_a_notebook_gets_the_sentence_and_a_program_the_numbers() -> None:
    bundle = a_run()._repr_mimebundle_()
    assert bundle["text/plain"].startswith("TrainingResult(")
    assert bundle[RESULT_MIME]["accuracy"] == 0.9812


def test_stacks_of_failed_attempts_are_folded_in_a_notebook() -> None:
    result = a_run()
    result.add_stacks(Stacks())
    assert not result.stacks and "text/html" not in result._repr_mimebundle_()
    frame = ("/home/me/<evil>.py", 12, "step")
    stack = TaskStack("worker 0", WaitsFor.SLEEP, frame, 3, (ThreadStack(True, (frame,)),))
    result.add_stacks(Stacks({"worker 0": stack}))  # of the attempt after the restart
    shown = result._repr_mimebundle_()["text/html"]
    assert "<pre>TrainingResult(2 workers" in shown and "<evil>" not in shown
    assert "<summary>Stacks at the end of the run</summary>" in shown
    result.restarts.append("worker 0 made no progress")
    result.add_stacks(Stacks({"worker 0": stack}))
    assert list(result.stacks) == [1, 2]
    shown = result.stacks_html()
    assert "Stacks before restart 2" in shown and "Stacks at the end of the run" in shown
    assert shown.count("worker 0 sleeps (&lt;evil&gt;.py:12, in step), after step 3") == 2
    assert "<details open" not in shown


def test_the_picture_is_svg_with_text_as_text() -> None:
    svg = a_run().plot().svg()
    root = ElementTree.fromstring(svg)
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"step", "loss", "examples/s", "worker 0"} <= texts
    assert svg == a_run().plot().svg()


def test_a_run_without_a_single_report_can_be_drawn() -> None:
    assert TrainingResult(2, "AUTO", "", 0.0).plot().svg()


def test_the_status_line_says_where_the_run_stands() -> None:
    assert status_line(TrainingResult(2, "AUTO", "", 0.0)) == "starting"
    line = status_line(a_run())
    assert line.startswith("step 401 of 400, loss 0.100")
    assert "accuracy 0.9812" in line
    assert "worker 1 ended with signal 9" in line


def test_a_terminal_gets_a_bar() -> None:
    result, output = a_run(), io.StringIO()
    with redirect_stderr(output), show_progress(result) as show:
        show(event("evaluation", 13.0))
    assert "accuracy 0.9812" in output.getvalue()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[1]",
        b'"x"',
        b"\xff\xfe",
        b'{"event": 1, "time": 2}',
        b'{"event": "step"}',
        b"[" * 9999,
    ],
)
def test_a_line_that_is_no_event_is_ignored(line: bytes) -> None:
    assert events.decode(line) is None


def test_events_arrive_as_they_were_sent() -> None:
    import os

    reader, writer = os.pipe()
    try:
        events.EventWriter(writer)("step", step=3, loss=0.5, examples_per_second=None)
        got = events.decode(os.read(reader, 4096))
    finally:
        os.close(reader)
        os.close(writer)
    assert got
    assert (got["event"], got["step"], got["loss"]) == ("step", 3, 0.5)


def test_a_writer_whose_reader_is_gone_goes_on() -> None:
    import os

    reader, writer = os.pipe()
    os.close(reader)
    report = events.EventWriter(writer)
    report("heartbeat")
    report("heartbeat")
    os.close(writer)


@pytest.mark.parametrize(
    ("strategy", "exchange"),
    [("MultiWorkerMirroredStrategy", "RING"), ("MirroredStrategy", "MirroredStrategy")],
)
def test_a_collective_is_a_collective_whatever_the_strategy(strategy: str, exchange: str) -> None:
    result = TrainingResult.for_run(strategy, 2, "RING")
    assert (result.strategy, result.collective, result.communication) == (
        strategy,
        "RING",
        exchange,
    )
    assert f", {exchange}: " in repr(result)


def test_where_variables_lie_and_how_stale_steps_are_is_kept_by_task() -> None:
    result = a_run()
    result.add(event("variable_placement", 2.6, bytes={"ps 0": 100}))
    result.add(
        event("variable_placement", 2.7, bytes={"ps 0": 100, "ps 1": 40}) | {"task": "worker 1"}
    )
    result.add(event("staleness", 3.0, step=20, updates=1.5))
    assert result.variables == {"ps 0": 100, "ps 1": 40}
    assert result.staleness == {"worker 0": [(20, 1.5, 0)]}


def test_an_evaluation_knows_when_it_came() -> None:
    assert [one.seconds for one in a_run().evaluations] == [pytest.approx(13.0)]
    assert history.Evaluation(1, {}).seconds == 0.0
