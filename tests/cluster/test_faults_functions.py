"""Faults in the reader's own functions: shown once, and never followed by a restart."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import LocalCluster
from helpers.cluster.processes import MAX_LOG_BYTES
from helpers.errors import ClusterError, UserCodeError
from helpers.protocol.events import Event
from helpers.worker.context import WorkerContext
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn


def broken_model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    return features.no_such_method()


def broken_input_fn(mode: str, params: Any, input_context: Any = None) -> Any:
    return tiny_input_fn(mode, params["no_such_parameter"], input_context)


def huge_model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    from helpers.estimator import tf

    size = tf.cast(tf.reduce_sum(features) * 0 + 2**45, tf.int64)  # unknown until it runs
    loss = tf.reduce_max(tf.random.uniform([size])) + tf.reduce_sum(features)
    train_op = tf.compat.v1.train.get_or_create_global_step().assign_add(1)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def broken_function(context: WorkerContext) -> float:
    return 1 / (context.config.task.index - 1)  # in worker 1


def huge_function() -> Any:
    from helpers.estimator import tf

    return tf.zeros([2**45])


def assert_shown_once(error: UserCodeError, line: str, events: list[Event]) -> None:
    text = str(error)
    assert line in text
    assert text.count("Traceback") == 1
    assert "site-packages" not in text
    assert "a restart would not help" in text
    assert not [event for event in events if event["event"] == "group_restart"]


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("model_fn", "input_fn", "line"),
    [
        (broken_model_fn, tiny_input_fn, "features.no_such_method()"),
        (tiny_model_fn, broken_input_fn, 'params["no_such_parameter"]'),
        pytest.param(
            *(huge_model_fn, tiny_input_fn, "tf.random.uniform([size])"),
            marks=pytest.mark.faults,
        ),
    ],
    ids=["model_fn", "input_fn", "out of memory"],
)
def test_an_exception_in_an_estimators_function_is_shown_once_and_restarts_nothing(
    model_fn: Any, input_fn: Any, line: str, workers: int
) -> None:
    events: list[Event] = []
    with LocalCluster(workers) as cluster, pytest.raises(UserCodeError) as caught:
        cluster.train(
            model_fn, input_fn, steps=10, params=PARAMS, progress=False, on_event=events.append
        )
    assert_shown_once(caught.value, line, events)


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("function", "line"),
    [
        (broken_function, "return 1 / (context.config.task.index - 1)"),
        (huge_function, "ResourceExhaustedError"),
    ],
    ids=["function", "out of memory"],
)
def test_an_exception_in_a_function_is_shown_once_and_restarts_nothing(
    function: Any, line: str, workers: int
) -> None:
    events: list[Event] = []
    with LocalCluster(workers) as cluster, pytest.raises(UserCodeError) as caught:
        cluster.run(function, on_event=events.append)
    assert_shown_once(caught.value, line, events)


class Mute(Exception):
    """An exception without a message."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def leave() -> None:
    sys.exit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


def raise_mute() -> None:
    raise Mute


def raise_a_book() -> None:
    raise ValueError("word " * 1_000_000)


@pytest.mark.parametrize(
    ("function", "line", "said"),
    [
        (leave, "sys.exit(3)", "worker 0 raised SystemExit"),
        (interrupt, "raise KeyboardInterrupt", "worker 0 raised KeyboardInterrupt"),
        (raise_mute, "raise Mute", "converting it to text raised RuntimeError"),
        (raise_a_book, 'raise ValueError("word', "(… 4950000 more characters)"),
    ],
)
def test_what_a_function_does_to_end_itself_is_its_own_and_restarts_nothing(
    function: Callable[[], None], line: str, said: str
) -> None:
    events: list[Event] = []
    with LocalCluster(1) as cluster, pytest.raises(UserCodeError) as caught:
        cluster.run(function, on_event=events.append)
    assert_shown_once(caught.value, line, events)
    assert said in str(caught.value)


def test_a_function_that_ends_its_process_as_if_all_were_well_is_told_so() -> None:
    with LocalCluster(1) as cluster, pytest.raises(ClusterError, match=r"os\._exit"):
        cluster.run(lambda: os._exit(0))


def test_a_large_result_arrives_whole() -> None:
    def results() -> list[Any]:
        return [list(range(1_000_000)), "x" * 50_000_000, np.ones(12_500_000)]

    with LocalCluster(2) as cluster:
        for numbers, text, array in cluster.run(results):
            assert numbers == list(range(1_000_000))
            assert len(text) == 50_000_000
            assert array.sum() == 12_500_000


def test_of_a_flood_of_prints_the_log_keeps_beginning_and_end() -> None:
    def flood() -> None:
        print("the first line")
        for _time in range(400):
            print("x" * 100_000, flush=True)
            time.sleep(0.005)  # a disk does not accept more
        print("the last line", flush=True)

    with LocalCluster(1) as cluster:
        cluster.run(flood)
        [process] = cluster.processes
        text = process.log.read_text()
        assert "the first line" in text and process.log_tail().endswith("the last line")
        assert "omitted here" in text
        assert len(text) < 2 * MAX_LOG_BYTES


def test_a_function_runs_again_in_all_workers_when_one_is_out_of_memory(tmp_path: Path) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)  # like the kernel if a process uses too much memory

    assert "worker 1 ended with signal 9 (SIGKILL)" in reason_of_restart(tmp_path, die)


def test_a_restart_after_an_error_of_pages_has_its_first_line_as_reason(tmp_path: Path) -> None:
    def lose_peer() -> None:
        from helpers.estimator import tf

        raise tf.errors.UnavailableError(None, None, "Socket closed\nAdditional GRPC information")

    reason = reason_of_restart(tmp_path, lose_peer)
    assert reason == "worker 1 raised UnavailableError at step 0: Socket closed"


def reason_of_restart(folder: Path, harm: Callable[[], None]) -> str:
    """Runs a function that injects a fault into worker 1 at its first call there."""

    def harmed_once(context: WorkerContext) -> int:
        flag = folder / "harmed"
        if context.config.task.index == 1 and not flag.exists():
            flag.touch()
            harm()
        return context.config.task.index

    events: list[Event] = []
    with LocalCluster(workers=2) as cluster:
        assert cluster.run(harmed_once, on_event=events.append) == [0, 1]
    [restart] = [event for event in events if event["event"] == "group_restart"]
    return str(restart["reason"])
