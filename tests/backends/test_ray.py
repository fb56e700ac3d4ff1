"""Training on a real Ray: on this machine alone, and on two hosts, one of which is lost."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from helpers.backends.ray.cluster import RayCluster
from helpers.cluster.processes import MAX_LOG_BYTES
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks
from helpers.errors import ClusterError, ConfigError, PackageError, StoppedError, UserCodeError
from helpers.estimator import tf
from helpers.protocol.events import Event, EventWriter
from helpers.protocol.job import Job
from helpers.results.training_result import TrainingResult
from helpers.worker.context import WorkerContext
from helpers.worker.main import Worker
from tests.cluster.test_descendants import CHILDREN, pids, start_children
from tests.cluster.test_faults_functions import assert_shown_once, raise_mute
from tests.cluster.test_hangs import assert_at_its_line, is_at_its_line, wait_for_lock
from tests.cluster.test_user_function_side_effects import (
    be_deaf,
    change_surroundings,
    fork,
    register,
    start_thread,
    use_multiprocessing,
)
from tests.support import ROOT
from tests.support.faults import needs_keras_3
from tests.support.functions import PARAMS, keras_fit, tiny_input_fn, tiny_model_fn
from tests.support.processes import FORK_SERVER, WORKER, command_of, is_running, wait_until
from tests.support.two_hosts import TwoHosts, why_not

SAVE = 200
START = 300.0  # seconds, on a busy machine
PORT = 6379
# Ray reports a lost worker, or its peer reports the lost connection first.
LOSS = r"worker [01] (was lost|raised \w+) at step \d+: "
KILLED = r"worker 1 ended with signal 9 \(SIGKILL\) at step \d+"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """One Ray for the tests on one machine, because it needs seconds to start."""
    importlib.import_module("ray")  # as a notebook may, long before it needs Ray
    with RayCluster(workers=2, start_timeout=START) as cluster:
        yield cluster
        started = descendants()
    assert wait_until(lambda: not any(map(is_running, started)), 20)
    assert any("raylet" in name for name in started.values()), "or the line above saw nothing"


@pytest.fixture
def alone(cluster: RayCluster) -> Iterator[RayCluster]:
    """A group of one worker, on the same Ray."""
    start(cluster)
    with RayCluster(workers=1, max_restarts=0, start_timeout=START) as alone:
        yield alone
    assert wait_until(lambda: not programs(), 20), "a worker, or what it is forked from, is left"


def start(cluster: RayCluster) -> None:
    """Starts the Ray of a cluster, unless it has been started."""
    import ray

    if not ray.is_initialized():
        cluster._connect()


def do_nothing() -> None:
    """Returns immediately."""


def programs(pid: int | None = None) -> list[int]:
    """The workers and their fork servers among the descendants of this process, or of another."""
    found = psutil.Process(pid).children(recursive=True)
    return [one.pid for one in found if {FORK_SERVER, WORKER} & {*command_of(one)}]


def descendants() -> dict[int, str]:
    """The names of all descendants of this process."""
    names = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended in the meantime
            names[process.pid] = process.name()
    return names


class Diary:
    """Records the events of a run, and calls a function once, at a step of the first attempt."""

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
    """Attempt 1 began at the last checkpoint of attempt 0, and continued to the last step."""
    reached = max(p.step for points in result.history.values() for p in points if p.attempt == 0)
    resumed = result.resumed_at[1]
    assert resumed in result.checkpoints
    assert 0 < resumed <= reached <= resumed + SAVE
    assert result.steps == steps
    for points in result.history.values():
        again = [p.step for p in points if p.attempt == 1]
        assert again[0] == resumed + 1
        assert again[-1] == steps


@pytest.mark.smoke
@pytest.mark.ray
def test_two_workers_train_on_ray_and_report_as_those_of_a_local_cluster(
    cluster: RayCluster, tmp_path: Path
) -> None:
    diary = Diary()
    result = train(cluster, 300, diary, model_dir=tmp_path)
    assert {"started", "run_info", "ready", "step", "checkpoint", "evaluation"} <= diary.kinds
    assert result.steps == result.total_steps == 300
    assert all(points[-1].step == 300 for points in result.history.values())
    assert set(result.history) == {"worker 0", "worker 1"}
    assert result.evaluation["error"] < 0.05
    assert result.checkpoints[-1] == 300
    assert (tmp_path / "checkpoint").exists()
    assert not result.restarts
    again = train(cluster, 350, diary, model_dir=tmp_path, evaluate=None)
    assert again.resumed_at == {0: 300}


@pytest.mark.smoke
@pytest.mark.ray
def test_a_killed_worker_is_started_again_from_the_checkpoint(cluster: RayCluster) -> None:
    diary = Diary(lambda: os.kill(diary.pids["worker 1"], signal.SIGKILL))
    result = train(cluster, 3000, diary)
    [reason] = result.restarts
    assert re.match(KILLED, reason)
    assert_lost_only_what_was_not_saved(result, 3000)
    assert result.evaluation["error"] < 0.05


LIES = (
    b"no JSON",
    b"\x00\xff\x80",
    b"[" * 100_000,
    b'{"event": "step"}',
    b'{"event": "attempt_failed", "time": 1.0, "attempt": 0, "lost": [0], "raised": []}',
    b'{"event": "group_restart", "time": 1.0, "reason": "none"}',
    b'{"event": "exit", "time": 1.0, "code": 0}',
    b'{"event": "heartbeat", "time": 1.0, "task": "worker 7", "attempt": 7}',
    b'{"event": "warning", "time": 1.0, "message": "noted", "task": "worker 7", "attempt": 7}',
)


def lying_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """Sends lines that are not events, and one that names another sender, before it trains."""
    [worker] = [found for found in gc.get_objects() if isinstance(found, Worker)]
    worker.report("step", step="many", loss=None)
    worker.report("invented", secret=1)
    worker.report("attempt_failed", lost=[0], raised=[])
    writer = worker.report
    assert isinstance(writer, EventWriter) and writer._fd is not None
    with writer._lock:
        os.write(writer._fd, b"".join(lie + b"\n" for lie in LIES))
    return tiny_model_fn(features, labels, mode, params)


@pytest.mark.smoke
@pytest.mark.ray
def test_what_a_worker_sends_that_is_no_event_is_dropped(cluster: RayCluster) -> None:
    diary = Diary()
    result = train(cluster, 50, diary, model_fn=lying_model_fn, evaluate=None)
    assert result.steps == 50
    assert not result.restarts
    assert "noted" in result.warnings
    assert not {"invented", "attempt_failed", "group_restart"} & diary.kinds
    assert all(type(e["step"]) is int for e in diary.events if e["event"] == "step")
    assert {(e["task"], e["attempt"]) for e in diary.events} == {("worker 0", 0), ("worker 1", 0)}
    started = [event for event in diary.events if event["event"] == "started"]
    assert all(event["host"].count(".") == 3 for event in started)


def telling_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """Raises an error that describes how TensorFlow was prepared in this process."""
    from helpers.worker import tensorflow_patches

    iterators = importlib.import_module("tensorflow.python.data.ops.multi_device_iterator_ops")
    untuned = tensorflow_patches.__name__ in iterators._create_device_dataset.__module__
    filtered = tf.debugging.is_traceback_filtering_enabled()
    raise ValueError(f"filtered={filtered}, untuned={untuned}")


@pytest.mark.ray
def test_an_exception_of_the_readers_function_is_shown_once_and_nothing_is_restarted(
    cluster: RayCluster,
) -> None:
    diary = Diary()
    with pytest.raises(UserCodeError) as caught:
        train(cluster, 5, diary, model_fn=telling_model_fn)
    assert str(caught.value).count("ValueError: filtered=False, untuned=True") == 1
    assert "in telling_model_fn" in caught.value.traceback
    assert {"connecting", "connected", "error"} <= diary.kinds
    assert "group_restart" not in diary.kinds
    assert [event["attempt"] for event in diary.events if event["event"] == "started"] == [0, 0]
    assert wait_until(lambda: not any(map(is_running, diary.pids.values())), 20)


@pytest.mark.ray
def test_stop_ends_the_workers_of_a_training(cluster: RayCluster) -> None:
    diary = Diary(lambda: threading.Thread(target=cluster.stop).start(), at=100)
    with pytest.raises(StoppedError):
        train(cluster, 1_000_000, diary)
    assert len(diary.pids) == 2
    assert wait_until(lambda: not any(map(is_running, diary.pids.values())), 20)
    assert "not running" in repr(cluster)


@pytest.mark.ray
def test_a_ray_without_room_is_named(cluster: RayCluster) -> None:
    start(cluster)
    crowd = RayCluster(workers=64, start_timeout=5)
    with pytest.raises(ClusterError, match="Ray did not start 64 workers within 5 s"):
        train(crowd, 1, Diary())


@pytest.mark.ray
def test_what_ray_cannot_do_is_refused_in_a_sentence(cluster: RayCluster) -> None:
    with pytest.raises(ConfigError, match='not support evaluate="sidecar"'):
        train(cluster, 1, Diary(), evaluate="sidecar")
    with pytest.raises(ConfigError, match="workers=0"):
        RayCluster(workers=0)
    with pytest.raises(ConfigError, match=r"No Ray cluster responds at address='127\.0\.0\.1:9'"):
        train(RayCluster(address="127.0.0.1:9"), 1, Diary())
    assert repr(cluster) == "RayCluster(2 workers, AUTO, this machine, not running)"


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_error_says_how_to_install_it() -> None:
    with pytest.raises(PackageError, match=r'pip install "ray\[train\]=='):
        RayCluster(workers=2)


@pytest.mark.ray
def test_a_lost_host_is_done_without_and_only_what_was_not_saved_is_trained_again(
    tmp_path: Path,
) -> None:
    steps = 4000
    with two_raylets() as raylets:
        driver = raylets.drive(f"{__name__}.{drive.__name__}", tmp_path, steps)
        placed: dict[int, list[int | None]] = {0: [], 1: []}  # the hosts of each attempt
        result = TrainingResult(2, "AUTO", str(tmp_path), time.time())
        for event in events_of(driver):
            result.add(event)
            if event["event"] == "started":
                placed[event["attempt"]].append(raylets.host_of(event["pid"]))
            if event["event"] == "step" and event["step"] >= 500:
                raylets.hosts.kill(1)
        assert driver.wait(30) == 0
        assert not raylets.hosts.pids(1)
    assert {*placed[0]} == {0, 1}
    assert placed[1] == [0, 0]
    assert_lost_only_what_was_not_saved(result, steps)
    assert result.evaluation["error"] < 0.05
    [reason] = result.restarts
    assert re.match(LOSS, reason)


def events_of(driver: subprocess.Popen[str]) -> Iterator[Event]:
    """Yields the events that `drive` prints, because Ray prints too."""
    assert driver.stdout
    for line in driver.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def place_and_keras(context: WorkerContext) -> list[Any]:
    """The index of a worker, and the package of its Keras."""
    return [context.config.task.index, tf.keras.Model.__module__.partition(".")[0]]


@pytest.mark.ray
@needs_keras_3
def test_keras_3_trains_on_ray(cluster: RayCluster, tmp_path: Path) -> None:
    answers = cluster.run(functools.partial(fit_and_tell, backup_dir=str(tmp_path)), keras=3)
    assert [answer["step"] for answer in answers] == [100, 100]
    assert answers[0]["weight"] == answers[1]["weight"] == pytest.approx(2, abs=0.2)
    assert [answer["place"] for answer in answers] == [[0, "keras"], [1, "keras"]]


def fit_and_tell(context: WorkerContext, backup_dir: str) -> dict[str, Any]:
    fit = functools.partial(keras_fit, backup_dir=backup_dir, steps=100, backup_every=50)
    return {**fit(context, own=True), "place": place_and_keras(context)}


def interrupt_with_a_lock() -> None:
    raise KeyboardInterrupt("holds what cannot be pickled", threading.Lock())


def leave_with_a_book() -> None:
    sys.exit("word " * 1_000_000)


@pytest.mark.smoke
@pytest.mark.ray
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (leave_with_a_book, ["worker 0 raised SystemExit", "(… 4950000 more characters)"]),
        (interrupt_with_a_lock, ["worker 0 raised KeyboardInterrupt", "cannot be pickled"]),
        (raise_mute, ["worker 0 raised Mute", "converting it to text raised RuntimeError"]),
    ],
)
def test_on_ray_too_what_a_function_raises_is_its_own_and_restarts_nothing(
    alone: RayCluster, function: Callable[[], None], said: list[str]
) -> None:
    diary = Diary()
    with pytest.raises(UserCodeError) as caught:
        alone.run(function, on_event=diary)
    assert_shown_once(caught.value, f"in {function.__name__}\n", diary.events)
    assert all(part in str(caught.value) for part in said)


@pytest.mark.ray
@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("exits", r"worker 0 exited with code 0 .* Does something in it call os\._exit"),
        ("is killed", r"worker 0 ended with signal 9 \(SIGKILL\) at step 0;(.|\n)*listening on"),
        ("runs on", "worker 0 has made no progress for 6 s since step 0"),
    ],
)
def test_nothing_that_a_function_started_outlives_its_worker_on_ray(
    alone: RayCluster, end: str, said: str, tmp_path: Path
) -> None:
    function = functools.partial(start_children, str(tmp_path), end)
    with pytest.raises(ClusterError, match=said) as caught:
        alone.run(function, timeout=6)
    assert "site-packages" not in str(caught.value)
    found = pids(tmp_path)
    assert len(found) == len(CHILDREN)
    assert wait_until(lambda: not any(map(is_running, found)), 10)


@pytest.mark.ray
def test_nothing_on_ray_outlives_a_notebook_that_is_killed(tmp_path: Path) -> None:
    code = "import sys; from tests.backends.test_ray import notebook; notebook(sys.argv[1])"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    try:
        assert wait_until(lambda: len(list(tmp_path.iterdir())) == len(CHILDREN), START)
        assert wait_until(lambda: all(file.read_text() for file in tmp_path.iterdir()), 10)
        found = [*programs(process.pid), *pids(tmp_path)]
    finally:
        process.kill()
        process.wait()
    assert len(found) > len(CHILDREN) + 1
    assert wait_until(lambda: not any(map(is_running, found)), 30)


def notebook(folder: str) -> None:
    """Runs, on its second Ray, a function that starts children and continues to run."""
    with RayCluster(workers=1) as first:
        first._connect()
    with RayCluster(workers=1, start_timeout=START) as cluster:
        cluster.run(functools.partial(start_children, folder, "runs on"))


def harmed_twice(context: WorkerContext, folder: str) -> int:
    """Ends worker 1 the first time, and freezes it the second."""
    harms = (
        functools.partial(os._exit, 3),
        functools.partial(os.kill, os.getpid(), signal.SIGSTOP),
    )
    if context.config.task.index == 1:
        attempt = len(list(Path(folder).iterdir()))
        (Path(folder) / str(attempt)).touch()
        if attempt < len(harms):
            harms[attempt]()
    return context.config.task.index


@pytest.mark.ray
def test_a_fault_of_a_function_on_ray_restarts_all_workers(
    cluster: RayCluster, tmp_path: Path
) -> None:
    start(cluster)
    diary = Diary()
    with RayCluster(workers=2, start_timeout=START, step_timeout=4) as pair:
        answers = pair.run(functools.partial(harmed_twice, folder=str(tmp_path)), on_event=diary)
    assert answers == [0, 1]
    reasons = [event["reason"] for event in diary.events if event["event"] == "group_restart"]
    assert len(reasons) == 2
    assert reasons[0] == "worker 1 ended with exit code 3 at step 0"
    assert reasons[1].startswith("worker 1 has not responded for 4 s, at step 0: it is stopped")


@pytest.mark.ray
def test_stacks_on_ray_show_the_line_of_each_worker_and_outlast_the_kill(
    cluster: RayCluster,
) -> None:
    start(cluster)
    from helpers.backends.ray.monitor import ANSWER_TIMEOUT

    looks: list[tuple[float, Stacks]] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.2):
            begin = time.monotonic()
            stacks = pair.stacks()
            looks.append((time.monotonic() - begin, stacks))

    with RayCluster(workers=2, max_restarts=0, start_timeout=START) as pair:
        assert repr(pair.stacks()) == "No task is running."
        thread = threading.Thread(target=look)
        thread.start()
        with pytest.raises(ClusterError, match="made no progress for 10 s") as caught:
            pair.run(wait_for_lock, timeout=10)
        ended.set()
        thread.join()
        stacks = pair.stacks()
    print([round(seconds, 2) for seconds, _stacks in looks], caught.value)
    assert_at_its_line(stacks, "worker 0", WaitsFor.SLEEP)
    assert_at_its_line(stacks, "worker 1", WaitsFor.LOCK)
    assert "worker 1 waits for a lock (test_hangs.py:" in str(caught.value)
    seen = [stacks for _seconds, stacks in looks]
    assert any(one and one["worker 1"].waits_for == WaitsFor.START for one in seen)
    assert any(one and is_at_its_line(one["worker 1"], WaitsFor.LOCK) for one in seen)
    assert max(seconds for seconds, _stacks in looks) < ANSWER_TIMEOUT + 2


@pytest.mark.ray
def test_stacks_of_a_group_on_ray_that_is_restarted_are_in_the_result(cluster: RayCluster) -> None:
    start(cluster)
    diary = Diary(lambda: os.kill(diary.pids["worker 1"], signal.SIGSTOP))
    with RayCluster(workers=2, start_timeout=START, step_timeout=8) as pair:
        result = train(pair, 2000, diary)
    [reason] = result.restarts
    assert re.match("worker (1 has not responded|0 and its peers have made no progress)", reason)
    assert "worker 0 waits in a collective" in reason
    assert "worker 1 is frozen (SIGSTOP)" in reason
    stacks = result.stacks[0]
    assert stacks["worker 1"].waits_for == WaitsFor.CONTINUE
    assert stacks["worker 0"].waits_for == WaitsFor.COLLECTIVE
    assert "Stacks before restart 1" in result.stacks_html()


def freeze_worker_1(context: WorkerContext) -> None:
    if context.config.task.index == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


@pytest.mark.ray
def test_a_supervisor_on_ray_collects_the_stacks_of_the_peers_of_a_frozen_worker(
    cluster: RayCluster,
) -> None:
    start(cluster)
    with RayCluster(workers=2, max_restarts=0, start_timeout=START, step_timeout=5) as pair:
        with pytest.raises(ClusterError) as caught:
            pair.run(freeze_worker_1)
        stacks = pair.stacks()
    message = str(caught.value)
    assert message.startswith("worker 1 has not responded for 5 s")
    assert "; worker 0 sleeps (test_ray.py:" in message
    assert message.count("worker 1 is frozen (SIGSTOP)") == 1
    assert [*stacks] == ["worker 0", "worker 1"]


@dataclass
class Measured:
    """What a function returns."""

    array: np.ndarray[Any, Any]
    frame: Any
    losses: Any


def measure() -> tuple[Measured, set[str]]:
    pandas = importlib.import_module("pandas")
    frame = pandas.DataFrame({"loss": [0.5, 0.25], "name": ["a", "b"]}, index=[10, 20])
    return Measured(np.array([[1, 2]], np.float32), frame, frame["loss"]), {"a"}


@pytest.mark.ray
def test_a_result_of_any_type_arrives_from_ray_and_one_that_cannot_be_sent_is_rejected(
    alone: RayCluster,
) -> None:
    [(measured, names)] = alone.run(measure)
    assert type(measured) is Measured
    assert (measured.array.dtype, measured.array.tolist()) == (np.float32, [[1, 2]])
    assert measured.frame.loc[20].to_dict() == {"loss": 0.25, "name": "b"}
    assert measured.losses.equals(measured.frame["loss"])
    assert names == {"a"}
    with pytest.raises(ConfigError, match="cannot be sent to the notebook: cannot pickle"):
        alone.run(threading.Lock)


def stop_at_a_breakpoint() -> float:
    loss = 0.5
    breakpoint()
    return loss


@pytest.mark.ray
def test_a_breakpoint_on_ray_continues_with_a_warning_about_its_line(alone: RayCluster) -> None:
    diary = Diary()
    place = r"\(test_ray.py:\d+, in stop_at_a_breakpoint\)"
    with pytest.warns(UserWarning, match=f"worker 0 did not stop at a breakpoint {place}") as seen:
        assert alone.run(stop_at_a_breakpoint, on_event=diary) == [0.5]
    assert len([one for one in seen if "breakpoint" in str(one.message)]) == 1
    assert "debugger_continued" in diary.kinds
    assert "debugger_stopped" not in diary.kinds, "it would pause all timeouts"


@pytest.mark.ray
def test_a_machine_that_does_not_reach_the_folder_of_a_run_says_so(
    alone: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Job, "save", lambda job, path: None)  # as if it were on another machine
    with pytest.raises(ConfigError, match=r"The payload .* cannot be read"):
        alone.run(do_nothing)


def flood() -> list[Any]:
    """Prints 30 MB, and returns 57."""
    print("the first line")
    for _time in range(300):
        print("x" * 100_000, flush=True)
        time.sleep(0.005)  # a disk does not accept more
    print("the last line", flush=True)
    return [list(range(1_000_000)), "x" * 50_000_000]


@pytest.mark.ray
def test_a_flood_of_prints_on_ray_is_cut_and_a_large_result_arrives_whole(
    cluster: RayCluster, tmp_path: Path
) -> None:
    start(cluster)
    with RayCluster(workers=2, start_timeout=START, storage_path=tmp_path) as pair:
        answers = pair.run(flood)
    assert [len(text) for _numbers, text in answers] == [50_000_000] * 2
    assert all(numbers == list(range(1_000_000)) for numbers, _text in answers)
    logs = list(tmp_path.glob("run-*/attempt-0/worker-?.log"))
    assert len(logs) == 2
    for log in logs:
        text = log.read_text()
        assert "the first line" in text and text.splitlines()[-1] == "the last line"
        assert "omitted here" in text
        assert len(text) < 2 * MAX_LOG_BYTES


def be_careless(context: WorkerContext, folder: str) -> list[Any]:
    """Changes and leaves behind as much as possible, and returns twice."""
    register(Path(folder) / "atexit")
    told = [place_and_keras(context), *map(use_multiprocessing, ("fork", "spawn"))]
    told.append(change_surroundings())
    start_thread()
    be_deaf()
    start_children(folder, "returns")
    return [*told, fork()]


@pytest.mark.ray
def test_what_a_function_changes_or_leaves_behind_on_ray_the_next_run_does_not_see(
    cluster: RayCluster, tmp_path: Path
) -> None:
    keras = tf.keras.Model.__module__.partition(".")[0]
    surroundings = [os.getcwd(), None]
    for run in range(2):
        diary, folder = Diary(), tmp_path / str(run)
        folder.mkdir()
        answers = cluster.run(functools.partial(be_careless, folder=str(folder)), on_event=diary)
        for index, answer in enumerate(answers):
            assert answer == [[index, keras], [1, 2], [1, 2], surroundings, "done"]
        assert [event["event"] for event in diary.events].count("result") == 2
        assert not (folder / "atexit").exists(), "it is not called"
        assert len(pids(folder)) == 2 * len(CHILDREN)
    assert wait_until(lambda: not programs(), 20)
    found = [pid for folder in tmp_path.iterdir() for pid in pids(folder)]
    assert wait_until(lambda: not any(map(is_running, found)), 10)
    assert "CHANGED" not in os.environ


@pytest.mark.ray
@pytest.mark.parametrize(
    "choice",
    [
        {"max_restarts": -1},
        {"step_timeout": 0},
        {"start_timeout": -5},
        {"start_timeout": float("nan")},
        {"workers": 1.5},
        {"collective": "FAST"},
    ],
    ids=str,
)
def test_a_choice_that_cannot_work_on_ray_is_refused_at_once(choice: dict[str, Any]) -> None:
    [(name, value)] = choice.items()
    with pytest.raises(ConfigError, match=f"{name}={value!r}"):
        RayCluster(**choice)


@pytest.mark.ray
def test_more_workers_than_the_memory_holds_start_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match="workers=1000000 do not fit into the free memory"):
        RayCluster(workers=1_000_000).run(do_nothing)


def drive(address: str, storage: str, steps: str) -> None:
    """The notebook on host 0. It prints each event, one JSON object per line."""
    wait_for_two_hosts(address)
    place: dict[str, Any] = {"address": address, "storage_path": storage}
    with RayCluster(workers=2, start_timeout=START, **place) as cluster:
        train(cluster, int(steps), lambda event: print(json.dumps(event), flush=True))


def wait_for_two_hosts(address: str) -> None:
    import ray

    ray.init(address, log_to_driver=False)
    assert wait_until(lambda: len([n for n in ray.nodes() if n["Alive"]]) == 2, 60)
    ray.shutdown()


# The program `ray` abandons a node that needs more than 30 s to register, as on a busy machine.
RAY_PROGRAM = """
import time
from ray._private import services
from ray.scripts import scripts

