"""Backups of Keras 3: two are kept, and an incomplete one is detected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.errors import ConfigError
from helpers.tf_config import build_tf_configs
from helpers.worker import backups
from helpers.worker.context import WorkerContext
from helpers.worker.keras_position import Position


@pytest.fixture
def told() -> list[dict[str, Any]]:
    """The reports of the worker."""
    return []


@pytest.fixture
def context(told: list[dict[str, Any]]) -> WorkerContext:
    """The context of a chief."""
    chief = build_tf_configs(["127.0.0.1:1", "127.0.0.1:2"])[0]
    return WorkerContext(chief, lambda kind, **fields: told.append({"kind": kind, **fields}))


def write(folder: Path, *steps: int) -> None:
    """Writes a backup at each of these steps, which holds the step number."""
    for step in steps:

        def save(path: Path, text: str = f"step {step}") -> None:
            path.write_text(text)

        backups.save_backup(folder, Position(step // 100, 0), step, save)


def test_two_are_kept_and_the_last_is_gone_on_from(
    tmp_path: Path, context: WorkerContext, told: list[dict[str, Any]]
) -> None:
    assert backups.latest_valid(tmp_path / "none", context) is None
    write(tmp_path, 100, 200, 1000)
    assert [backup.step for backup in backups.list_backups(tmp_path)] == [200, 1000]
    newest = backups.latest_valid(tmp_path, context)
    assert newest and (newest.epoch, newest.step) == (10, 1000)
    assert newest.path.read_text() == "step 1000"
    assert not told


@pytest.mark.parametrize("content", ["", "step 299"])
def test_one_that_is_not_what_was_written_is_left_out_and_told_of(
    content: str, tmp_path: Path, context: WorkerContext, told: list[dict[str, Any]]
) -> None:
    write(tmp_path, 200, 300)
    backups.list_backups(tmp_path)[-1].path.write_text(content)
    newest = backups.latest_valid(tmp_path, context)
    assert newest and newest.step == 200
    [notice] = told
    assert notice["kind"] == "warning"
    assert notice["message"].endswith("training resumes at step 200.")


def test_where_none_is_whole_the_run_is_refused(tmp_path: Path, context: WorkerContext) -> None:
    write(tmp_path, 100)
    backups.list_backups(tmp_path)[0].path.write_text("")
    with pytest.raises(ConfigError, match=r"No checkpoint in .* can be read \(epoch-1-step-100-"):
        backups.latest_valid(tmp_path, context)


def test_one_whose_writing_fails_leaves_those_before(
    tmp_path: Path, context: WorkerContext
) -> None:
    write(tmp_path, 100, 200)

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        backups.save_backup(tmp_path, Position(3, 0), 300, fail)
    assert [backup.step for backup in backups.list_backups(tmp_path)] == [100, 200]
    write(tmp_path, 300)  # over the incomplete one
    assert [backup.step for backup in backups.list_backups(tmp_path)] == [200, 300]


def test_a_file_of_somebody_else_is_no_backup(tmp_path: Path, context: WorkerContext) -> None:
    (tmp_path / "model.weights.h5").write_text("mine")
    assert backups.latest_valid(tmp_path, context) is None
    write(tmp_path, 100, 200, 300)
    assert (tmp_path / "model.weights.h5").read_text() == "mine"
