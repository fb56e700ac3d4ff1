"""The checkpoints of a run: reports new ones, and skips damaged ones when training resumes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from helpers.either_keras import tf
from helpers.i18n import labeled
from helpers.protocol.events import EventType
from helpers.worker.backups import all_corrupt_error, skipped_message
from helpers.worker.context import WorkerContext

KERAS_STEP = "train_counter/.ATTRIBUTES/VARIABLE_VALUE"  # in the backups of BackupAndRestore


class CheckpointMonitor:
    """Reports, in the chief, each new checkpoint in a model_dir.

    TensorFlow allows no CheckpointSaverListener under MultiWorkerMirroredStrategy.

    Args:
      on_new: called in the other tasks with the step of a new checkpoint.
    """

    def __init__(
        self,
        model_dir: str,
        context: WorkerContext,
        on_new: Callable[[int], None] | None = None,
    ) -> None:
        self._model_dir = model_dir
        self._on_new = on_new
        self._context = context
        self._state_file = os.path.join(model_dir, "checkpoint")
        self._seen = self._changed()

    def report(self) -> None:
        """Reports the newest checkpoint, if it was written since the last call."""
        if (changed := self._changed()) == self._seen:
            return
        self._seen = changed
        step = latest_step(self._model_dir)
        if step is None:
            return
        if self._context.config.task == self._context.config.chief:
            self._context.report(EventType.CHECKPOINT, step=step)
        elif self._on_new:
            self._on_new(step)

    def _changed(self) -> int:
        try:
            return os.stat(self._state_file).st_mtime_ns
        except FileNotFoundError:
            return 0


def step_of(path: str) -> int:
    """The global step in a checkpoint's name, as in "model.ckpt-1200"."""
    return int(path.rpartition("-")[2])


def latest_step(model_dir: str) -> int | None:
    """The global step of the newest checkpoint in `model_dir`, or None."""
    path = tf.train.latest_checkpoint(model_dir)
    return step_of(path) if path else None


def resume_step(model_dir: str) -> int:
    """The global step that training in `model_dir` resumes from, or 0 without a checkpoint."""
    return latest_step(model_dir) or 0


def was_deleted(error: Exception, model_dir: str) -> bool:
    """Whether an error names a checkpoint that training has since deleted, to keep only five."""
    named = re.findall(re.escape(os.path.join(model_dir, "model.ckpt-")) + r"\d+", str(error))
    state = tf.train.get_checkpoint_state(model_dir)
    kept = state.all_model_checkpoint_paths if state else []
    return any(path not in kept for path in named)


def skip_corrupt_checkpoints(folder: str, context: WorkerContext) -> None:
    """Marks the newest readable checkpoint as the last one, and reports the skipped ones.

    A checkpoint is damaged if the machine or the disk failed while it was written. Every value in
    it is read, with its checksum. Several workers may do so at once, with the same result.

    Raises:
      ConfigError: there are checkpoints, but none of them can be read.
    """
    state = tf.train.get_checkpoint_state(folder)
    if state is None:
        return
    paths, times = state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps
    reasons = []
    for count in range(len(paths), 0, -1):
        path = paths[count - 1]
        if reason := _damage(path):
            reasons.append(labeled(Path(path).name, reason))
            continue
        if reasons:
            tf.compat.v1.train.update_checkpoint_state(
                folder, path, paths[:count], all_model_checkpoint_timestamps=times[:count]
            )
            context.report(EventType.WARNING, message=skipped_message(reasons, _step_in(path)))
        return
    raise all_corrupt_error(folder, reasons)


def _step_in(path: str) -> int:
    """The step of a readable checkpoint."""
    reader = tf.train.load_checkpoint(path)
    counts = reader.has_tensor(KERAS_STEP)  # Keras does not number its backups by steps
    return int(reader.get_tensor(KERAS_STEP)) if counts else step_of(path)


def _damage(path: str) -> str | None:
    """The reason why a checkpoint cannot be read to its end, or None."""
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except Exception as error:  # TensorFlow raises many types here, even a bare IndexError
        return str(getattr(error, "message", error)).splitlines()[0]
    return None
