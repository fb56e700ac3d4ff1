"""Callbacks with which a Keras program in `LocalCluster.run` can be monitored, traced and resumed.

They use the Keras of the worker: Keras 2, or Keras 3 (`run(…, keras=3)`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.either_keras import tf
from helpers.protocol.events import EventType
from helpers.protocol.spans import Span
from helpers.system import keras_version
from helpers.worker import backups, keras_position
from helpers.worker.checkpoints import skip_corrupt_checkpoints
from helpers.worker.context import WorkerContext
from helpers.worker.preemption import PreemptionWatch
from helpers.worker.step_profiler import StepProfiler
from helpers.worker.step_reporter import StepReporter

BACKUPS = 2


class _BackupAndRestore2(tf.keras.callbacks.BackupAndRestore):
    """Like Keras's callback of this name, but keeps two backups and does not delete them.

    Keras keeps one backup. If the machine fails while it is written, no backup can be read. This
    callback then uses the previous backup, with a warning. Keras also deletes the backup when `fit`
    ends, so that training would restart from the beginning after a later fault.

    After SIGTERM to a worker, all workers save at the same step and exit, and a LocalCluster
    restarts them.

    Args:
      context: the argument of the function that `run` calls.
      backup_dir: a folder that all workers can read.
      save_freq: "epoch", or the steps between two backups.
      resume_data: whether `fit` also resumes at the position in the data, after the batches that
        were processed before the backup. Pass False if your function skips them itself.

    Raises:
      ConfigError: at the start of `fit`, if there are backups but none can be read.
    """

    def __init__(
        self,
        context: WorkerContext,
        backup_dir: str,
        save_freq: int | str = "epoch",
        *,
        resume_data: bool = True,
    ) -> None:
        super().__init__(backup_dir, save_freq, delete_checkpoint=False)
        self._context = context
        self._resume_data = resume_data
        self._is_chief = context.config.task == context.config.chief

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Restores the newest readable backup."""
        self._preemption = PreemptionWatch(self._context)
        if self._resume_data:
            keras_position.install_in_keras_2()
            keras_position.resume_at(0)  # Keras knows the epoch
        skip_corrupt_checkpoints(os.path.join(self.backup_dir, "chief"), self._context)
        super().on_train_begin(logs)
        state = self._training_state
        keeps = state.write_checkpoint_manager
        if keeps is state.read_checkpoint_manager:  # on the chief, while others delete theirs
            state.write_checkpoint_manager = state.read_checkpoint_manager = (
                tf.train.CheckpointManager(keeps.checkpoint, keeps.directory, BACKUPS)
            )

        # Keras reads the saved batch only if it saves within epochs.
        saved_at_batch = int(state._ckpt_saved_batch.numpy()) >= 0
        state._save_freq = 1 if saved_at_batch else "epoch"

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Stores the epoch."""
        super().on_epoch_begin(epoch, logs)
        self._training_state._ckpt_saved_batch.assign(-1)

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Stores the batch, if backups are saved within epochs."""
        if self.save_freq != "epoch":
            super().on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Saves if a backup is due, or if a worker was preempted."""
        super().on_train_batch_end(batch, logs)
        if self._preemption.must_stop():
            self._training_state._ckpt_saved_batch.assign(batch)
            self._backup(self._current_epoch, batch)
            raise self._preemption.error()

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _backup(self, epoch: int, batch: int = 0) -> None:
        """Called by Keras when a backup is due."""
        super()._backup(epoch, batch)
        if self._is_chief:
            step = int(self.model.optimizer.iterations.numpy())
            self._context.report(EventType.CHECKPOINT, step=step)


class _BackupAndRestore3(tf.keras.callbacks.BackupAndRestore):
    """The same for Keras 3, where only the chief writes and all workers read.

    Keras 3's own callback overwrites the backup that it would need, and with several workers all of
    them write to one file.

    The model must know its input's shape before `fit`, as Keras 3 requires for this callback.
    """

    def __init__(
        self,
        context: WorkerContext,
        backup_dir: str,
        save_freq: int | str = "epoch",
        *,
        resume_data: bool = True,
    ) -> None:
        super().__init__(backup_dir, save_freq, delete_checkpoint=False)
        self._context = context
        self._resume_data = resume_data
        self._is_chief = context.config.task == context.config.chief
        self._position = keras_position.Position(0, 0)

    def _load_model(self) -> None:
        """Called by Keras at the start of `fit`."""
        self._preemption = PreemptionWatch(self._context)
        newest = backups.latest_valid(Path(self.backup_dir), self._context)
        if self._resume_data:
            keras_position.install_in_keras_3()
            keras_position.resume_at(*((newest.epoch, newest.batch) if newest else (0, 0)))
        if newest is None:
            return
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        self.model.load_weights(str(newest.path))
        self.model._initial_epoch = newest.epoch

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Stores the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Saves if a backup is due, or if a worker was preempted."""
        is_last = batch + 1 == self.params.get("steps")
        after = (self._epoch + 1, 0) if is_last else (self._epoch, batch + 1)
        self._position = keras_position.Position(*after)
        super().on_train_batch_end(batch, logs)
        if self._preemption.must_stop():
            self._save_model()
            raise self._preemption.error()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Saves if a backup is due."""
        self._position = keras_position.Position(epoch + 1, 0)
        super().on_epoch_end(epoch, logs)

    def _save_model(self) -> None:
        """Called by Keras when a backup is due."""
        if self._is_chief:
            step = int(self.model.optimizer.iterations.numpy())
            backups.save_backup(
                Path(self.backup_dir),
                self._position,
                step,
                lambda path: self.model.save_weights(str(path)),
            )
            self._context.report(EventType.CHECKPOINT, step=step)


BackupAndRestore: Any = _BackupAndRestore2 if keras_version.default() == 2 else _BackupAndRestore3


class StepReportCallback(tf.keras.callbacks.Callback):
    """Reports the steps of `fit`, so that the cluster can distinguish progress from a hang.

    Args:
      context: the argument of the function that `run` calls.
      global_batch: examples in one step of all replicas together.
    """

    _supports_tf_logs = True  # otherwise Keras would fetch the loss after every step

    def __init__(self, context: WorkerContext, global_batch: int) -> None:
        super().__init__()
        self._report, self._global_batch = context.report, global_batch
        self._reporter = StepReporter(context, global_batch)
        self._loss: Any = float("nan")

    def set_model(self, model: Any) -> None:
        """Makes Keras 2 log the mean over the workers.

        Under MultiWorkerMirroredStrategy it adds up the means for this callback."""
        super().set_model(model)
        model.distribute_reduction_method = "first"

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Reports the step at which `fit` will end, if known. A second `fit` adds its steps."""
        epochs, steps = self.params.get("epochs"), self.params.get("steps")
        if epochs and steps:
            before = self._step if self._reporter.has_reported else 0
            total = before + epochs * steps
            self._report(EventType.RUN_INFO, total_steps=total, global_batch=self._global_batch)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Reports, at most ten times a second."""
        self._loss = (logs or {}).get("loss", self._loss)
        if self._reporter.should_report:
            self._reporter.report(self._step, float(self._loss))

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Reports the last step, if it was not reported."""
        if self._reporter.has_reported and self._step > self._reporter.step:
            self._reporter.report(self._step, float(self._loss))

    @property
    def _step(self) -> int:
        return int(self.model.optimizer.iterations.numpy())


