"""The panel without widgets: choices, limits, and real runs."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from traitlets import TraitError

from helpers.cluster.local import LocalCluster
from helpers.course.panel import choices as panel_choices
from helpers.course.panel.run import Run, RunRecord, planned_tasks, speedups
from helpers.course.panel.state import PanelState
from helpers.course.panel.status import Status
from helpers.errors import ClusterError, ConfigError, StoppedError
from helpers.results.training_result import TrainingResult
from helpers.worker.context import WorkerContext
from tests.support.processes import wait_until, worker_pids

FEW_STEPS = 60


@pytest.fixture
def state() -> Iterator[PanelState]:
    made = PanelState(collective="RING")
    yield made
    made.close()


def reached(state: PanelState, step: int) -> bool:
    return bool(state.run and state.run.result.steps >= step)


@pytest.mark.training
def test_a_run_reaches_the_accuracy_that_mnist_is_known_for(state: PanelState) -> None:
    had = "tensorflow" in sys.modules
    state.start(workers=2)
    result = state.wait(120)
    assert ("tensorflow" in sys.modules) == had  # only the workers need it
    assert result.accuracy is not None and result.accuracy > 0.95
    assert state.status == Status.DONE and [task.status for task in state.tasks] == [
        Status.DONE,
        Status.DONE,
    ]
    assert [record.workers for record in state.records] == [2]


def test_each_worker_of_a_synchronous_group_has_all_variables(state: PanelState) -> None:
    state.start(workers=2, steps=20, evaluator=True)
    result = state.wait(120)
    one, other = (result.variables[f"worker {k}"] for k in range(2))
    assert one == other > 2 * 4 * 347_146
    assert result.variables.keys() == {"worker 0", "worker 1"} and not result.staleness
    assert result.steps == 20 and "steps=20" in state.code() and "epochs" not in state.code()
    last = result.history["worker 0"][-1]
    assert [one.step for one in result.evaluations][-1] == 20
    assert last.seconds < result.evaluations[-1].seconds <= result.seconds


def test_a_combination_runs_as_it_was_checked(state: PanelState) -> None:
    state.update(workers=2, batch_size=32)
    several = {"strategy": ("OneDeviceStrategy", "MultiWorkerMirroredStrategy")}
    found = state.grid(several)
    assert [one["workers"] for one in found] == [1, 2]
    assert [one["collective"] for one in found] == ["AUTO", "RING"]
    assert [one["batch_size"] for one in found] == [32, 32]
    with pytest.raises(ConfigError, match="one device"):
        state.grid({"workers": (1, 2), "strategy": ("OneDeviceStrategy",)})


def test_the_order_of_choices_is_of_no_account(state: PanelState) -> None:
    state.update(workers=2, strategy="OneDeviceStrategy")
    with pytest.raises(ConfigError, match="one device"):
        state.check()


def test_the_last_of_epochs_and_steps_counts(state: PanelState) -> None:
    state.update(steps=60)
    assert state.train_options()["steps"] == 60
    state.update(epochs=2)
    options = state.train_options()
    assert options["epochs"] == 2 and "steps" not in options


def test_a_choice_that_a_function_has_not_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="epochs"):
        PanelState(function=print, epochs=2)


def test_a_scenario_with_cables_needs_the_laboratory(state: PanelState) -> None:
    state.update(scenario="partition")
    with pytest.raises(ConfigError, match="fault_injection=True"):
        state.check()


def test_a_refusal_of_a_press_is_kept_as_an_error(
    state: PanelState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel_choices, "nvidia_gpus", lambda: 0)
    state.update(collective="NCCL")
    state.on_run_clicked()
    assert isinstance(state.error, ConfigError) and "GPU" in str(state.error)
    assert state.status == Status.IDLE and not state.records


@pytest.mark.usefixtures("replayed")
def test_a_stop_that_comes_as_the_training_ends_leaves_nobody_busy(state: PanelState) -> None:
    """The thread must not write the result of the run between a stop's check and its update."""
    state.start(workers=1, steps=20)
    assert wait_until(lambda: reached(state, 1), 60)
    state._status_lock.acquire()  # like a stop that has checked, and not yet written
    try:
        assert wait_until(lambda: state.records != [], 10)
        assert state.status == Status.RUNNING
    finally:
        state._status_lock.release()
    assert state.wait(60).steps == 20 and state.status == Status.DONE


