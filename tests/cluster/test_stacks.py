"""The reader's line of a worker and what it waits for, from stacks without other processes."""

from __future__ import annotations

import faulthandler
import os
import signal
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import helpers
from helpers.cluster.base import Cluster
from helpers.cluster.stack_collection import StackRequest, collect
from helpers.cluster.stack_patterns import WaitsFor, locate
from helpers.cluster.stacks import Stacks, TaskStack, describe, format_place
from helpers.errors import ClusterError
from helpers.protocol.events import Event, EventType, supervisor_event
from helpers.protocol.failures import Frame
from helpers.protocol.stack_dump import (
    SIGNAL,
    DumpFiles,
    ThreadStack,
    main_thread,
    parse,
    serve_stacks,
)
from helpers.results.training_result import TrainingResult
from helpers.tf_config import build_tf_configs

STDLIB = sysconfig.get_path("stdlib")
TF = "/env/site-packages/tensorflow/python"
OURS = str(Path(helpers.__file__ or "").parent)
MAIN = (f"{OURS}/worker/main.py", 150, "_work")
STEP = ("/home/me/train.py", 12, "step")
LOAD = ("/home/me/data.py", 17, "load")
EXECUTE = (f"{TF}/eager/execute.py", 53, "quick_execute")
NEXT = (f"{TF}/data/ops/iterator_ops.py", 826, "_next_internal")

DUMP = r"""Thread 0x00007f35b1e546c0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 355 in wait
  File "/home/m\xe9/\u0434.py", line 6 in \xe9t\xe9
  <invalid frame>

Thread 0x00007f35b1e546c1 [Thread-1] (most recent call first):
  <no Python frame>

Current thread 0x00007f35b3cd7b80 (most recent call first):
  File "/home/me/train.py", line 12 in step
  File "/home/me/train.py", line 20 in <module>
"""


def line_of(text: str) -> Any:
    """Returns a function that shows this text for every line."""
    return lambda file, line: text


def found(*frames: Frame, text: str = "", other: tuple[Frame, ...] = ()) -> Any:
    """What a task with these frames waits for, and where."""
    threads = [ThreadStack(True, (MAIN, *frames)), ThreadStack(False, other)]
    return locate(threads, line_of(text))


def test_an_answer_is_parsed_with_the_main_thread_first() -> None:
    main, *others = parse(DUMP, 0x7F35B3CD7B80)
    assert main == (True, (("/home/me/train.py", 20, "<module>"), STEP))
    assert [stack.is_main for stack in others] == [False, False]
    assert others[0].frames[0] == ("/home/mé/д.py", 6, "été")
    assert others[1].frames == ()


def test_an_incomplete_answer_is_parsed_as_far_as_it_goes() -> None:
    for end in range(len(DUMP)):
        parse(DUMP[:end], 1)
    assert parse("", 1) == []
    assert main_thread("Main thread 0x7f35b3cd7b80\n") == 0x7F35B3CD7B80
    assert main_thread("anything") == 0


@pytest.mark.parametrize(
    ("waits_for", "frames"),
    [
        (WaitsFor.COLLECTIVE, [EXECUTE]),
        (WaitsFor.COLLECTIVE, [("/env/site-packages/keras/trainer.py", 9, "fit"), EXECUTE]),
        (WaitsFor.COLLECTIVE, [(f"{TF}/client/session.py", 1, "_call_tf_sessionrun")]),
        (WaitsFor.COLLECTIVE, [(f"{OURS}/keras_3/agreement.py", 1, "_wait")]),
        (WaitsFor.PEERS, [(f"{TF}/eager/context.py", 745, "ensure_initialized")]),
        (WaitsFor.NOTHING, [(f"{TF}/eager/context.py", 100, "internal_operation_seed")]),
        (WaitsFor.DATA, [NEXT]),
        (WaitsFor.DATA, [NEXT, (f"{TF}/ops/gen_dataset_ops.py", 3000, "iterator_get_next")]),
        (WaitsFor.IO, [(f"{TF}/ops/gen_io_ops.py", 1800, "save_v2")]),
        (
            WaitsFor.COLLECTIVE,
            [
                (f"{TF}/distribute/cross_device_ops.py", 1, "reduce"),
                (f"{STDLIB}/threading.py", 9, "wait"),
            ],
        ),
        (WaitsFor.IO, [(f"{STDLIB}/socket.py", 700, "readinto")]),
        (
            WaitsFor.LOCK,
            [(f"{STDLIB}/threading.py", 5, "acquire"), (f"{STDLIB}/threading.py", 9, "wait")],
        ),
        (WaitsFor.THREAD, [(f"{STDLIB}/threading.py", 1100, "join")]),
        (WaitsFor.THREAD, [(f"{STDLIB}/subprocess.py", 2004, "_try_wait")]),
        (WaitsFor.THREAD, [(f"{STDLIB}/concurrent/futures/_base.py", 4, "result")]),
        (
            WaitsFor.DEBUGGER,
            [(f"{STDLIB}/bdb.py", 90, "trace_dispatch"), (f"{STDLIB}/cmd.py", 1, "cmdloop")],
        ),
        (WaitsFor.NOTHING, [("/env/site-packages/numpy/linalg.py", 4, "svd")]),
    ],
)
def test_frames_inside_a_call_show_what_it_waits_for(
    waits_for: WaitsFor, frames: list[Frame]
) -> None:
    assert found(STEP, *frames) == (waits_for, STEP)


