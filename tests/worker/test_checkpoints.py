"""The checkpoints of a run: which exist, and which have been deleted."""

from __future__ import annotations

from pathlib import Path

from helpers.estimator import tf
from helpers.worker.checkpoints import was_deleted


def not_found(path: str) -> Exception:
    """The error that TensorFlow raises in an evaluator that is too late."""
    reader = "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for "
    return tf.errors.NotFoundError(None, None, reader + path)


def test_a_checkpoint_that_training_has_deleted_since_is_known(tmp_path: Path) -> None:
    folder = str(tmp_path)
    gone, *kept = (f"{folder}/model.ckpt-{step}" for step in (10, 15, 20))
    assert was_deleted(not_found(gone), folder)  # before there is a file that names any
    tf.compat.v1.train.update_checkpoint_state(folder, kept[-1], kept)
    assert was_deleted(not_found(gone), folder)
    assert was_deleted(not_found(f"{folder}/model.ckpt-1"), folder)  # a prefix of other names
    assert was_deleted(ValueError(f"Couldn't find trained model at {gone}."), folder)


def test_one_that_is_named_as_kept_and_is_missing_is_an_error_to_be_told(tmp_path: Path) -> None:
    """An evaluator that assumed it was deleted would retry forever."""
    folder, kept = str(tmp_path), str(tmp_path / "model.ckpt-20")
    tf.compat.v1.train.update_checkpoint_state(folder, kept, [kept])
    assert not was_deleted(not_found(kept), folder)
    assert not was_deleted(not_found("/elsewhere/model.ckpt-10"), folder)
    assert not was_deleted(ValueError("the reader's own"), folder)
