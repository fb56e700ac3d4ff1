"""What is changed in TensorFlow inside a worker, each change with its reason.

Tested with TensorFlow 2.15.1 to 2.21.0. A worker makes these changes in its own process, before a
strategy is made, and nowhere else; `helpers.estimator` has those that give later releases their
Estimator.
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
from helpers.system import keras_version
from helpers.system.import_hooks import call_after_import
from helpers.worker.checkpoints import latest_step
from helpers.worker.context import Report

HEARTBEAT_MILLISECONDS = 24 * 3600 * 1000  # as good as none


def disable_coordination_heartbeat() -> None:
    """Keeps TensorFlow's own heartbeat from ending a group that a supervisor watches.

    Call it in a worker, before a strategy is made. By default a worker whose heartbeat is late by
    some seconds ends the collectives of all, and a machine that slept, or is busy, looks like that.
    TensorFlow has no public name for this timeout (coordination_config.proto has the field).
    """
    context = _eager_context()
    context.configure_coordination_service = functools.partial(
        context.configure_coordination_service, heartbeat_timeout_in_ms=HEARTBEAT_MILLISECONDS
    )


def fix_keras_3_when_imported(report: Report) -> None:
    """Applies `helpers.keras_3` as soon as the reader's function, or `tf.keras`, imports Keras 3.

    A function without Keras does not wait for it. Where the fix cannot be applied, Keras remains
    as it is, since a loop of the reader's own, or one worker, may need no fix.

    Args:
      report: sends a "notice" of what the reader should know.
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
    """Lets a worker tell when its collectives wait for the peers.

    Call it before a strategy is made. The worker holds Python's lock as long as that takes (to
    TensorFlow 2.21), so that no thread of it can give a sign of life.

    Args:
      report: sends "connecting" before the wait, and "connected" after it.
    """
    context = _eager_context()
    configure = context.configure_coordination_service

    def connect() -> None:
        del context.ensure_initialized  # the class's own again
        report(EventType.CONNECTING)
        context.ensure_initialized()
        report(EventType.CONNECTED)

    def configure_and_connect(*args: Any, **options: Any) -> None:
        configure(*args, **options)
        context.ensure_initialized = connect  # which comes next, and waits

    context.configure_coordination_service = configure_and_connect


@contextmanager
def first_operation() -> Iterator[list[str]]:
    """Gives the reader's line that starts TensorFlow meanwhile, after which no strategy can."""
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


def disable_traceback_filtering() -> None:
    """Keeps TensorFlow and Keras from cutting their own frames out of a traceback.

    Which of them a reader sees, `helpers.protocol.failures` decides.
    """
    tf.debugging.disable_traceback_filtering()


def disable_device_dataset_autotune() -> None:
    """Keeps a program from waiting, when it is done with an iterator, for a thread that tunes it.

    What each device takes from a distributed dataset is a dataset of its own, out of reach of the
    options of the reader's. The thread that tunes it sleeps, in the end for as long as the iterator
    has lived and up to a minute, and whoever drops the iterator waits until it wakes: Keras's `fit`
    on two workers, with 7 s of steps, returned 2.5 to 4.4 s after the last of them.
    """
    iterators: Any = importlib.import_module("tensorflow.python.data.ops.multi_device_iterator_ops")
    create = iterators._create_device_dataset
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    iterators._create_device_dataset = lambda *args: create(*args).with_options(untuned)


def restrict_autograph_to_user_code() -> None:
    """Keeps AutoGraph from translating functions of Estimator and of this package.

    None of them asks a tensor anything, but under a strategy TensorFlow translates all that the
    replicas call, at each start of a worker: a quarter of the time to the first step. As Estimator
    then calls `model_fn` untranslated, give it a `autograph_convert` one.
    """
    rules: Any = importlib.import_module("tensorflow.python.autograph.core.config")
    ours = (rules.DoNotConvert(name) for name in ("tensorflow_estimator", __name__.split(".")[0]))
    rules.CONVERSION_RULES = (*ours, *rules.CONVERSION_RULES)


def autograph_convert(function: Callable[..., Any]) -> Any:
    """The function as a strategy would call it: translated by AutoGraph where that is due."""
    autograph = tf.__internal__.autograph
    return autograph.tf_convert(function, autograph.control_status_ctx())


def skip_save_after_restore(model_dir: str) -> None:
    """Keeps the chief from writing the checkpoint it has just read, while its peers still read it.

    CheckpointSaverHook saves whenever a session begins, and TensorFlow puts the new index in the
    place of the old one while it writes: a peer or an evaluator that opens it then finds a part of
    it, a DataLossError. No worker saves here, since the save of a variable that is aggregated when
    it is read (tf.VariableSynchronization.ON_READ) is a collective, in which all take part.

    Call it once in a process, before the session begins.
    """
    hook = tf.compat.v1.train.CheckpointSaverHook
    save = hook._save

    def save_what_is_new(self: Any, session: Any, step: int) -> bool:
        return step != latest_step(model_dir) and save(self, session, step)

    hook._save = save_what_is_new


def raise_efbig_as_resource_exhausted() -> None:
    """Keeps a training from ending, as if it were complete, where a checkpoint cannot be written.

    TensorFlow calls EFBIG, "File too large", an OutOfRangeError, which is also what a pipeline
    raises at its end, and then a session stops without an error.

    Call it once in a process, before the session begins.
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
    """Has functions called with the global step before a checkpoint of it is written.

    TensorFlow allows no CheckpointSaverListener under MultiWorkerMirroredStrategy. Call it once in
    a process, after `skip_save_after_restore`.

    Args:
      on_save: before each.
      on_end: before the one that ends the training.
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
    """Sets how long a worker beside parameter servers waits for missing variables; else 30 s."""
    manager = tf.compat.v1.train.SessionManager
    manager.__init__ = functools.partialmethod(manager.__init__, recovery_wait_secs=seconds)


def _eager_context() -> Any:
    return importlib.import_module("tensorflow.python.eager.context").context()