@pytest.mark.parametrize(
    ("waits_for", "text"),
    [
        (WaitsFor.SLEEP, "time.sleep(3)"),
        (WaitsFor.LOCK, "with self._lock:"),
        (WaitsFor.LOCK, "mutex.acquire()"),
        (WaitsFor.IO, 'file.write("x")'),
        (WaitsFor.IO, "batch = np.load(open(path))"),
        (WaitsFor.THREAD, "os.waitpid(pid, 0)"),
        (WaitsFor.NOTHING, "while not done:"),
        (WaitsFor.NOTHING, ""),
    ],
)
def test_of_a_function_in_c_the_readers_line_shows_what_it_waits_for(
    waits_for: WaitsFor, text: str
) -> None:
    assert found(STEP, text=text) == (waits_for, STEP)


def test_a_line_before_a_call_of_a_library_decides_nothing() -> None:
    assert found(STEP, EXECUTE, text="time.sleep(3)") == (WaitsFor.COLLECTIVE, STEP)


def test_a_task_without_a_line_of_the_reader_has_none() -> None:
    assert found() == (WaitsFor.NOTHING, None)
    assert found((f"{OURS}/worker/main.py", 170, "_exit_barrier")) == (WaitsFor.END, None)
    assert found((f"{OURS}/worker/server.py", 31, "serve")) == (WaitsFor.REQUESTS, None)


SCRIPT = (f"{TF}/ops/script_ops.py", 270, "__call__")
GENERATOR = (f"{TF}/data/ops/from_generator_op.py", 200, "generator_py_func")
REPLICA = (f"{TF}/distribute/mirrored_run.py", 380, "run")
JOIN = (f"{STDLIB}/threading.py", 1100, "join")


@pytest.mark.parametrize(
    ("frames", "other", "waits_for"),
    [
        ([STEP, EXECUTE], [SCRIPT, GENERATOR, LOAD], WaitsFor.DATA),
        ([STEP, NEXT], [SCRIPT, GENERATOR, LOAD], WaitsFor.DATA),
        ([STEP, NEXT], [SCRIPT, LOAD], WaitsFor.DATA),
        ([STEP, EXECUTE], [SCRIPT, LOAD], WaitsFor.SLEEP),
        ([JOIN], [REPLICA, LOAD], WaitsFor.SLEEP),
        ([STEP, JOIN], [REPLICA, LOAD, EXECUTE], WaitsFor.COLLECTIVE),
    ],
)
def test_a_function_that_tensorflow_calls_in_another_thread_is_waited_for(
    frames: list[Frame], other: list[Frame], waits_for: WaitsFor
) -> None:
    assert found(*frames, text="sleep(1)", other=tuple(other)) == (waits_for, LOAD)


def test_a_function_that_autograph_has_rewritten_is_named_without_a_line() -> None:
    rewritten = ("/tmp/__autograph_generated_file_x1.py", 40, "tf__model_fn")
    body = ("/tmp/__autograph_generated_file_x1.py", 38, "if_body")
    waits_for, place = found(JOIN, other=(REPLICA, rewritten, body))
    assert describe([stack("worker 1", waits_for, place)]) == "worker 1 runs (in model_fn)"
    assert found(STEP, rewritten, EXECUTE) == (WaitsFor.COLLECTIVE, STEP)


