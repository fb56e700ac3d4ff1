"""Patches of TensorFlow inside a worker, each with its reason.

`helpers.estimator` has the patches that add Estimator to later releases.
"""

from __future__ import annotations

import functools
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from helpers.errors import PackageError
from helpers.estimator import tf
from helpers.i18n import _
from helpers.protocol.events import EventType
from helpers.protocol.failures import readers_line
from helpers.protocol.job import EstimatorJob, Job
from helpers.system import keras_version
from helpers.system.import_hooks import call_after_import
from helpers.worker.checkpoints import latest_step
from helpers.worker.context import Report, WorkerContext

HEARTBEAT_MILLISECONDS = 24 * 3600 * 1000  # longer than any pause


def apply(job: Job, context: WorkerContext, *, supervised: bool) -> None:
    """Applies the patches that a task needs, before it creates a strategy.

    | patch                             | TensorFlow     | for                                    |
    |-----------------------------------|----------------|----------------------------------------|
    | report_rendezvous                 | 2.15.1 to 2.21 | every task                             |
    | disable_coordination_heartbeat    | 2.15.1 to 2.21 | a supervised task                      |
    | disable_device_dataset_autotune   | 2.15.1 to 2.21 | a supervised task                      |
    | restrict_autograph_to_user_code   | 2.15.1 to 2.21 | an Estimator                           |
    | skip_save_after_restore           | 2.15.1 to 2.21 | an Estimator                           |
    | raise_efbig_as_resource_exhausted | 2.15.1 to 2.21 | an Estimator                           |
    | set_session_recovery_wait         | 2.15.1 to 2.21 | an Estimator with parameter servers    |

    No TensorFlow release so far removes the need for any of them.

    Args:
      supervised: whether a supervisor watches this process.
    """
    report_rendezvous(context.report)
    if supervised:
        disable_coordination_heartbeat()
        disable_device_dataset_autotune()
        # `helpers.protocol.failures` decides which frames a reader sees.
        tf.debugging.disable_traceback_filtering()
    if isinstance(job, EstimatorJob):
        restrict_autograph_to_user_code()
        skip_save_after_restore(job.model_dir)
        raise_efbig_as_resource_exhausted()
        if context.config.is_asynchronous:
            set_session_recovery_wait(seconds=1)


def disable_coordination_heartbeat() -> None:
    """Disables TensorFlow's own heartbeat in a group that a supervisor watches.

    By default a worker whose heartbeat is a few seconds late ends the collectives of all workers,
    even if the machine only slept or is busy. TensorFlow has no public name for this timeout
    (coordination_config.proto has the field).
    """
    context = _eager_context()
    context.configure_coordination_service = functools.partial(
        context.configure_coordination_service, heartbeat_timeout_in_ms=HEARTBEAT_MILLISECONDS
    )


def fix_keras_3_when_imported(report: Report) -> None:
    """Applies `helpers.keras_3` as soon as the reader's function, or `tf.keras`, imports Keras 3.

    A function without Keras does not wait for it. If the fix cannot be applied, Keras remains
    as it is, because a custom training loop, or one worker, may need no fix.

    Args:
      report: sends a "warning" for the reader.
    """

    def fix() -> None:
        if not keras_version.wants_fix():
            keras_version.leave_unfixed(f"{keras_version.FIX}=0")
            return
        if not sys.modules["keras"].__version__.startswith("3."):
            return
        try:
            importlib.import_module("helpers.keras_3")
            note = importlib.import_module("helpers.keras_3.versions").check_release()
        except PackageError as error:
            keras_version.leave_unfixed(str(error))
            message = _("Keras 3 runs without helpers.keras_3 in the workers: {reason}")
            note = message.format(reason=error)
        if note:
            report(EventType.WARNING, message=note)

    call_after_import("keras", fix)


def report_rendezvous(report: Report) -> None:
    """Reports when the collectives of a worker wait for its peers.

    The worker holds Python's lock while it waits, so that no thread can send a heartbeat.

    Args:
      report: sends "connecting" before the wait, and "connected" after it.
    """
    context = _eager_context()
    configure = context.configure_coordination_service

    def connect() -> None:
        del context.ensure_initialized  # restores the method of the class
        report(EventType.CONNECTING)
        context.ensure_initialized()
        report(EventType.CONNECTED)

    def configure_and_connect(*args: Any, **options: Any) -> None:
        configure(*args, **options)
        context.ensure_initialized = connect  # which is called next, and waits

    context.configure_coordination_service = configure_and_connect


