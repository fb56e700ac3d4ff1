"""Workers apply `helpers.keras_3` automatically, and explain an error that occurs without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import ROOT
from helpers import LocalCluster
from helpers.protocol.job import FunctionJob
from helpers.system.import_hooks import call_after_import
from helpers.system.ports import free_ports, without_proxies
from helpers.tf_config import build_tf_configs
from tests.support.faults import needs_keras_3


def train() -> list[float]:
    """A typical first program of a Keras user."""
    import keras
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    x = np.arange(64, dtype="float32").reshape(16, 4) / 64
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "relu", True, "ones")])
        model.compile("adam", "mse")
    losses = model.fit(x, x.sum(1), batch_size=8, epochs=2, verbose=0, shuffle=False)
    print("losses", losses.history["loss"])
    return [float(loss) for loss in losses.history["loss"]]


OLD_KERAS = """
from importlib import metadata
version = metadata.version
metadata.version = lambda name: "3.3.3" if name == "keras" else version(name)
"""


def program(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a program whose `tf.keras` is Keras 3."""
    base = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    command = [sys.executable, "-W", "always::UserWarning", "-c", code]
    return subprocess.run(
        command, cwd=ROOT, env=base | environ, capture_output=True, text=True, check=False
    )


PROGRAM = """
from helpers import LocalCluster
from tests.keras_3.test_applied import train
with LocalCluster(2) as cluster:
    print(*cluster.run(train), sep="\\n")
"""


@needs_keras_3
def test_a_keras_program_trains_with_no_option() -> None:
    done = program(PROGRAM)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = done.stdout.splitlines()
    assert first == second and first.startswith("[0.")


@pytest.mark.keras_3
@needs_keras_3
def test_where_the_fix_is_refused_the_error_says_so_without_the_tensors(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(OLD_KERAS)
    done = program(PROGRAM, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "UserWarning: Keras 3 runs without helpers.keras_3 in the workers" in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "helpers.keras_3, which was not applied: helpers.keras_3 was tested with" in last
    assert "PerReplica:{" not in done.stderr


@needs_keras_3
@pytest.mark.keras_3
def test_import_keras_gets_the_fix_in_a_worker_with_keras_2_too() -> None:
    with LocalCluster(2) as cluster:
        first, second = cluster.run(train, keras=2)
    assert first == second


@needs_keras_3
@pytest.mark.keras_3
def test_workers_started_by_hand_apply_the_fix(tmp_path: Path) -> None:
    payload = tmp_path / "payload"
    FunctionJob(train, keras=3).save(payload)
    configs = build_tf_configs([f"127.0.0.1:{port}" for port in free_ports(2)])
    logs = [tmp_path / f"{config.task.index}.log" for config in configs]
    processes = []
    try:
        for config, log in zip(configs, logs, strict=True):
            environ = without_proxies(os.environ) | {"TF_CONFIG": config.to_json()}
            command = [sys.executable, "-m", "helpers.worker", str(payload)]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT
                )
            processes.append(process)
        assert [process.wait(120) for process in processes] == [0, 0], logs[0].read_text()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert "losses [0." in logs[0].read_text()


def test_an_action_follows_the_import_of_its_module_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_late.py").write_text("value = 1")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    seen = []
    finders = list(sys.meta_path)
    call_after_import("imported_late", lambda: seen.append(sys.modules["imported_late"].value))
    assert not seen
    try:
        import imported_late  # type: ignore[import-not-found] # noqa: F401

        assert seen == [1] and sys.meta_path == finders
        call_after_import("imported_late", lambda: seen.append(2))
        assert seen == [1, 2]
    finally:
        sys.modules.pop("imported_late", None)