def test_other_threads_decide_nothing() -> None:
    assert found(STEP, NEXT, other=(SCRIPT,)) == (WaitsFor.DATA, STEP)
    assert found(STEP, EXECUTE, other=(LOAD,)) == (WaitsFor.COLLECTIVE, STEP)
    assert found(STEP, JOIN, other=(LOAD,)) == (WaitsFor.THREAD, STEP)
    assert found(STEP, text="sleep(1)", other=(SCRIPT, LOAD)) == (WaitsFor.SLEEP, STEP)


def stack(task: str, waits_for: WaitsFor, place: Frame | None = STEP, **fields: Any) -> TaskStack:
    return TaskStack(task, waits_for, place, **fields)


def test_a_clause_names_the_task_its_line_and_what_it_waits_for() -> None:
    stacks = [stack("worker 0", WaitsFor.COLLECTIVE), stack("worker 1", WaitsFor.NOTHING, LOAD)]
    assert describe(stacks) == (
        "worker 0 waits in a collective (train.py:12, in step); worker 1 is at data.py:17, in load"
    )


def test_tasks_at_one_place_share_a_clause_and_servers_are_omitted() -> None:
    stacks = [stack(f"worker {k}", WaitsFor.COLLECTIVE) for k in range(64)]
    stacks += [stack("ps 0", WaitsFor.REQUESTS, None), stack("evaluator 0", WaitsFor.END, None)]
    assert describe(stacks) == (
        "worker 0, worker 1, worker 2, worker 3 and 60 more wait in a collective "
        "(train.py:12, in step); evaluator 0 has finished"
    )


def test_an_error_lists_a_few_places() -> None:
    stacks = [stack(f"worker {k}", WaitsFor.SLEEP, ("a.py", k, "f")) for k in range(9)]
    assert describe(stacks).endswith("worker 3 sleeps (a.py:3, in f); …")


@pytest.mark.parametrize("waits_for", WaitsFor)
def test_every_state_has_a_clause_for_one_and_for_several_tasks(waits_for: WaitsFor) -> None:
    for count in (1, 2):
        stacks = [stack(f"worker {k}", waits_for, None) for k in range(count)]
        clause = describe(stacks)
        assert clause.startswith("worker 0") or waits_for == WaitsFor.REQUESTS
        assert "{" not in clause


def test_a_line_of_a_cell_is_shown_by_its_text() -> None:
    cell = ("/tmp/ipykernel_12/345.py", 2, "step")
    text = "    total = strategy.run(replica_step)\n"
    assert format_place(cell, line_of(text)) == (
        "line 2 of a cell, in step: total = strategy.run(replica_step)"
    )
    assert len(format_place(cell, line_of("x" * 500))) < 100


def test_what_a_notebook_shows_is_a_line_for_each_task_and_a_folded_stack() -> None:
    threads = (ThreadStack(True, (MAIN, ("/home/me/a.py", 3, "<module>"))),)
    stacks = Stacks({"worker 0": stack("worker 0", WaitsFor.SLEEP, step=7, threads=threads)})
    assert repr(stacks) == "worker 0 sleeps (train.py:12, in step), after step 7"
    assert "<summary>worker 0 sleeps" in stacks._repr_html_()
    assert "in &lt;module&gt;" in stacks._repr_html_()
    assert 'File "/home/me/a.py", line 3, in <module>' in stacks["worker 0"].text
    assert stacks.answered
    assert repr(Stacks()) == Stacks()._repr_html_() == "No task is running."


CONFIG = build_tf_configs(["a:1", "b:1"])[1]


def this_process(folder: Path, **fields: Any) -> Any:
    """This process, in the form of a worker's process."""
    return SimpleNamespace(
        task=CONFIG.task,
        config=CONFIG,
        log=folder / "worker-1.log",
        pid=os.getpid(),
        **{"has_exited": False, "has_started": True, "is_running": True} | fields,
    )


FILES = DumpFiles.of(Path(), os.getpid())


@contextmanager
def answering(folder: Path) -> Iterator[None]:
    """Answers requests for the stacks of this process."""
    assert SIGNAL is not None
    serve_stacks(folder)
    try:
        yield
    finally:
        faulthandler.unregister(SIGNAL)
        (folder / FILES.requests).write_text("end")


