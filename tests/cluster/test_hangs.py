"""Hangs of real workers: the error and stacks() name each worker's line and what it waits for.

In each program, a comment with the worker's name marks the line at which it hangs.
"""

from __future__ import annotations

import json
import linecache
import multiprocessing
import os
import pdb
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.errors import ClusterError, HelpersError, StoppedError
from helpers.protocol.events import Event, EventType
from helpers.worker.context import WorkerContext

DEADLINE = 60.0
LOOKS = 3  # successive ones, because a worker that does not hang may pass its line
FILE = Path(__file__).name

Program = Callable[[WorkerContext], Any]


def wait_for_lock(context: WorkerContext) -> None:
    lock = threading.Lock()
    if context.config.task.index == 1:
        lock.acquire()
    time.sleep(0.1)
    with lock:  # worker 1
        while True:
            time.sleep(0.1)  # worker 0


def never_start_the_strategy(context: WorkerContext) -> None:
    import tensorflow as tf

    if context.config.task.index == 1:
        time.sleep(600)  # worker 1
    tf.distribute.MultiWorkerMirroredStrategy()  # worker 0


def start_at_a_wrong_address(context: WorkerContext) -> None:
    import tensorflow as tf

    if context.config.task.index == 1:
        config = json.loads(os.environ["TF_CONFIG"])
        config["cluster"]["worker"][0] = "127.0.0.1:1"
        os.environ["TF_CONFIG"] = json.dumps(config)
    tf.distribute.MultiWorkerMirroredStrategy()  # worker 0, worker 1


