from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import LocalCluster, input_fn, model_fn
from helpers.errors import ConfigError, DataError, PackageError, UserCodeError
from helpers.estimator import tf
from helpers.protocol import payload
from helpers.protocol.events import Event
from helpers.protocol.job import FunctionJob
from helpers.results.training_result import TrainingResult
from helpers.system.machine import share_cores
from helpers.system.ports import free_ports
from helpers.worker.context import WorkerContext
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn
from tests.support.processes import worker_pids


@pytest.mark.training
def test_two_workers_reach_98_percent_on_mnist(tmp_path: Path) -> None:
    memory: dict[str, int] = {}

    def note_memory(event: Any) -> None:
        if event["event"] == "evaluation_progress":
            for process in cluster.processes:
                if peak := peak_memory(process.pid):
                    memory[str(process.task)] = peak

    with LocalCluster(workers=2, collective="RING") as cluster:
        result = cluster.train(
            model_fn,
            input_fn,
            epochs=3,
            params={"seed": 1},
            model_dir=tmp_path,
            progress=False,
            on_event=note_memory,
        )
    assert result.accuracy is not None
    assert result.accuracy >= 0.98
    assert result.steps == result.total_steps == 3 * (30_000 // 64)
    assert result.global_batch == 128
    assert set(result.history) == {"worker 0", "worker 1"}
    assert result.checkpoints[-1] == result.steps
    assert max(memory.values()) < 800 * 2**20  # 620 MiB alone, more on a loaded machine
    assert_predicts(tmp_path)


def peak_memory(pid: int) -> int:
    """The peak memory of a process in bytes, because psutil only reports the current value."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


def assert_predicts(model_dir: Path) -> None:
    """PREDICT works on the checkpoint, in a separate process without a strategy."""
    estimator = tf.estimator.Estimator(model_fn, str(model_dir), params={})
    predictions = list(estimator.predict(input_fn))
    assert len(predictions) == 10_000
    labels = np.concatenate([label for _, label in input_fn("eval").as_numpy_iterator()])
    assert np.mean([p["class"] for p in predictions] == labels) >= 0.98
    assert predictions[0]["probabilities"].shape == (10,)
    assert predictions[0]["probabilities"].sum() == pytest.approx(1, abs=1e-5)


def test_a_function_from_a_notebook_cell_trains_on_three_workers() -> None:
    with LocalCluster(workers=3) as cluster:
        offset = 0.5  # a global of the reader's cell, which is sent with the function

        def cell_input_fn(mode: str, params: Any, input_context: Any = None) -> Any:
            dataset = tiny_input_fn(mode, params, input_context)
            return dataset.map(lambda x, y: (x, y + offset - 0.5))

        result = cluster.train(tiny_model_fn, cell_input_fn, epochs=300, params=PARAMS)
    assert result.total_steps == 300 * (33 // 5)
    assert result.evaluation["error"] < 0.1
    assert set(result.history) == {"worker 0", "worker 1", "worker 2"}


def test_every_worker_sees_the_same_loss_and_the_group_one_gradient() -> None:
    one: dict[str, Any] = {"steps": 50, "progress": False, "evaluate": None}
    losses: list[list[float]] = []
    for workers, batch in ((1, 10), (2, 5)):
        with LocalCluster(workers=workers) as cluster:
            result = cluster.train(tiny_model_fn, ten_examples, params={"batch_size": batch}, **one)
        finals = [points[-1].loss for points in result.history.values()]
        losses.append(finals)
    assert losses[1][0] == losses[1][1] == pytest.approx(losses[0][0], rel=1e-5)


def ten_examples(mode: str, params: Any, input_context: Any = None) -> Any:
    """A batch of ten examples, or each worker's half of it."""
    values = tf.range(10, dtype=tf.float32)[:, None] / 10
    dataset = tf.data.Dataset.from_tensor_slices((values, 2 * values))
    if input_context:
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.batch(params["batch_size"])


def test_an_evaluator_beside_the_workers_evaluates_while_they_train() -> None:
    with LocalCluster(workers=2) as cluster:
        result = cluster.train(
            tiny_model_fn,
            tiny_input_fn,
            steps=1500,
            params=PARAMS,
            evaluate="sidecar",
            save_checkpoints_steps=300,
            progress=False,
        )
    assert result.evaluations[-1].step == 1500
    assert result.evaluation["error"] < 0.05
    assert set(result.history) == {"worker 0", "worker 1"}


def test_nothing_is_evaluated_where_nothing_was_asked_for() -> None:
    with LocalCluster(workers=1) as cluster:
        result = cluster.train(
            tiny_model_fn, tiny_input_fn, steps=20, params=PARAMS, evaluate=None, progress=False
        )
    assert result.accuracy is None
    assert "not evaluated" in repr(result)


def test_training_goes_on_from_the_checkpoint_of_a_named_folder(tmp_path: Path) -> None:
    options: dict[str, Any] = {"params": PARAMS, "model_dir": tmp_path, "progress": False}
    with LocalCluster(workers=2) as cluster:
        cluster.train(tiny_model_fn, tiny_input_fn, steps=100, **options)
        result = cluster.train(tiny_model_fn, tiny_input_fn, steps=150, **options)
        again = cluster.train(tiny_model_fn, tiny_input_fn, steps=150, **options)
    assert result.resumed_at == {0: 100}
    assert result.steps == 150
    assert again.steps == 150


def test_two_clusters_train_at_once() -> None:
    results: list[TrainingResult] = []

    def run() -> None:
        with LocalCluster(workers=2) as cluster:
            results.append(
                cluster.train(
                    tiny_model_fn, tiny_input_fn, steps=200, params=PARAMS, progress=False
                )
            )

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [result.steps for result in results] == [200, 200]


def test_a_result_says_when_the_first_step_came() -> None:
    """The benchmarks measure how early it is."""
    with LocalCluster(workers=2) as cluster:
        result = cluster.train(model_fn, input_fn, steps=5, evaluate=None, progress=False)
    assert result.seconds_to_first_step is not None
    assert 0 < result.seconds_to_first_step <= result.seconds


def test_a_plain_script_trains_without_a_main_guard() -> None:
    script = """
        from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn
        from helpers import LocalCluster
        cluster = LocalCluster(workers=2)
        print(cluster.train(tiny_model_fn, tiny_input_fn, steps=50, params=PARAMS))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "TrainingResult(2 workers, AUTO: 50 steps in" in done.stdout
    assert "50/50" in done.stderr  # the progress bar


def test_proxy_variables_do_not_reach_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTPS_PROXY", "grpc_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with LocalCluster(workers=2) as cluster:
        result = cluster.train(
            tiny_model_fn, tiny_input_fn, steps=20, params=PARAMS, progress=False
        )
    assert result.steps == 20


def endless_input_fn(mode: str, params: Any, input_context: Any = None) -> Any:
    return tiny_input_fn(mode, params, input_context).repeat()


def empty_input_fn(mode: str, params: Any, input_context: Any = None) -> Any:
    return tiny_input_fn(mode, {"batch_size": 80}, input_context)


def tensor_input_fn(mode: str, params: Any) -> Any:
    return tf.zeros([5, 1]), tf.zeros([5, 1])


def unreadable_input_fn(mode: str, params: Any) -> Any:
    raise DataError("the file x is damaged")


def failing_input_fn(mode: str, params: Any) -> Any:
    return tiny_input_fn(mode, params).map(
        lambda x, y: (tf.debugging.assert_less(x, 0.5), x, y)[1:]
    )


@pytest.mark.parametrize(
    ("function", "options", "kind", "message"),
    [
        (endless_input_fn, {"epochs": 2}, ConfigError, "repeats forever"),
        (empty_input_fn, {}, ConfigError, "no batch for"),
        (tensor_input_fn, {}, ConfigError, "whose length TensorFlow can determine"),
        (unreadable_input_fn, {}, DataError, "the file x is damaged"),
        (failing_input_fn, {}, UserCodeError, "InvalidArgumentError"),
        (tiny_input_fn, {"epochs": 1, "steps": 1}, ConfigError, "exclude each other"),
        (tiny_input_fn, {"epochs": 0}, ConfigError, "epochs=0"),
        (tiny_input_fn, {"steps": 1.5}, ConfigError, "steps=1.5"),
        (tiny_input_fn, {"save_checkpoints_steps": 0}, ConfigError, "save_checkpoints_steps=0"),
        (tiny_input_fn, {"evaluate": "later"}, ConfigError, "evaluate='later'"),
        (tiny_input_fn, {"params": Namespace(batch_size=5)}, ConfigError, r"pass vars\(args\)"),
        (tiny_input_fn, {"params": [("batch_size", 5)]}, ConfigError, "must be a dict"),
    ],
)
def test_a_mistake_in_the_call_gets_a_sentence_and_no_restart(
    function: Any, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with LocalCluster(workers=2, max_restarts=0) as cluster, pytest.raises(kind, match=message):
        options = {"params": {"batch_size": 5}, **options}
        cluster.train(tiny_model_fn, function, progress=False, **options)
    assert not worker_pids()


def test_what_cannot_be_sent_to_a_worker_is_refused() -> None:
    lock = threading.Lock()
    with LocalCluster(workers=1) as cluster, pytest.raises(ConfigError, match="cannot be sent"):
        cluster.train(lambda features, labels, mode: lock, tiny_input_fn)


def test_nccl_without_a_gpu_says_what_to_choose() -> None:
    with pytest.raises(ConfigError, match='Choose "RING"'):
        LocalCluster(workers=2, collective="NCCL")


def test_cores_are_dealt_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert share_cores(2) == [[0, 1], [2, 3]]
    assert share_cores(3) == [[0], [1], [2]]
    assert share_cores(5) == [[0], [1], [2], [3], [0]]


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_cluster_and_its_result_read_as_sentences() -> None:
    with LocalCluster(workers=2, collective="RING") as cluster:
        assert repr(cluster) == "LocalCluster(2 workers, RING, not running)"
    result = TrainingResult(2, "RING", "/tmp/x", 0.0)
    assert repr(result).startswith("TrainingResult(2 workers, RING: 0 steps in 0.0 s")


def fit_what_cannot_be_learned(context: WorkerContext) -> None:
    """A model that cannot learn: every example has the loss 9, on every worker."""
    from helpers.keras_callbacks import StepReportCallback

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        layer = tf.keras.layers.Dense(1, input_shape=(1,), kernel_initializer="zeros")
        model = tf.keras.Sequential([layer])
        model.compile(tf.keras.optimizers.legacy.SGD(0.0), loss="mse")
    inputs = tf.ones([64, 1])
    dataset = tf.data.Dataset.from_tensor_slices((inputs, 3 * inputs)).batch(8).repeat()
    model.fit(dataset, steps_per_epoch=20, verbose=0, callbacks=[StepReportCallback(context, 8)])


def test_keras_steps_report_the_mean_loss_and_not_the_sum_over_the_workers() -> None:
    events: list[Event] = []
    with LocalCluster(workers=2) as cluster:
        cluster.run(fit_what_cannot_be_learned, on_event=events.append)
    assert {event["loss"] for event in events if event["event"] == "step"} == {9.0}


def test_a_function_is_given_the_context_only_if_it_asks_for_an_argument() -> None:
    with LocalCluster(workers=1) as cluster:
        assert cluster.run(partial(greet, name="you")) == ["hello you"]
        assert cluster.run(role) == ["worker 0"]


def greet(*, name: str) -> str:
    return f"hello {name}"


def role(context: WorkerContext) -> str:
    return str(context.config.task)


def return_one_after_the_other(context: WorkerContext) -> None:
    time.sleep(context.config.task.index)


def test_a_worker_that_is_done_stays_until_its_peers_are() -> None:
    events: list[Event] = []
    with LocalCluster(workers=2) as cluster:
        cluster.run(return_one_after_the_other, on_event=events.append)
    kinds = [event["event"] for event in events if event["event"] in ("result", "exit")]
    assert kinds == ["result", "result", "exit", "exit"]


def tuning_of_a_distributed_dataset() -> list[bool]:
    from helpers.estimator import tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    numbers = strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(8))
    [worker] = iter(numbers)._iterators
    return [
        device._dataset.options().autotune.enabled for device in worker._iterator._device_iterators
    ]


def test_no_thread_that_tunes_an_iterator_keeps_a_worker_from_dropping_it() -> None:
    with LocalCluster(workers=1) as cluster:
        assert cluster.run(tuning_of_a_distributed_dataset) == [[False]]


def test_a_workers_error_about_packages_reaches_the_reader_as_it_is() -> None:
    def ask() -> None:
        raise PackageError("tf-keras is not installed. Install it.")

    with LocalCluster(workers=1) as cluster, pytest.raises(PackageError) as raised:
        cluster.run(ask)
    assert str(raised.value) == "tf-keras is not installed. Install it."


def test_a_payload_is_read_without_a_change_to_the_process(tmp_path: Path) -> None:
    FunctionJob(os.getpid).save(path := tmp_path / "payload.pkl")
    before = os.sched_getaffinity(0)
    job = payload.read(path).unpack()
    assert job.function() == os.getpid()
    assert os.sched_getaffinity(0) == before