@pytest.mark.parametrize("signaled", [False, True])
def test_a_process_answers_with_all_its_threads(signaled: bool, tmp_path: Path) -> None:
    """The thread answers or, if Python's lock is held, the handler of the signal."""
    done = threading.Event()
    threading.Thread(target=done.wait).start()
    with answering(tmp_path):
        if signaled:
            (tmp_path / FILES.requests).rename(tmp_path / "requests")
        for _time in range(2):  # the second answer begins at the end of the first
            found = collect(
                [this_process(tmp_path)],
                {"worker 1": 3},
                seconds=20 if not signaled else 2,
                before_kill=True,
            )
            [one] = found.values()
            assert (one.task, one.step) == ("worker 1", 3)
            main, *others = one.threads
            assert main.is_main
            assert "collect" in [frame[2] for frame in main.frames]
            assert "wait" in [thread.frames[-1][2] for thread in others]
            assert len([thread for thread in one.threads if thread.is_main]) == 1
        if signaled:
            (tmp_path / "requests").rename(tmp_path / FILES.requests)
    answered = (tmp_path / FILES.signal_answers).stat().st_size > 100
    assert answered == signaled
    done.set()


def test_a_process_that_does_not_answer_is_not_waited_for_long(tmp_path: Path) -> None:
    assert SIGNAL is not None
    (tmp_path / FILES.signal_answers).write_text("Main thread 0x1\n")
    before = signal.signal(SIGNAL, lambda number, frame: None)  # such as the reader's handler
    try:
        began = time.monotonic()
        found = collect([this_process(tmp_path)], {}, seconds=0.2, before_kill=True)
        assert 0.1 <= time.monotonic() - began < 5
    finally:
        signal.signal(SIGNAL, before)
    assert repr(found) == "worker 1 did not report its stack"
    assert not found.answered


def test_processes_without_a_handler_get_no_signal(tmp_path: Path) -> None:
    """The signal would end them, as it would end this test."""
    for name in ("", FILES.answers.name, FILES.signal_answers.name):
        if name:  # the handler was removed
            (tmp_path / name).write_text("Main thread 0x1\n")
        found = collect([this_process(tmp_path)], {}, seconds=0.1, before_kill=True)
        assert repr(found) == "worker 1 did not report its stack"
    not_started = this_process(tmp_path, has_started=False)
    assert repr(collect([not_started], {})) == "worker 1 has not started"
    assert collect([this_process(tmp_path, has_exited=True)], {}) == {}


def test_a_busy_process_gets_no_signal_unless_it_is_killed_next(tmp_path: Path) -> None:
    assert SIGNAL is not None
    (tmp_path / FILES.signal_answers).write_text("Main thread 0x1\n")
    signals: list[int] = []
    before = signal.signal(SIGNAL, lambda number, frame: signals.append(number))
    request = StackRequest(this_process(tmp_path))
    request.send()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    try:
        if is_busy := request._is_busy:  # unless other programs take the CPU
            request.send_signal(force=False)
            assert not signals
        request.send_signal(force=True)
        assert signals == [SIGNAL]
    finally:
        signal.signal(SIGNAL, before)
    assert is_busy in (True, False)


def test_a_system_without_pipes_and_signals_collects_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helpers.protocol.stack_dump.SIGNAL", None)
    monkeypatch.setattr("helpers.cluster.stack_collection.SIGNAL", None)
    monkeypatch.delattr(os, "mkfifo")
    serve_stacks(tmp_path)
    assert not list(tmp_path.iterdir())
    assert repr(collect([this_process(tmp_path)], {})) == "worker 1 did not report its stack"


def test_a_folder_that_cannot_be_written_harms_no_worker(tmp_path: Path) -> None:
    serve_stacks(tmp_path / "missing")


def test_stacks_of_each_failed_attempt_are_recorded_in_the_result() -> None:
    stacks = [Stacks(), Stacks({"worker 0": TaskStack("worker 0", WaitsFor.SLEEP)})]
    result = TrainingResult(1, "AUTO", "", 0.0)
    group: Any = SimpleNamespace(stacks=lambda: stacks[len(result.restarts)])

    def events() -> Iterator[Event]:
        yield supervisor_event(EventType.GROUP_RESTART, "worker 0", attempt=1, reason="killed")
        raise ClusterError("worker 0 has made no progress")

    with pytest.raises(ClusterError):
        for event in Cluster._record_stacks(group, events(), result):
            result.add(event)
    assert result.stacks == {1: stacks[1]}, "a crash has no stacks"
