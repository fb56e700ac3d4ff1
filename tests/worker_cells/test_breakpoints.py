"""`breakpoint()` in workers, with the prompt in a notebook or in a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.kernel import TIMEOUT, Kernel
from tests.worker.test_debugger import STOPS_AT_CALL

FUNCTION = """
from helpers import LocalCluster

def train(context):
    loss = context.config.task.index + 0.5
    breakpoint()
    return loss

def run(function=train, **options):
    with LocalCluster(workers=2, step_timeout=2, max_restarts=0) as cluster:
        print("results", cluster.run(function, timeout=2, **options))
"""
PAUSE = 3.0  # seconds, longer than all deadlines of FUNCTION


@pytest.fixture
def defined(kernel: Kernel) -> Kernel:
    assert not kernel.run(FUNCTION).error
    return kernel


def interrupting(kernel: Kernel) -> Callable[[str], None]:
    """Interrupts the kernel instead of answering a prompt."""
    return lambda _prompt: kernel.interrupt()


def test_run_asks_for_each_worker_and_no_deadline_passes_meanwhile(defined: Kernel) -> None:
    lines = iter(["p loss", "c", "loss = 2.5", "c"])

    def answer(prompt: str) -> str:
        if len(answered) == 1:
            time.sleep(PAUSE)  # while both workers wait
        answered.append(prompt)
        return next(lines)

    answered: list[str] = []
    result = defined.run("run()", answer=answer)
    assert not result.error
    first, second = (0, 1) if answered[0] == "(Pdb worker 0) " else (1, 0)
    assert answered == [f"(Pdb worker {k}) " for k in (first, first, second, second)]
    assert f"\n{first + 0.5}\n" in result.text
    assert f"-> {'breakpoint()' if STOPS_AT_CALL else 'return loss'}" in result.text
    losses = [0.5, 1.5]
    losses[second] = 2.5
    assert f"results {losses}" in result.text


def test_q_ends_the_run_without_a_restart(defined: Kernel) -> None:
    result = defined.run("run()", answer=lambda _prompt: "q")
    assert len(result.prompts) == 1
    assert "StoppedError" in result.error
    assert "was ended with q, so the run was stopped" in result.error


def test_an_interrupt_at_the_prompt_ends_the_run(defined: Kernel) -> None:
    result = defined.run("run()", answer=interrupting(defined))
    assert "KeyboardInterrupt" in result.error
    assert len(result.prompts) == 1


def test_a_front_end_without_input_continues_with_one_line(defined: Kernel) -> None:
    result = defined.run("run()")
    assert "results [0.5, 1.5]" in result.text
    line = 5 if STOPS_AT_CALL else 6
    shown = f"worker 0 did not stop at a breakpoint (line {line} of a cell"
    assert result.text.count(shown) == 1


def test_a_worker_cell_asks_after_its_output(kernel: Kernel) -> None:
    lines = iter(["p x + 1", "c", "x = 7", "c"])
    code = "x = 5\nprint('before')\nfor step in range(1):\n    breakpoint()\n    y = x\ny"
    result = kernel.run(f"%%workers 0\n{code}", answer=lambda _prompt: next(lines))
    assert result.prompts == ["(Pdb worker 0) "] * 2
    assert result.text.startswith("[0] before\n> Cell In[")
    assert f"-> {'breakpoint()' if STOPS_AT_CALL else 'y = x'}\n6\n" in result.text
    assert result.lines[-1] == "[0] 5"
    result = kernel.run(f"%%workers 1\n{code}", answer=lambda _prompt: next(lines))
    assert result.lines[-1] == "[1] 7"


def test_q_and_an_interrupt_end_a_worker_cell_that_keeps_its_variables(kernel: Kernel) -> None:
    code = "%%workers\nkept = 1\nbreakpoint()\nkept = 2"
    result = kernel.run(code, answer=lambda _prompt: "q")
    assert "BdbQuit: the debugger was ended with q" in result.error
    result = kernel.run(code, answer=interrupting(kernel))
    assert "CellInterrupt" in result.error
    assert kernel.run("%%workers\nkept").lines == ["[0-1] 1"]


@pytest.mark.faults
def test_the_time_limit_of_a_cell_is_paused_at_a_prompt(kernel: Kernel) -> None:
    def answer(_prompt: str) -> str:
        time.sleep(PAUSE)
        return "c"

    result = kernel.run("%%workers 0 --timeout 2\nbreakpoint()\nx = 'end'\nx", answer=answer)
    assert result.lines[-1] == "[0] 'end'"


@pytest.mark.faults
def test_breakpoint_0_switches_prompts_off(defined: Kernel) -> None:
    assert not defined.run("import os\nos.environ['PYTHONBREAKPOINT'] = '0'").error
    result = defined.run("run()", answer=lambda _prompt: "q")
    defined.run("del os.environ['PYTHONBREAKPOINT']")
    assert "results [0.5, 1.5]" in result.text
    assert not result.prompts


@pytest.mark.faults
def test_a_script_in_a_terminal_asks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{FUNCTION}\nif __name__ == '__main__':\n    run()\n")
    shown = in_terminal(script, ["p loss", "c", "c"])
    assert "(Pdb worker 0) " in shown and "(Pdb worker 1) " in shown
    assert f"script.py({6 if STOPS_AT_CALL else 7})train()" in shown
    assert "results [0.5, 1.5]" in shown


def in_terminal(script: Path, lines: list[str]) -> str:
    """What a program shows in a terminal in which these lines are typed at its prompts."""
    terminal, inner = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    os.close(inner)
    shown, seen, deadline = "", 0, time.monotonic() + TIMEOUT
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            try:
                shown += os.read(terminal, 1 << 16).decode()
            except OSError:  # it has ended
                break
            if "(Pdb" in shown[seen:] and shown.endswith(") ") and lines:
                seen = len(shown)
                os.write(terminal, f"{lines.pop(0)}\n".encode())
    finally:
        os.close(terminal)
        program.kill()
        program.wait()
    return shown