def test_a_sweep_is_refused_before_its_first_run_begins(
    state: PanelState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel_choices, "nvidia_gpus", lambda: 0)
    with pytest.raises(ConfigError, match="GPU"):
        state.grid({"workers": (1, 2), "collective": ("RING", "NCCL")})
    with pytest.raises(ConfigError, match="workers=0"):
        state.grid({"workers": (1, 0)})
    with pytest.raises(ConfigError, match="speed"):
        state.grid({"speed": (1, 2)})
    for values in (2, "64", ()):
        with pytest.raises(ConfigError, match="several values"):
            state.grid({"batch_size": values})  # type: ignore[dict-item]
    assert not state.records and state.workers == 2


def test_the_last_choice_of_a_sweep_changes_fastest(state: PanelState) -> None:
    found = state.grid({"workers": [1, 2], "batch_size": (64, 256)})
    pairs = [(each["workers"], each["batch_size"]) for each in found]
    assert pairs == [(1, 64), (1, 256), (2, 64), (2, 256)]


def report_steps(context: WorkerContext) -> str:
    """A function as a reader writes one, which reports its progress."""
    context.report("run_info", total_steps=40, global_batch=96)
    for step in (20, 40):
        context.report("step", step=step, loss=1 / step, examples_per_second=500.0)
    context.report("evaluation", step=40, metrics={"accuracy": 0.75})
    return context.collective


def test_a_function_of_the_reader_is_run_and_its_reports_are_the_result() -> None:
    state = PanelState(function=report_steps, keras=2, workers=2, collective="RING")
    state.start()
    result = state.wait(60)
    state.close()
    assert state.status == Status.DONE and result is state.result
    assert (result.steps, result.total_steps, result.accuracy) == (40, 40, 0.75)
    assert [len(points) for points in result.history.values()] == [2, 2]
    [record] = state.records
    assert (record.workers, record.batch_size, record.communication) == (2, 48, "RING")
    assert state.code() == (
        "from helpers import LocalCluster\n"
        "from tests.panel.test_state import report_steps\n\n"
        'with LocalCluster(workers=2, collective="RING") as cluster:\n'
        "    values = cluster.run(report_steps)\n"
        "values"
    )


def fit_twice(context: WorkerContext) -> None:
    """Trains one epoch, and then two."""
    import tensorflow as tf

    from helpers.keras_callbacks import StepReportCallback

    data = tf.data.Dataset.from_tensors((tf.ones([32, 4]), tf.ones([32, 1]))).repeat()
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    report = StepReportCallback(context, global_batch=32)
    for epochs in (1, 2):
        model.fit(data, epochs=epochs, steps_per_epoch=10, verbose=0, callbacks=[report])


def test_keras_tells_how_many_steps_it_will_make_also_in_a_second_fit() -> None:
    state = PanelState(function=fit_twice, workers=1)
    state.start()
    result = state.wait(60)
    state.close()
    assert (result.total_steps, result.steps, result.global_batch) == (30, 30, 32)


def test_a_function_decides_upon_the_rest_itself() -> None:
    for choice in ({"batch_size": 32}, {"strategy": "MirroredStrategy"}, {"epochs": 2}):
        with pytest.raises(ConfigError, match="workers, collective"):
            PanelState(function=report_steps, **choice)
    with pytest.raises(ConfigError, match="keras=4"):
        PanelState(function=report_steps, keras=4)
    nameless = PanelState(function=functools.partial(report_steps), keras=3)
    assert "cluster.run(function, keras=3)" in nameless.code()


def test_a_function_knows_which_collective_was_asked_for() -> None:
    with LocalCluster(workers=1, collective="RING") as cluster:
        assert cluster.run(report_steps) == ["RING"]


def test_a_killed_worker_is_seen_lost_and_the_group_comes_back(state: PanelState) -> None:
    state.start(epochs=20)
    assert wait_until(lambda: reached(state, 150), 60)
    state.inject_fault("kill", "worker 1")
    assert wait_until(lambda: state.tasks[1].shown_status == Status.LOST, 10)
    run = state.run
    assert run and wait_until(lambda: run.result.restarts != [] and run.phase == "training", 60)
    assert "signal 9" in run.result.restarts[0]
    assert run.result.resumed_at[1] >= 100
    state.stop_and_wait()
    assert state.records[-1].restarts == 1