def wait_for_node(*arguments, get_node=services.get_node):
    end = time.monotonic() + 60
    while True:
        try:
            return get_node(*arguments)
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)

services.get_node = wait_for_node
scripts.main()
"""


@dataclass(frozen=True)
class Raylets:
    """Two hosts with a raylet each.

    Attributes:
      address: of Ray.
      environment: of the programs on the hosts.
      folder: for Ray's files.
    """

    hosts: TwoHosts
    address: str
    environment: dict[str, str]
    folder: str

    def start(self, host: int) -> None:
        """Starts the raylet of a host, in several attempts."""
        head = ["--head", "--port", str(PORT), "--include-dashboard", "false"]
        role = ["--address", self.address] if host else head
        raylet = [sys.executable, "-c", RAY_PROGRAM, "start", *role, "--block"]
        raylet += ["--node-ip-address", self.hosts.address(host), "--num-cpus", "2"]
        raylet += ["--object-store-memory", "100000000", "--temp-dir", f"{self.folder}/{host}"]
        options = {"env": self.environment, "cwd": ROOT, "stdout": subprocess.PIPE, "text": True}
        assert any(has_started(self.hosts.run(host, raylet, **options)) for _time in range(3))

    def drive(self, function: str, *arguments: object) -> subprocess.Popen[str]:
        """Starts a function of a test module, the notebook, on host 0 with the address of Ray."""
        module, _dot, name = function.rpartition(".")
        code = f"import sys; from {module} import {name}; {name}(*sys.argv[1:])"
        return self.hosts.run(
            0,
            [sys.executable, "-c", code, self.address, *map(str, arguments)],
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def host_of(self, pid: int) -> int | None:
        """The host on which a process runs, or None if it has ended."""
        return next((host for host in (0, 1) if pid in self.hosts.pids(host)), None)


@contextmanager
def two_raylets() -> Iterator[Raylets]:
    """Starts Ray on two hosts."""
    if reason := why_not():
        pytest.skip(reason)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    others = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
    environment = {**others, **token, **settings}
    # Not tmp_path, because the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder, TwoHosts() as hosts:
        raylets = Raylets(hosts, f"{hosts.address(0)}:{PORT}", environment, folder)
        for host in (0, 1):
            raylets.start(host)
        yield raylets


def has_started(raylet: subprocess.Popen[str]) -> bool:
    """Waits for its start. Returns whether it has started."""
    assert raylet.stdout is not None
    return any("Ray runtime started" in line for line in raylet.stdout)
