"""Breakpoints in a worker, with a notebook that answers in the same process."""

from __future__ import annotations

import bdb
import os
import pdb
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster.stack_patterns import WaitsFor, locate
from helpers.protocol import debugger_pipe
from helpers.protocol.events import EventType
from helpers.protocol.stack_dump import ThreadStack
from helpers.worker import debugger

Answers = Callable[..., list[dict[str, Any]]]
# From Python 3.13 on, the debugger stops at the line of `breakpoint()`, and before at the next one.
STOPS_AT_CALL = sys.version_info >= (3, 13)


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    """Installs the debugger, and returns a function that sets the lines of the notebook."""
    monkeypatch.setattr(sys, "breakpointhook", sys.breakpointhook)
    monkeypatch.setattr(pdb, "set_trace", pdb.set_trace)
    monkeypatch.delenv(debugger.VARIABLE, raising=False)
    events: list[dict[str, Any]] = []
    lines: list[str] = []
    trace = sys.gettrace()

    def report(kind: EventType, **fields: Any) -> None:
        events.append({"event": kind, **fields})
        if kind == EventType.DEBUGGER_STOPPED:
            assert debugger_pipe.is_any_waiting(tmp_path)
            debugger_pipe.send_line(tmp_path, os.getpid(), lines.pop(0))

    def answer(*new: str) -> list[dict[str, Any]]:
        lines.extend(new)
        return events

    debugger.install(report, tmp_path, "worker 1")
    yield answer
    sys.settrace(trace)
    assert not debugger_pipe.is_any_waiting(tmp_path)


def texts(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events)


def test_a_breakpoint_sends_its_text_and_reads_lines_until_it_continues(answers: Answers) -> None:
    events = answers("p number + 1", "number = 7", "c")

    def train() -> int:
        number = 3
        breakpoint()
        return number

    assert train() == 7
    kinds = [event["event"] for event in events]
    assert kinds == [EventType.DEBUGGER_STOPPED] * 3 + [EventType.DEBUGGER_CONTINUED]
    file, line, function = events[0]["place"]
    assert (file, function) == (__file__, "train")
    assert f"({line})train()" in events[0]["text"]
    assert events[0]["text"].endswith("(Pdb worker 1) ")
    assert events[1]["text"] == "4\n(Pdb worker 1) "


def test_next_stays_in_the_readers_code(answers: Answers) -> None:
    events = answers(*["next"] * STOPS_AT_CALL, "next", "next", "c")

    def train() -> None:
        breakpoint()
        debugger_pipe.is_any_waiting(Path())
        "last line"

    train()
    first, *others = events[2 * STOPS_AT_CALL :]  # each stop and each continuation is an event
    assert "is_any_waiting(Path())" in first["text"]
    assert texts(others).count("-> ") == 2
    assert "glob" not in texts(events)


def test_stacks_name_the_line_and_the_debugger(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[ThreadStack] = []

    def send_line(*_line: object) -> None:
        frames = traceback.extract_stack()[:-2]  # without this test's notebook
        found = tuple((one.filename, one.lineno or 0, one.name) for one in frames)
        stacks.append(ThreadStack(True, found))
        original(*_line)

    original: Any = debugger_pipe.send_line
    monkeypatch.setattr(debugger_pipe, "send_line", send_line)
    answers("c")

    def train() -> None:
        breakpoint()
        "next line"

    train()
    waits_for, place = locate(stacks)
    assert waits_for == WaitsFor.DEBUGGER
    assert place is not None and place[2] == "train"


def test_q_raises_in_the_function(answers: Answers) -> None:
    answers("q")

    def train() -> None:
        breakpoint()
        raise AssertionError("not reached")

    with pytest.raises(bdb.BdbQuit):
        train()


def test_set_trace_of_pdb_opens_the_same_prompt(answers: Answers) -> None:
    events = answers("c")

    def train() -> None:
        pdb.set_trace(header="a header")
        "next line"

    train()
    assert events[0]["text"].startswith("a header\n")
    assert events[0]["place"][2] == "train"


def test_an_interrupt_ends_a_prompt(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        debugger_pipe, "send_line", lambda *_line: os.kill(os.getpid(), signal.SIGINT)
    )
    events = answers("")

    def train() -> None:
        breakpoint()
        "next line"

    with pytest.raises(KeyboardInterrupt):
        train()
    assert events[-1]["event"] == EventType.DEBUGGER_CONTINUED


def test_a_pipe_that_an_interrupt_has_left_does_not_matter(
    answers: Answers, tmp_path: Path
) -> None:
    os.mkfifo(debugger_pipe.pipe_path(tmp_path, os.getpid()))
    events = answers("c")

    def train() -> None:
        breakpoint()
        "next line"

    train()
    assert events


def test_long_output_is_cut(answers: Answers) -> None:
    events = answers("p 'x' * 10**6", "p 1", "c")

    def train() -> None:
        breakpoint()
        "next line"

    train()
    assert len(events[1]["text"]) < debugger.MAX_TEXT + 100
    assert events[1]["text"].endswith("…\n(Pdb worker 1) ")
    assert events[2]["text"] == "1\n(Pdb worker 1) "


def test_an_interpreter_reads_lines_of_the_notebook_too(answers: Answers) -> None:
    events = answers("interact", "print(6 * 7)", "exit()", "c")

    def train() -> None:
        breakpoint()
        "next line"

    train()
    assert "42\n" in texts(events)


def test_the_variable_of_python_switches_breakpoints_off(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = answers()
    monkeypatch.setenv(debugger.VARIABLE, "0")
    breakpoint()
    assert not events


def test_a_fork_of_a_worker_continues(
    answers: Answers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = answers()
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    breakpoint()
    monkeypatch.undo()
    assert not events
    assert f"{__file__}:" in capsys.readouterr().err