@pytest.mark.parametrize(
    ("strategy", "tasks"),
    [
        ("MirroredStrategy", ["worker 0"]),
        ("OneDeviceStrategy", ["worker 0"]),
        ("ParameterServerStrategy", ["chief 0", "worker 0", "worker 1", "ps 0"]),
    ],
)
def test_every_strategy_trains(state: PanelState, strategy: str, tasks: list[str]) -> None:
    state.update(strategy=strategy)
    assert state.collective == "AUTO"
    assert [task.name for task in state.tasks] == tasks
    state.start(steps=FEW_STEPS)
    result = state.wait(120)
    assert result.accuracy is not None and result.communication == strategy
    assert f'strategy="{strategy}"' in state.code()
    holder = "ps 0" if strategy == "ParameterServerStrategy" else "worker 0"
    copies = 2 if strategy == "MirroredStrategy" else 1
    weights_and_momentum = 2 * 4 * 347_146
    assert result.variables.keys() == {holder}
    assert 0 <= result.variables[holder] - copies * weights_and_momentum < 100 * copies
    assert bool(result.staleness) == (holder == "ps 0")
    assert result.staleness.keys() <= {task for task in tasks if holder == "ps 0" != task}
    replicas = {"MirroredStrategy": 2, "OneDeviceStrategy": 1, "ParameterServerStrategy": 3}
    assert [record.workers for record in state.records] == [replicas[strategy]]


@pytest.mark.usefixtures("replayed")
def test_a_worker_killed_beside_a_parameter_server_comes_back_alone(state: PanelState) -> None:
    state.start(strategy="ParameterServerStrategy", epochs=20)
    assert wait_until(lambda: reached(state, 100), 60)
    state.inject_fault("kill", "worker 1")
    run = state.run
    assert run and wait_until(lambda: run.result.warnings != [], 30)
    assert wait_until(lambda: run.tasks[2].status == "training", 60)
    assert run.result.restarts == []


def test_what_a_strategy_cannot_have_is_refused(state: PanelState) -> None:
    with pytest.raises(ConfigError, match="one device"):
        state.start(strategy="OneDeviceStrategy", workers=2)
    with pytest.raises(ConfigError, match="does not use a collective"):
        state.start(strategy="MirroredStrategy", collective="RING")


@pytest.mark.usefixtures("replayed")
@pytest.mark.parametrize("moment", ["at once", "launched", "training", "after a checkpoint"])
def test_stop_works_at_any_time(state: PanelState, moment: str) -> None:
    state.start(epochs=20)
    if moment == "launched":
        assert wait_until(lambda: len(state.processes) > 0, 10)
    elif moment != "at once":
        assert wait_until(lambda: reached(state, 1 if moment == "training" else 51), 10)
    stop_and_look(state)


def test_stop_ends_real_workers(state: PanelState) -> None:
    state.start(epochs=20)
    assert wait_until(lambda: reached(state, 1), 60)
    assert len(worker_pids()) == 2
    stop_and_look(state)


def stop_and_look(state: PanelState) -> None:
    state.stop()
    with pytest.raises(StoppedError):
        state.wait(10)
    assert state.status == "stopped" and not worker_pids()


@pytest.mark.usefixtures("replayed")
def test_a_second_panel_ends_the_run_of_the_first(state: PanelState) -> None:
    state.start(epochs=20)
    assert wait_until(lambda: reached(state, 1), 60)
    other = PanelState(collective="RING")
    assert state.status == "stopped"
    other.close()


@pytest.mark.usefixtures("replayed")
def test_starting_again_ends_the_run_before(state: PanelState) -> None:
    state.start(epochs=20)
    assert wait_until(lambda: reached(state, 1), 60)
    state.start(epochs=10)
    assert [record.status for record in state.records] == ["stopped"]
    assert wait_until(lambda: reached(state, 1), 60)


