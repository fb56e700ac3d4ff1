"""Training on a real Ray: of this machine alone, and of two hosts of which one is lost."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers.engines.ray.cluster import RayCluster
from helpers.errors import ClusterError, ConfigError, PackageError, StoppedError, UserCodeError
from helpers.estimator import tf
from helpers.messages.events import Event
from helpers.results.training_result import TrainingResult
from helpers.worker.context import WorkerContext
from helpers.worker.program import Worker
from tests.support import ROOT
from tests.support.faults import needs_keras_3
from tests.support.functions import PARAMS, keras_fit, tiny_input_fn, tiny_model_fn
from tests.support.processes import is_running, wait_until
from tests.support.two_hosts import TwoHosts, why_not

SAVE = 200
START = 300.0  # seconds, on a machine with other work
PORT = 6379
# Ray hears of a lost worker, or first from its peer, which has lost the connection.
LOSS = r"worker [01] (was lost|raised \w+) at step \d+: "


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """One Ray for the tests of one machine: it takes seconds to start."""
    with RayCluster(workers=2, start_timeout=START) as cluster:
        yield cluster
        started = descendants()
    assert wait_until(lambda: not any(map(is_running, started)), 20)
    assert any("raylet" in name for name in started.values()), "or the line above saw nothing"


def descendants() -> dict[int, str]:
    """The names of all processes below this one."""
    names = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            names[process.pid] = process.name()
    return names


class Diary:
    """Notes the events of a run, and does a deed once, at a step of the first attempt."""

    def __init__(self, deed: Callable[[], Any] = lambda: None, at: int = 500) -> None:
        self.events: list[Event] = []
        self.pids: dict[str, int] = {}
        self._deed, self._at, self._done = deed, at, False

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if event["event"] == "started":
            self.pids[event["task"]] = event["pid"]
        if event["event"] == "step" and event["step"] >= self._at and not self._done:
            self._done = True
            self._deed()

    @property
    def kinds(self) -> set[str]:
        return {event["event"] for event in self.events}


def train(
    cluster: RayCluster, steps: int, on_event: Callable[[Event], None], **options: Any
) -> TrainingResult:
    given: dict[str, Any] = {"model_fn": tiny_model_fn, "save_checkpoints_steps": SAVE}
    given |= {"input_fn": tiny_input_fn, "params": PARAMS, "progress": False}
    return cluster.train(steps=steps, on_event=on_event, **given | options)


def assert_lost_only_what_was_not_saved(result: TrainingResult, steps: int) -> None:
    """Attempt 1 began at the last checkpoint of attempt 0, and went on to the last step."""
    reached = max(p.step for points in result.history.values() for p in points if p.attempt == 0)
    resumed = result.resumed_at[1]
    assert resumed in result.checkpoints
    assert 0 < resumed <= reached <= resumed + SAVE
    assert result.steps == steps
    for points in result.history.values():
        again = [p.step for p in points if p.attempt == 1]
        assert again[0] == resumed + 1
        assert again[-1] == steps


@pytest.mark.ray
def test_two_workers_train_on_ray_and_report_as_those_of_a_local_cluster(
    cluster: RayCluster, tmp_path: Path
) -> None:
    diary = Diary()
    result = train(cluster, 300, diary, model_dir=tmp_path)
    assert {"started", "plan", "ready", "step", "checkpoint", "evaluation"} <= diary.kinds
    assert result.steps == result.total_steps == 300
    assert all(points[-1].step == 300 for points in result.history.values())
    assert set(result.history) == {"worker 0", "worker 1"}
    assert result.evaluation["error"] < 0.05
    assert result.checkpoints[-1] == 300
    assert (tmp_path / "checkpoint").exists()
    assert not result.restarts
    again = train(cluster, 350, diary, model_dir=tmp_path, evaluate=None)
    assert again.resumed_at == {0: 300}


@pytest.mark.ray
def test_a_killed_worker_is_started_again_from_the_checkpoint(cluster: RayCluster) -> None:
    diary = Diary(lambda: os.kill(diary.pids["worker 1"], signal.SIGKILL))
    result = train(cluster, 3000, diary)
    [reason] = result.restarts
    assert re.match(LOSS, reason)
    assert_lost_only_what_was_not_saved(result, 3000)
    assert result.evaluation["error"] < 0.05


def lying_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """Sends lines that are no events, from a worker, before it trains."""
    [worker] = [found for found in gc.get_objects() if isinstance(found, Worker)]
    worker.report("step", step="many", loss=None)
    worker.report("invented", secret=1)
    worker.report("failure", lost=[0], raised=[])
    return tiny_model_fn(features, labels, mode, params)


@pytest.mark.ray
def test_what_a_worker_sends_that_is_no_event_is_dropped(cluster: RayCluster) -> None:
    diary = Diary()
    result = train(cluster, 50, diary, model_fn=lying_model_fn, evaluate=None)
    assert result.steps == 50
    assert not result.restarts
    assert "invented" not in diary.kinds
    assert all(type(e["step"]) is int for e in diary.events if e["event"] == "step")
    started = [event for event in diary.events if event["event"] == "started"]
    assert all(event["host"].count(".") == 3 for event in started)


def telling_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """Fails with a sentence on how TensorFlow was prepared in this process."""
    from helpers.worker import tensorflow_patches

    iterators = importlib.import_module("tensorflow.python.data.ops.multi_device_iterator_ops")
    untuned = tensorflow_patches.__name__ in iterators._create_device_dataset.__module__
    filtered = tf.debugging.is_traceback_filtering_enabled()
    raise ValueError(f"filtered={filtered}, untuned={untuned}")


@pytest.mark.ray
def test_a_worker_of_ray_is_prepared_as_any_other(cluster: RayCluster) -> None:
    diary = Diary()
    with pytest.raises(UserCodeError, match="filtered=False, untuned=True"):
        train(cluster, 5, diary, model_fn=telling_model_fn)
    assert {"connecting", "connected"} <= diary.kinds


def broken_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    raise ValueError("the reader's mistake")


@pytest.mark.ray
def test_an_exception_of_the_readers_function_is_shown_once_and_nothing_is_restarted(
    cluster: RayCluster,
) -> None:
    diary = Diary()
    with pytest.raises(UserCodeError) as caught:
        train(cluster, 5, diary, model_fn=broken_model_fn)
    assert str(caught.value).count("ValueError: the reader's mistake") == 1
    assert "in broken_model_fn" in caught.value.traceback
    assert "restart" not in diary.kinds
    assert [event["attempt"] for event in diary.events if event["event"] == "started"] == [0, 0]
    assert wait_until(lambda: not any(map(is_running, diary.pids.values())), 20)


@pytest.mark.ray
def test_stop_ends_the_workers_of_a_training(cluster: RayCluster) -> None:
    diary = Diary(lambda: threading.Thread(target=cluster.stop).start(), at=100)
    with pytest.raises(StoppedError):
        train(cluster, 1_000_000, diary)
    assert len(diary.pids) == 2
    assert wait_until(lambda: not any(map(is_running, diary.pids.values())), 20)
    assert "idle" in repr(cluster)


@pytest.mark.ray
def test_a_ray_without_room_is_named(cluster: RayCluster) -> None:
    import ray

    if not ray.is_initialized():
        train(cluster, 1, Diary())
    crowd = RayCluster(workers=64, start_timeout=5)
    with pytest.raises(ClusterError, match="Ray did not start 64 workers within 5 s"):
        train(crowd, 1, Diary())


@pytest.mark.ray
def test_what_ray_cannot_do_is_refused_in_a_sentence(cluster: RayCluster) -> None:
    with pytest.raises(ConfigError, match='no evaluate="beside"'):
        train(cluster, 1, Diary(), evaluate="beside")
    with pytest.raises(ConfigError, match="workers=0"):
        RayCluster(workers=0)
    with pytest.raises(ConfigError, match=r"No Ray answers at address='127\.0\.0\.1:9'"):
        train(RayCluster(address="127.0.0.1:9"), 1, Diary())
    assert repr(cluster) == "RayCluster(2 workers, AUTO, this machine, idle)"


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_error_says_how_to_install_it() -> None:
    with pytest.raises(PackageError, match=r'pip install "multiworker-lessons\[ray\]"'):
        RayCluster(workers=2)


@pytest.mark.ray
def test_a_lost_host_is_done_without_and_only_what_was_not_saved_is_trained_again(
    tmp_path: Path,
) -> None:
    steps = 4000
    with two_raylets() as (hosts, address, environment):
        code = "import sys; from tests.engines.test_ray import drive; drive(*sys.argv[1:])"
        driver = hosts.run(
            0,
            [sys.executable, "-c", code, address, str(tmp_path), str(steps)],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        placed: dict[int, list[int]] = {0: [], 1: []}  # on which hosts, in each attempt
        result = TrainingResult(2, "AUTO", str(tmp_path), time.time())
        for event in events_of(driver):
            result.add(event)
            if event["event"] == "started":
                placed[event["attempt"]] += [h for h in (0, 1) if event["pid"] in hosts.pids(h)]
            if event["event"] == "step" and event["step"] >= 500:
                hosts.kill(1)
        assert driver.wait(30) == 0
        assert not hosts.pids(1)
    assert sorted(placed[0]) == [0, 1]
    assert placed[1] == [0, 0]
    assert_lost_only_what_was_not_saved(result, steps)
    assert result.evaluation["error"] < 0.05
    [reason] = result.restarts
    assert re.match(LOSS, reason)


def events_of(driver: subprocess.Popen[str]) -> Iterator[Event]:
    """What `drive` prints; Ray prints too."""
    assert driver.stdout
    for line in driver.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def place_and_keras(context: WorkerContext) -> list[Any]:
    """Who a worker is, and where its Keras comes from."""
    return [context.config.task.index, tf.keras.Model.__module__.partition(".")[0]]


@pytest.mark.ray
def test_a_function_is_called_in_every_worker(cluster: RayCluster) -> None:
    kinds = []
    answers = cluster.run(place_and_keras, on_event=lambda event: kinds.append(event["event"]))
    package = tf.keras.Model.__module__.partition(".")[0]
    assert answers == [[0, package], [1, package]]
    assert {"started", "ready", "result"} <= set(kinds)
    with pytest.raises(UserCodeError, match="ZeroDivisionError"):
        cluster.run(lambda: 1 // 0)


@pytest.mark.ray
@needs_keras_3
def test_keras_3_trains_on_ray(cluster: RayCluster, tmp_path: Path) -> None:
    fit = functools.partial(keras_fit, backup_dir=str(tmp_path), steps=100, backup_every=50)
    answers = cluster.run(functools.partial(fit, own=True), keras=3)
    assert [answer["step"] for answer in answers] == [100, 100]
    assert answers[0]["weight"] == answers[1]["weight"] == pytest.approx(2, abs=0.2)
    assert [found[1] for found in cluster.run(place_and_keras, keras=3)] == ["keras", "keras"]


def drive(address: str, storage: str, steps: str) -> None:
    """What the notebook on host 0 does; prints each event, one JSON a line."""
    wait_for_two_hosts(address)
    place: dict[str, Any] = {"address": address, "storage_path": storage}
    with RayCluster(workers=2, start_timeout=START, **place) as cluster:
        train(cluster, int(steps), lambda event: print(json.dumps(event), flush=True))


def wait_for_two_hosts(address: str) -> None:
    import ray

    ray.init(address, log_to_driver=False)
    assert wait_until(lambda: len([n for n in ray.nodes() if n["Alive"]]) == 2, 60)
    ray.shutdown()


@contextmanager
def two_raylets() -> Iterator[tuple[TwoHosts, str, dict[str, str]]]:
    """Two hosts with a raylet each: gives them, Ray's address and the environment of programs."""
    if reason := why_not():
        pytest.skip(reason)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    others = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environment = {**others, **token, "RAY_USAGE_STATS_ENABLED": "0"}
    # Not tmp_path: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder, TwoHosts() as hosts:
        address = f"{hosts.address(0)}:{PORT}"
        head = ["--head", "--port", str(PORT), "--include-dashboard", "false"]
        for host, role in enumerate((head, ["--address", address])):
            raylet = [sys.executable, "-m", "ray.scripts.scripts", "start", *role, "--block"]
            raylet += ["--node-ip-address", hosts.address(host), "--num-cpus", "2"]
            raylet += ["--object-store-memory", "100000000", "--temp-dir", f"{folder}/{host}"]
            hosts.run(host, raylet, env=environment, stdout=subprocess.DEVNULL)
            if host == 0:
                assert wait_until(lambda: can_connect(hosts), 60)
        yield hosts, address, environment


def can_connect(hosts: TwoHosts) -> bool:
    """Whether host 0 listens for the raylets of other hosts."""
    code = f"import socket; socket.create_connection(({hosts.address(0)!r}, {PORT})).close()"
    return hosts.run(0, [sys.executable, "-c", code], stderr=subprocess.DEVNULL).wait() == 0