class TraceStep(tf.keras.callbacks.Callback):
    """Profiles one or more steps of `fit` with TensorFlow's profiler.

    `helpers.results.timeline` shows the spans of all workers on one clock. The profiler records the
    operations of a step, but not the work of an input pipeline in its own threads. So "input" is
    the time in which the step waits for its batch.

    Args:
      step: the number of the step, from 1. At this step, the pipeline should be filled and memory
        allocated.
      last: the number of the last step to profile, by default `step`.

    Attributes:
      spans: the steps and their operations, available after the last step.
    """

    def __init__(self, step: int, last: int | None = None) -> None:
        super().__init__()
        self.step = step
        self.last = step if last is None else last
        self.spans: list[Span] = []
        self._steps = 0
        self._profiler: StepProfiler | None = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Starts the profiler before the first of these steps."""
        self._steps += 1
        if self._steps == self.step:
            self._profiler = StepProfiler(self.step).__enter__()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Marks the end of a step, and stops the profiler after the last one."""
        if self._profiler:
            self._profiler.step()
            if self._steps == self.last:
                self._stop()

    def on_train_end(self, logs: Any = None) -> None:
        """Stops the profiler, if `fit` ends before the last step."""
        self._stop()

    def _stop(self) -> None:
        if self._profiler:
            self._profiler.__exit__()
            self.spans, self._profiler = self._profiler.spans, None
