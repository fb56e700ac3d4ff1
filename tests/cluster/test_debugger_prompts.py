"""The order of prompts when debuggers of several tasks wait, tested without processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.cluster.debugger_prompts import PATIENCE, DebuggerPrompts, can_ask
from helpers.protocol import debugger_pipe
from helpers.protocol.events import Event, EventType, supervisor_event

PLACE = ["train.py", 12, "step"]


class Notebook:
    """Prompts of two fake workers, and a reader who answers each one with its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_possible: bool = True) -> None:
        self.asked: list[str] = []
        self.sent: list[tuple[str, str]] = []
        self.now = 0.0
        self.error: BaseException | None = None
        monkeypatch.setattr(
            debugger_pipe,
            "send_line",
            lambda folder, _pid, line: self.sent.append((folder.name, line)),
        )
        self.prompts = DebuggerPrompts(self._ask, lambda: is_possible, lambda: self.now)
        self._processes: list[Any] = [
            SimpleNamespace(task=f"worker {k}", pid=k, log=Path(f"worker {k}", "log"))
            for k in range(2)
        ]

    def _ask(self, prompt: str) -> str:
        if self.error:
            raise self.error
        self.asked.append(prompt)
        return str(len(self.asked))

    def send(self, kind: EventType, worker: int, *, at: float = 0.0, **fields: Any) -> list[Event]:
        self.now = at
        event = supervisor_event(kind, f"worker {worker}", **fields)
        self.prompts.observe(event, self._processes)
        return list(self.prompts.serve())

    def stop(self, worker: int, *, at: float = 0.0, text: str = "") -> list[Event]:
        text = f"{text}(Pdb {worker}) "
        return self.send(EventType.DEBUGGER_STOPPED, worker, at=at, text=text, place=PLACE)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    return Notebook(monkeypatch)


def test_one_debugger_after_the_other_gets_its_lines(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.stop(0, text="> train.py\n")
    notebook.stop(1, at=0.1)
    notebook.stop(0, at=0.2)
    assert notebook.asked == ["(Pdb 0) ", "(Pdb 0) "]
    assert capsys.readouterr().out == "> train.py\n"
    notebook.send(EventType.DEBUGGER_CONTINUED, 0, at=0.3, text="")
    notebook.send(EventType.HEARTBEAT, 0, at=0.5)
    assert len(notebook.asked) == 2
    notebook.send(EventType.HEARTBEAT, 0, at=0.2 + PATIENCE)
    assert notebook.asked[2:] == ["(Pdb 1) "]
    assert notebook.sent == [("worker 0", "1"), ("worker 0", "2"), ("worker 1", "3")]


def test_a_debugger_in_a_collective_leaves_its_turn_to_its_peer(notebook: Notebook) -> None:
    notebook.stop(0)  # its answer is "next", over a collective that needs worker 1
    notebook.stop(1, at=0.1)
    notebook.send(EventType.HEARTBEAT, 0, at=PATIENCE)
    assert notebook.asked == ["(Pdb 0) ", "(Pdb 1) "]
    notebook.stop(0, at=PATIENCE + 0.1)
    assert len(notebook.asked) == 2, "worker 1 has its turn"


def test_while_a_debugger_waits_no_time_passes(notebook: Notebook) -> None:
    assert not notebook.prompts.is_paused
    notebook.stop(0)
    assert notebook.prompts.is_paused
    notebook.send(EventType.DEBUGGER_CONTINUED, 0, text="")
    assert not notebook.prompts.is_paused


def test_a_task_that_has_ended_is_not_asked_for(notebook: Notebook) -> None:
    notebook.stop(0)
    notebook.stop(1, at=0.1)
    notebook.send(EventType.EXIT, 1, at=0.2, code=-9)
    notebook.send(EventType.HEARTBEAT, 0, at=PATIENCE + 1)
    assert notebook.asked == ["(Pdb 0) "]


def test_the_end_of_the_input_ends_the_debugger(notebook: Notebook) -> None:
    notebook.error = EOFError()
    notebook.stop(0)
    assert notebook.sent == [("worker 0", "quit")]


@pytest.mark.parametrize("is_possible", [True, False])
def test_without_input_a_breakpoint_continues_and_names_its_line(
    is_possible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Notebook(monkeypatch, is_possible=is_possible)
    notebook.error = NotImplementedError()  # of a front end without input
    [warning] = notebook.stop(0)
    assert notebook.sent == [("worker 0", "continue")]
    assert warning["event"] == EventType.WARNING
    assert "worker 0 did not stop at a breakpoint (train.py:12, in step)" in warning["message"]


def test_an_interrupt_at_a_prompt_ends_the_run(notebook: Notebook) -> None:
    notebook.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        notebook.stop(0)
    assert not notebook.sent


def test_a_program_without_a_terminal_cannot_ask() -> None:
    assert not can_ask()