@contextmanager
def first_operation() -> Iterator[list[str]]:
    """Yields the reader's line that starts TensorFlow too early, before the strategy."""
    context = _eager_context()
    lines: list[str] = []
    start = context.ensure_initialized

    def note_and_start() -> None:
        if not lines:
            frames = [(f.filename, f.lineno or 0, f.name) for f in traceback.extract_stack()]
            lines.append(readers_line(frames) or _("a tensor that a function uses"))
        start()

    context.ensure_initialized = note_and_start
    try:
        yield lines
    finally:
        del context.ensure_initialized


def disable_device_dataset_autotune() -> None:
    """Turns off the autotuning of the datasets that TensorFlow creates for each device.

    The options of the user's dataset do not reach them. The thread that tunes such a dataset sleeps
    for up to a minute, and deleting the iterator waits until it wakes. Keras's `fit` on two
    workers, with 7 s of steps, returned 2.5 to 4.4 s after the last step.
    """
    iterators: Any = importlib.import_module("tensorflow.python.data.ops.multi_device_iterator_ops")
    create = iterators._create_device_dataset
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    iterators._create_device_dataset = lambda *args: create(*args).with_options(untuned)


def restrict_autograph_to_user_code() -> None:
    """Excludes the functions of Estimator and of this package from AutoGraph.

    None of them branches on a tensor, but under a strategy AutoGraph converts every function that
    the replicas call, which costs a quarter of the time to the first step. Estimator then calls
    `model_fn` unconverted, so pass it `autograph_convert(model_fn)`.
    """
    rules: Any = importlib.import_module("tensorflow.python.autograph.core.config")
    ours = (rules.DoNotConvert(name) for name in ("tensorflow_estimator", __name__.split(".")[0]))
    rules.CONVERSION_RULES = (*ours, *rules.CONVERSION_RULES)


def autograph_convert(function: Callable[..., Any]) -> Any:
    """Converts a function with AutoGraph, as a strategy would do."""
    autograph = tf.__internal__.autograph
    return autograph.tf_convert(function, autograph.control_status_ctx())


def skip_save_after_restore(model_dir: str) -> None:
    """Skips saving the checkpoint that the session has just restored.

    CheckpointSaverHook saves whenever a session begins, and TensorFlow overwrites the index in
    place. A peer or an evaluator that opens it meanwhile reads a part of it and raises a
    DataLossError. The save is skipped on all workers, because saving a variable that is aggregated
    on read (tf.VariableSynchronization.ON_READ) is a collective operation.
    """
    hook = tf.compat.v1.train.CheckpointSaverHook
    save = hook._save

    def save_what_is_new(self: Any, session: Any, step: int) -> bool:
        return step != latest_step(model_dir) and save(self, session, step)

    hook._save = save_what_is_new


def raise_efbig_as_resource_exhausted() -> None:
    """Raises ResourceExhaustedError if a checkpoint is too large for its file system.

    TensorFlow maps EFBIG, "File too large", to OutOfRangeError, which also marks the end of the
    input, so that the session would end as if training were complete.
    """
    hook = tf.compat.v1.train.CheckpointSaverHook
    save = hook._save

    def save_or_raise(self: Any, session: Any, step: int) -> bool:
        try:
            return bool(save(self, session, step))
        except tf.errors.OutOfRangeError as error:
            kind = tf.errors.ResourceExhaustedError
            raise kind(error.node_def, error.op, error.message) from None

    hook._save = save_or_raise


def before_checkpoints(on_save: Callable[[int], None], on_end: Callable[[int], None]) -> None:
    """Registers functions to call with the global step before its checkpoint is written.

    TensorFlow allows no CheckpointSaverListener under MultiWorkerMirroredStrategy. Call it once in
    a process, after `skip_save_after_restore`.

    Args:
      on_save: called before each checkpoint.
      on_end: called before the checkpoint at the end of training.
    """
    hook = tf.compat.v1.train.CheckpointSaverHook
    save, end = hook._save, hook.end

    def save_and_tell(self: Any, session: Any, step: int) -> bool:
        on_save(int(step))
        return bool(save(self, session, step))

    def end_and_tell(self: Any, session: Any) -> None:
        on_end(int(session.run(self._global_step_tensor)))
        end(self, session)

    hook._save, hook.end = save_and_tell, end_and_tell


def set_session_recovery_wait(seconds: int) -> None:
    """Sets the recovery_wait_secs of SessionManager, which is 30 by default."""
    manager = tf.compat.v1.train.SessionManager
    manager.__init__ = functools.partialmethod(manager.__init__, recovery_wait_secs=seconds)


def _eager_context() -> Any:
    return importlib.import_module("tensorflow.python.eager.context").context()
