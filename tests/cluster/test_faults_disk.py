"""Disk faults: checkpoints that cannot be written, or not be read again."""

from __future__ import annotations

import functools
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.errors import ConfigError, UserCodeError
from helpers.results.training_result import TrainingResult
from tests.support.faults import ESTIMATOR, KERAS, TrainingApi, api_matrix
from tests.support.functions import PARAMS, keras_fit, tiny_input_fn, tiny_model_fn

PROGRAM = "tests.support.notebook_process"


@functools.cache
def can_mount() -> bool:
    """Whether a user may mount a small disk here in a separate namespace."""
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def train_on_a_small_disk(api: TrainingApi, workers: int, disk: Path, *options: str) -> list[Any]:
    """The events of a training run whose checkpoints are written to a disk of 32 MB."""
    if not can_mount():
        pytest.skip("this machine forbids mounting a small disk (unshare -rm mount)")
    folder = str(disk / "model")
    program = [sys.executable, "-m", PROGRAM, api.name, str(workers), folder, *options]
    script = f"mount -t tmpfs -o size=32m tmpfs {disk} && exec {shlex.join(program)}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_ended_with_one_sentence(events: list[Any], api: TrainingApi, reason: str) -> None:
    *others, last = events
    assert last["event"] == "raised"
    assert reason in last["message"]
    assert not [event for event in others if event["event"] == "group_restart"]
    if api == ESTIMATOR:
        assert last["type"] == "ConfigError"
        assert "Free some space" in last["message"]
        assert "use another model_dir" in last["message"]
        assert "Traceback" not in last["message"]
    else:
        assert last["type"] == "UserCodeError"
        assert last["message"].count("Traceback") == 1


@api_matrix(ESTIMATOR, 2)
def test_a_disk_that_fills_up_ends_the_run_with_the_reason(
    api: TrainingApi, workers: int, tmp_path: Path
) -> None:
    fill = f"dd if=/dev/zero of={tmp_path}/rest bs=64k"
    events = train_on_a_small_disk(api, workers, tmp_path, "--at", str(api.fault_at), "--do", fill)
    assert_ended_with_one_sentence(events, api, "No space left on device")


# Estimator keeps a file open, so its disk cannot be made read-only.
@pytest.mark.faults
@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_disk_that_becomes_read_only_ends_the_run_with_the_reason(
    workers: int, tmp_path: Path
) -> None:
    protect = f"mount -o remount,ro {tmp_path}"
    events = train_on_a_small_disk(
        KERAS, workers, tmp_path, "--at", str(KERAS.fault_at), "--do", protect
    )
    assert_ended_with_one_sentence(events, KERAS, "Read-only file system")


@pytest.mark.parametrize("folder", ["/proc/model", "/dev/null/model"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(folder: str) -> None:
    with LocalCluster(workers=2) as cluster, pytest.raises(ConfigError) as caught:
        cluster.train(tiny_model_fn, tiny_input_fn, params=PARAMS, model_dir=folder)
    assert f"model_dir='{folder}'" in str(caught.value)
    assert not cluster.processes


def train(workers: int, steps: int, folder: Path) -> TrainingResult:
    with LocalCluster(workers) as cluster:
        return cluster.train(
            tiny_model_fn,
            tiny_input_fn,
            steps=steps,
            params=PARAMS,
            model_dir=folder,
            save_checkpoints_steps=100,
            evaluate=None,
            progress=False,
        )


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_training_goes_on_from_the_checkpoint_before_a_truncated_one_and_says_so(
    workers: int, tmp_path: Path
) -> None:
    train(workers, 300, tmp_path)
    truncate(tmp_path / "model.ckpt-300.data-00000-of-00001")
    result = train(workers, 400, tmp_path)
    assert result.resumed_at == {0: 200}
    assert result.steps == 400
    [notice] = result.warnings
    assert "model.ckpt-300: " in notice
    assert "training resumes at step 200" in notice
    assert notice in repr(result)


def test_a_folder_in_which_no_checkpoint_can_be_read_is_refused(tmp_path: Path) -> None:
    train(1, 200, tmp_path)
    for path in tmp_path.glob("model.ckpt-*.data*"):
        truncate(path)
    with pytest.raises(ConfigError, match=r"No checkpoint in .* can be read"):
        train(1, 400, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_a_truncated_backup_of_keras_ends_the_run_with_the_reason(
    workers: int, tmp_path: Path
) -> None:
    with LocalCluster(workers) as cluster:
        KERAS.train(cluster, tmp_path)
        [backup] = (tmp_path / "chief").glob("ckpt-*.data*")
        truncate(backup)
        with pytest.raises(UserCodeError) as caught:
            KERAS.train(cluster, tmp_path)
    assert backup.name.partition(".")[0] in str(caught.value)


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_keras_goes_on_from_the_backup_before_a_truncated_one_and_says_so(
    workers: int, tmp_path: Path
) -> None:
    fit = functools.partial(keras_fit, backup_dir=str(tmp_path), backup_every=50, own=True)
    with LocalCluster(workers) as cluster:
        cluster.run(functools.partial(fit, steps=150))
        truncate(tmp_path / "chief" / "ckpt-3.data-00000-of-00001")
        with pytest.warns(UserWarning, match=r"ckpt-3: .*training resumes at step 100") as said:
            values = cluster.run(functools.partial(fit, steps=200))
    assert len(said) == 1
    assert [value["epochs"] for value in values] == [[2, 3]] * workers
    assert [value["step"] for value in values] == [200] * workers
    backups = {path.stem for path in (tmp_path / "chief").glob("ckpt-*.index")}
    assert backups == {"ckpt-3", "ckpt-4"}


def test_keras_refuses_a_folder_in_which_no_backup_can_be_read(tmp_path: Path) -> None:
    fit = functools.partial(keras_fit, backup_dir=str(tmp_path), backup_every=50, own=True)
    with LocalCluster(workers=1) as cluster:
        cluster.run(functools.partial(fit, steps=100))
        for path in (tmp_path / "chief").glob("ckpt-*.data*"):
            truncate(path)
        with pytest.raises(ConfigError, match=r"No checkpoint in .*chief can be read"):
            cluster.run(functools.partial(fit, steps=150))


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def test_where_no_temporary_folder_can_be_made_a_sentence_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalCluster(workers=1) as cluster:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        with pytest.raises(ConfigError, match=r"No such file or directory\. Set TMPDIR to"):
            cluster.train(tiny_model_fn, tiny_input_fn, steps=1, params=PARAMS, progress=False)
