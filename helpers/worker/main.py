"""The program that every process of a cluster runs.

    python -m helpers.worker PAYLOAD [--cores 0,1] [--step-timeout 120]

PAYLOAD is a file with a job, written by `estimator_job(...).save`. `TF_CONFIG` or, without it, the
variables of Slurm's `srun` define the task of this process. LESSON_LANGUAGE is the language of its
messages.

A supervisor passes a pipe for events in LESSON_EVENT_FD and holds the other end of standard input.
When that end is closed, the process is killed. Without a supervisor, the process prints its events,
and exits when it makes no progress.

The exit code is 0 after success and 1 if the job would fail again. It is 138 if the job may succeed
after a restart of all tasks (`helpers.worker.standalone.EXIT_RETRYABLE` explains this number).
It is 143 after SIGTERM, if all tasks have saved.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers import labels
from helpers.i18n import ENGLISH, LANGUAGE, set_language
from helpers.protocol import payload, results
from helpers.protocol.debugger_pipe import is_any_waiting
from helpers.protocol.events import EVENT_FD, EventType, EventWriter
from helpers.protocol.failures import (
    EXIT_PREEMPTED,
    USER_FACING_ERRORS,
    error_fields,
    is_preempted,
)
from helpers.protocol.stack_dump import serve_stacks
from helpers.system import keras_version, orphans
from helpers.system.machine import pin_to_cores
from helpers.system.netns import enter_from_env
from helpers.system.parent_death import die_with_parent
from helpers.system.tensorflow_import import enable_onednn
from helpers.tf_config import TFConfig, normalize_env, set_tf_config_env
from helpers.tf_config.slurm import config_from_slurm
from helpers.worker import debugger
from helpers.worker.context import PreemptedError, Report, WorkerContext
from helpers.worker.standalone import EXIT_RETRYABLE, EventLogger, StepWatchdog

logger = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 1.0
EXIT_BARRIER_TIMEOUT = 10.0  # for the peers, after the own work
POLL_INTERVAL = 0.02
# For the chief to finish its checkpoint, because Slurm kills all tasks when the first one ends.
PREEMPTION_GRACE_SECONDS = 5.0
DEFAULT_STEP_TIMEOUT = 120.0


@dataclass(frozen=True)
class Worker:
    """The process of one task, started by the supervisor, by hand, by Slurm, Kubernetes or Ray.

    Attributes:
      payload: the file that contains the job.
      report: sends its events.
      cores: the cores it is bound to, or empty for all cores.
      isolated: whether its network is isolated from the machine's network.
      host: the name of its machine.
      supervised: whether a supervisor watches and restarts it.
      attempt: a folder that only the tasks of this attempt share, or None.
    """

    payload: Path
    report: Report
    cores: list[int]
    isolated: bool
    host: str
    supervised: bool
    attempt: Path | None = None

    def run(self) -> dict[str, Any] | None:
        """Runs the task, and reports its result.

        Returns: None, or the fields of the "error" event that was reported.
        """
        report = self.report
        report(
            EventType.STARTED,
            pid=os.getpid(),
            cores=self.cores,
            isolated=self.isolated,
            host=self.host,
        )
        logging.getLogger("tensorflow").addFilter(drop_deprecation_records)
        try:
            context = WorkerContext(_config(), report)
            logger.info("%s starts as process %d", context.config.task, os.getpid())
            if self.attempt:
                debugger.install(report, self.attempt, labels.task(str(context.config.task)))
            print(context.config.explain(), flush=True)
            value = self._work_unless_preempted(context)
            report(EventType.RESULT, **results.fields(value, self.attempt, context.config.task))
            self._exit_barrier(context.config)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # the reader's too
            fields = error_fields(error) | {"preempted": getattr(error, "is_own", False) is True}
            report(EventType.ERROR, **fields)
            logger.warning("The job failed: %s", fields["message"])
            if isinstance(error, USER_FACING_ERRORS):
                print(error, file=sys.stderr)
            else:
                traceback.print_exc()
            return fields
        return None

    def _work_unless_preempted(self, context: WorkerContext) -> Any:
        """Runs the job. A preempted task exits after the chief has written its checkpoint."""
        try:
            return self._work(context)
        except (SystemExit, PreemptedError) as error:
            if is_preempted(error):
                self._exit_barrier(context.config)
                if self.attempt is None and context.config.task != context.config.chief:
                    time.sleep(PREEMPTION_GRACE_SECONDS)
            raise

    def _work(self, context: WorkerContext) -> Any:
        """Configures TensorFlow before its first operation, and runs the job."""
        packed = payload.read(self.payload)
        keras_version.select_keras(packed.keras)
        enable_onednn(os.environ)
        pin_to_cores(self.cores)  # before NumPy is imported, which counts the cores
        from helpers.worker import devices, run_job, tensorflow_patches

        devices.use_cores(self.cores)
        tensorflow_patches.fix_keras_3_when_imported(self.report)
        with tensorflow_patches.first_operation() as lines:
            job = packed.unpack()
        del packed  # it contains the arrays of the functions a second time
        tensorflow_patches.apply(job, context, supervised=self.supervised)
        return run_job.run_job(job, context, lines[0] if lines else None)

    def _exit_barrier(self, config: TFConfig) -> None:
        """Waits for the peers, which may still fetch the last all-reduce from this process."""
        if self.attempt is None or config.is_asynchronous or config.task not in config.tasks:
            return  # no task waits for a step of this task
        deadline = time.monotonic() + EXIT_BARRIER_TIMEOUT
        with suppress(OSError):  # a full disk must not undo a result
            (self.attempt / f"done-{config.task}").touch()
            while len(list(self.attempt.glob("done-*"))) < len(config.tasks):
                if is_any_waiting(self.attempt):
                    deadline = time.monotonic() + EXIT_BARRIER_TIMEOUT
                if time.monotonic() > deadline:
                    return
                time.sleep(POLL_INTERVAL)


def main(argv: list[str] | None = None) -> int:
    """Runs the job of a payload, and returns the exit code of the process."""
    args = _parse(argv)
    orphans.become_subreaper()
    isolated = enter_from_env()
    set_language(os.environ.get(LANGUAGE, ENGLISH))
    supervised = EVENT_FD in os.environ
    report = _supervised() if supervised else _standalone(args.step_timeout)
    threading.Thread(target=send_heartbeats, args=(report,), daemon=True).start()
    attempt = Path(tempfile.gettempdir()) if supervised else None
    if attempt:
        serve_stacks(attempt)  # before "started" is reported, after which it may be asked
    host = socket.gethostname()
    error = Worker(args.payload, report, args.cores, isolated, host, supervised, attempt).run()
    orphans.kill_descendants()
    if error is None:
        return 0
    if error["preempted"]:
        return EXIT_PREEMPTED
    return EXIT_RETRYABLE if error["retryable"] else 1


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m helpers.worker")
    parser.add_argument("payload", type=Path, help="a file written by estimator_job(...).save")
    parser.add_argument(
        "--cores",
        type=lambda text: [int(core) for core in text.split(",") if core],
        default=[],
        help="CPU cores to pin this process to, as 0,1; all by default",
    )
    parser.add_argument(
        "--step-timeout",
        type=float,
        default=DEFAULT_STEP_TIMEOUT,
        metavar="SECONDS",
        help="without a supervisor: end with 138 when no step comes for so long (120)",
    )
    return parser.parse_args(argv)


def _supervised() -> Report:
    report = EventWriter.from_env()
    die_with_parent()
    return report


def _standalone(step_timeout: float) -> Report:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C ends it even inside a collective that hangs. A KeyboardInterrupt would wait for the
        # collective, and may be lost in a callback of TensorFlow.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    watch = StepWatchdog(EventLogger(), step_timeout)
    threading.Thread(target=watch.watch, daemon=True).start()
    return watch


def _config() -> TFConfig:
    """The `TFConfig` of this process. Under Slurm it is also set in `TF_CONFIG`, for TensorFlow."""
    if "TF_CONFIG" not in os.environ and (config := config_from_slurm(os.environ)):
        set_tf_config_env(config)
    return normalize_env()


def drop_deprecation_records(record: logging.LogRecord) -> bool:
    """Filters the warnings about deprecated functions that Estimator itself calls."""
    return "is deprecated and will be removed" not in record.getMessage()


def send_heartbeats(report: Report) -> None:
    """Sends a heartbeat each second, forever."""
    while True:
        time.sleep(HEARTBEAT_INTERVAL)
        report(EventType.HEARTBEAT, cpu=time.process_time())