def test_an_interrupt_of_a_waiting_program_stops_the_workers() -> None:
    program = """
import os, signal, threading, time
from helpers.course.panel.state import PanelState

def interrupt():
    while not state.run.result.steps:
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

state = PanelState()
state.start(epochs=20)
threading.Thread(target=interrupt).start()
try:
    state.wait()
except KeyboardInterrupt:
    print(state.status)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=True
    )
    assert done.stdout == "stopped\n"


@pytest.mark.faults
def test_a_fourth_run_leaves_no_more_than_the_second(
    state: PanelState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = []
    for _run in range(4):
        state.start(steps=FEW_STEPS)
        state.wait(60)
        left.append(
            (
                psutil.Process().num_fds(),
                threading.active_count(),
                len(list(tmp_path.iterdir())),
                len(worker_pids()),
            )
        )
    assert left[-1] == left[1], left


def test_the_readers_own_error_is_shown_and_raised(state: PanelState) -> None:
    def broken(mode: str) -> Any:
        raise ValueError("no such column")

    state.input_fn = broken
    state.start()
    with pytest.raises(ClusterError, match="no such column"):
        state.wait(60)
    assert state.status == "failed" and {task.status for task in state.tasks} == {"failed"}


def test_the_code_runs_as_it_stands(state: PanelState) -> None:
    state.update(steps=FEW_STEPS, evaluator=True)
    checked = state.code() + '\nassert "accuracy" in result.evaluation\n'
    subprocess.run([sys.executable, "-c", checked], check=True, timeout=120)


def test_code_for_functions_of_the_notebook_imports_none_of_them() -> None:
    def my_model(features: Any, labels: Any, mode: str) -> None: ...

    my_model.__module__ = "__main__"
    code = PanelState(model_fn=my_model).code()
    assert code.startswith("from helpers import LocalCluster, input_fn\n")
    assert "        my_model,\n        input_fn,\n" in code


def test_the_code_can_export_the_training() -> None:
    code = PanelState(workers=2, collective="RING").code("program")
    assert 'with LocalCluster(workers=2, collective="RING") as cluster:\n' in code
    assert '    cluster.export(\n        "program",\n        model_fn,\n' in code
    assert "result" not in code
    code = PanelState(function=report_steps, keras=3).code("program")
    assert code.endswith('    cluster.export("program", report_steps, keras=3)')
    assert PanelState(strategy="MirroredStrategy").code("program") == ""


@pytest.mark.parametrize(
    ("name", "value"), [("workers", 0), ("collective", "MPI"), ("speed", 9), ("epochs", "two")]
)
def test_a_choice_that_cannot_be_is_refused(state: PanelState, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        state.update(**{name: value})


def test_nccl_without_a_gpu_is_refused_with_the_reason(
    state: PanelState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel_choices, "nvidia_gpus", lambda: 0)
    with pytest.raises(ConfigError, match="GPU"):
        state.start(collective="NCCL")
    assert state.unavailable_reason("collective", "RING") is None


def test_more_workers_than_memory_are_refused_with_the_reason(
    state: PanelState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel_choices, "can_fork", lambda: True)
    monkeypatch.setattr(panel_choices, "free_memory", lambda: 1.1e9)
    assert state.unavailable_reason("workers", 2) is None
    assert "memory" in (state.unavailable_reason("workers", 3) or "")
    state.update(evaluator=True)
    assert "memory" in (state.unavailable_reason("workers", 2) or "")


def test_speed_up_compares_with_one_worker_of_the_same_batch() -> None:
    def record(workers: int, batch: int, speed: float, status: Status = Status.DONE) -> RunRecord:
        return RunRecord(workers, "RING", batch, False, status, 0.98, speed, 0)

    records = [
        record(1, 64, 100),
        record(2, 64, 150),
        record(2, 128, 190),
        record(2, 64, 90, Status.STOPPED),
    ]
    assert speedups(records) == [1.0, 1.5, None, None]


def test_a_run_follows_its_events() -> None:
    run = Run(TrainingResult(2, "RING", "", 0.0), planned_tasks(2, evaluator=False), 64)
    moments = []
    for kind, fields in (
        ("started", {"isolated": True}),
        ("ready", {"step": 0}),
        ("step", {"step": 1, "loss": 2.3, "examples_per_second": 100.0}),
        ("evaluation_progress", {}),
        ("exit", {"code": 0}),
    ):
        event = {"event": kind, "time": 1.0, "task": "worker 0", "attempt": 0, **fields}
        run.add(event, [])
        moments.append((run.tasks[0].status, run.tasks[0].examples_per_second))
    assert moments == [
        ("starting", None),
        ("ready", None),
        ("training", 50.0),
        ("evaluating", None),
        ("done", None),
    ]
    run.add(
        {"event": "group_restart", "time": 2.0, "task": "worker 1", "attempt": 1, "reason": "gone"},
        [],
    )
    assert [task.shown_status for task in run.tasks] == ["restarting", "lost"]


@pytest.mark.usefixtures("replayed")
def test_a_run_has_one_result_that_the_cluster_fills(state: PanelState) -> None:
    state.start(workers=1, steps=FEW_STEPS)
    result = state.wait(60)
    assert state.run and result is state.run.result is state.result
    points = [point for reports in result.history.values() for point in reports]
    assert len({point.step for point in points}) == len(points) > 0  # no step is counted twice


def test_every_status_has_a_word_a_color_and_the_name_that_a_page_carries() -> None:
    for status in Status:
        assert status.word and status.color.startswith("#")
        assert f'data-status="{status}"' == f'data-status="{status.value}"'
    assert [status for status in Status if status.is_busy] == [Status.RUNNING, Status.STOPPING]
    assert "status" in PanelState().traits()
    with pytest.raises(TraitError):
        PanelState().status = "asleep"