def make_step() -> Callable[[], Any]:
    """Returns a step that sums a number over all workers."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def replica_step() -> Any:
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0))

    return tf.function(lambda: strategy.run(replica_step))


def end_a_while_loop_alone(context: WorkerContext) -> None:
    step, error = make_step(), 1.0
    while error > 0.1 * context.config.task.index:
        step()  # worker 0
        error /= 2
        error = max(error, 0.05)
    time.sleep(600)  # worker 1


def take_unequal_steps(context: WorkerContext) -> None:
    step = make_step()
    for _step in range(5 - context.config.task.index):
        step()  # worker 0


def end_the_data_early(context: WorkerContext) -> None:
    import tensorflow as tf

    step = make_step()
    for _number in tf.data.Dataset.range(5 - context.config.task.index):
        step()  # worker 0


def reduce_in_one_worker_only(context: WorkerContext) -> None:
    step = make_step()
    step()
    if context.config.task.index == 0:
        step()  # worker 0
    os.read(os.pipe()[0], 1)  # worker 1


def blocking_data(context: WorkerContext) -> Any:
    """Returns batches of one number, of which worker 1 gets one only."""
    import tensorflow as tf

    def numbers() -> Any:
        yield 1.0
        if context.config.task.index == 1:
            time.sleep(600)  # worker 1
        while True:
            yield 1.0

    data = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([]))
    return data.batch(1, drop_remainder=True)


def wait_for_a_generator(context: WorkerContext) -> None:
    step = make_step()
    for _number in blocking_data(context):
        step()  # worker 0


def wait_for_a_generator_in_the_graph(context: WorkerContext) -> None:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    data = blocking_data(context)
    iterator = iter(strategy.distribute_datasets_from_function(lambda _context: data))

    def replica_step(number: Any) -> Any:
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(number))

    step = tf.function(lambda: strategy.run(replica_step, args=(next(iterator),)))
    while True:
        step()  # worker 0


def keras_model() -> Any:
    """Returns a model under the strategy, and its data."""
    import tensorflow as tf

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    return model, tf.data.Dataset.from_tensors((tf.ones([4, 1]), tf.ones([4, 1]))).repeat(4)


def evaluate_on_the_chief(context: WorkerContext) -> None:
    model, data = keras_model()
    model.fit(data, verbose=0)
    if context.config.task.index == 0:
        model.evaluate(data, verbose=0)  # worker 0


def predict_on_the_chief(context: WorkerContext) -> None:
    model, data = keras_model()
    model.fit(data, verbose=0)
    if context.config.task.index == 0:
        model.predict(data, verbose=0)  # worker 0
    time.sleep(600)  # worker 1


def evaluate_in_a_callback_of_the_chief(context: WorkerContext) -> None:
    import tensorflow as tf

    class Evaluation(tf.keras.callbacks.Callback):
        def on_train_end(self, logs: Any = None) -> None:
            self.model.evaluate(data, verbose=0)  # worker 0

    model, data = keras_model()
    callbacks = [Evaluation()] if context.config.task.index == 0 else []
    model.fit(data, callbacks=callbacks, verbose=0)
    time.sleep(600)  # worker 1


def save_on_the_chief(context: WorkerContext) -> None:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        total = tf.Variable(
            1.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    if context.config.task.index == 0:
        tf.train.Checkpoint(total=total).save("checkpoint")  # worker 0
    time.sleep(600)  # worker 1


def write_to_a_slow_file(context: WorkerContext) -> None:
    step = make_step()
    step()
    if context.config.task.index == 1:
        path = Path(os.environ["TMPDIR"]) / "slow"
        os.mkfifo(path)
        with path.open("w"):  # worker 1
            pass
    step()  # worker 0


def have_another_model_on_one_worker(context: WorkerContext) -> None:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    layers = 2 - context.config.task.index

    def replica_step() -> Any:
        group = tf.distribute.get_replica_context()
        return [group.all_reduce("SUM", tf.ones([k + 1])) for k in range(layers)]

    tf.function(lambda: strategy.run(replica_step))()  # worker 0
    time.sleep(600)  # worker 1


def fork_with_a_lock(context: WorkerContext) -> None:
    lock = threading.Lock()
    if context.config.task.index == 1:
        lock.acquire()
    child = multiprocessing.get_context("fork").Process(target=lock.acquire)
    child.start()
    child.join()  # worker 1
    time.sleep(600)  # worker 0


def stop_in_a_debugger(context: WorkerContext) -> None:
    step = make_step()
    step()
    if context.config.task.index == 1:
        # Without a prompt in the notebook. It stops here, or before Python 3.13 at the next line.
        pdb.Pdb(stdin=os.fdopen(os.pipe()[0])).set_trace()  # worker 1
        step()  # worker 1
    step()  # worker 0


def report_steps(context: WorkerContext) -> None:
    step = make_step()
    for number in range(10**6):
        step()  # worker 0
        context.report(EventType.STEP, step=number, loss=0.0, examples_per_second=None)
        time.sleep(0.01)


def is_at_its_line(stack: TaskStack, waits_for: WaitsFor) -> bool:
    """Whether the state of a task is as expected, and its line has its name as a comment."""
    if stack.waits_for != waits_for or not stack.place:
        return False
    file, line, _function = stack.place
    comment = linecache.getline(file, line).partition("#")[2]
    return Path(file).name == FILE and stack.task in comment


def assert_at_its_line(stacks: Stacks, task: str, waits_for: WaitsFor) -> None:
    assert is_at_its_line(stacks[task], waits_for), f"{stacks}\n{stacks[task].text}"


def stacks_of_hang(program: Program, first: WaitsFor, second: WaitsFor) -> Stacks:
    """Polls from another thread until both workers are at their lines, and stops the run."""
    seen = [Stacks()]

    def poll() -> None:
        deadline, count = time.monotonic() + DEADLINE, 0
        while count < LOOKS and time.monotonic() < deadline and thread.is_alive():
            time.sleep(0.1)
            seen.append(cluster.stacks())
            states = zip(seen[-1].values(), (first, second), strict=False)
            at_their_lines = [is_at_its_line(stack, waits_for) for stack, waits_for in states]
            count = count + 1 if at_their_lines == [True, True] else 0
        cluster.stop()

    with LocalCluster(workers=2, max_restarts=0) as cluster:
        thread = threading.Thread(target=poll)
        thread.start()
        try:
            with pytest.raises(StoppedError):
                cluster.run(program, keras=2)
        finally:
            thread.join()
    return seen[-1]


def error_of_hang(program: Program, timeout: float) -> tuple[str, Stacks]:
    """Returns the error of a program that hangs, and the stacks."""
    with LocalCluster(workers=2, max_restarts=0) as cluster:
        with pytest.raises(HelpersError) as caught:
            cluster.run(program, keras=2, timeout=timeout)
        stacks = cluster.stacks()
    print(caught.value)
    return str(caught.value), stacks


def test_an_error_names_the_line_that_waits_for_a_lock() -> None:
    message, stacks = error_of_hang(wait_for_lock, timeout=5)
    assert_at_its_line(stacks, "worker 0", WaitsFor.SLEEP)
    assert_at_its_line(stacks, "worker 1", WaitsFor.LOCK)
    assert "made no progress for 5 s" in message
    assert f"worker 1 waits for a lock ({FILE}:" in message
    assert "_bootstrap" not in message, "a whole stack"


@pytest.mark.faults
def test_an_error_names_the_line_of_the_input_pipeline_that_blocks() -> None:
    message, stacks = error_of_hang(wait_for_a_generator, timeout=15)
    assert_at_its_line(stacks, "worker 0", WaitsFor.COLLECTIVE)
    assert_at_its_line(stacks, "worker 1", WaitsFor.DATA)
    assert f"; worker 0 waits in a collective ({FILE}:" in message
    assert f"; worker 1 waits for data ({FILE}:" in message


def test_stacks_show_a_worker_that_waits_for_a_peer_while_tensorflow_holds_the_gil() -> None:
    stacks = stacks_of_hang(never_start_the_strategy, WaitsFor.PEERS, WaitsFor.SLEEP)
    assert_at_its_line(stacks, "worker 0", WaitsFor.PEERS)
    assert_at_its_line(stacks, "worker 1", WaitsFor.SLEEP)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("program", "first", "second"),
    [
        (start_at_a_wrong_address, WaitsFor.PEERS, WaitsFor.PEERS),
        (end_a_while_loop_alone, WaitsFor.COLLECTIVE, WaitsFor.SLEEP),
        (reduce_in_one_worker_only, WaitsFor.COLLECTIVE, WaitsFor.IO),
        (wait_for_a_generator_in_the_graph, WaitsFor.COLLECTIVE, WaitsFor.DATA),
        (predict_on_the_chief, WaitsFor.COLLECTIVE, WaitsFor.SLEEP),
        (evaluate_in_a_callback_of_the_chief, WaitsFor.COLLECTIVE, WaitsFor.SLEEP),
        (save_on_the_chief, WaitsFor.COLLECTIVE, WaitsFor.SLEEP),
        (write_to_a_slow_file, WaitsFor.COLLECTIVE, WaitsFor.IO),
        (have_another_model_on_one_worker, WaitsFor.COLLECTIVE, WaitsFor.SLEEP),
        (fork_with_a_lock, WaitsFor.SLEEP, WaitsFor.THREAD),
        (stop_in_a_debugger, WaitsFor.COLLECTIVE, WaitsFor.DEBUGGER),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_stacks_show_the_line_at_which_each_worker_hangs(
    program: Program, first: WaitsFor, second: WaitsFor
) -> None:
    stacks = stacks_of_hang(program, first, second)
    assert_at_its_line(stacks, "worker 0", first)
    assert_at_its_line(stacks, "worker 1", second)


@pytest.mark.faults
@pytest.mark.parametrize("program", [take_unequal_steps, end_the_data_early, evaluate_on_the_chief])
def test_the_line_of_a_worker_whose_peer_has_finished_is_named(program: Program) -> None:
    message, stacks = error_of_hang(program, timeout=15)
    assert_at_its_line(stacks, "worker 0", WaitsFor.COLLECTIVE)
    assert "worker 1 has finished, while worker 0 is still training" in message
    assert f"worker 0 waits in a collective ({FILE}:" in message


@pytest.mark.faults
def test_a_frozen_worker_cannot_answer_and_its_peer_waits_for_it() -> None:
    frozen: list[float] = []

    def freeze(event: Event) -> None:
        if event["event"] == "step" and event["step"] > 5 and not frozen:
            cluster.inject_fault("pause", "worker 1")
            frozen.append(time.monotonic())

    with LocalCluster(workers=2, max_restarts=0, heartbeat_timeout=5) as cluster:
        with pytest.raises(ClusterError, match="worker 1 has not responded for 5 s") as caught:
            cluster.run(report_steps, on_event=freeze)
        print(time.monotonic() - frozen[0], caught.value)
        stacks = cluster.stacks()
    assert stacks["worker 1"].waits_for == WaitsFor.CONTINUE
    assert_at_its_line(stacks, "worker 0", WaitsFor.COLLECTIVE)
    assert "worker 1 is frozen (SIGSTOP)" in str(caught.value)
    assert (stacks["worker 0"].step or 0) > 5
