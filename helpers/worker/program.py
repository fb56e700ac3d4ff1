"""The program that every process of a cluster runs, whatever its task.

    python -m helpers.worker PAYLOAD [--cores 0,1] [--step-timeout 120]

PAYLOAD is a file with a job, as `estimator_job(...).save` writes it. Who this process is stands in
`TF_CONFIG` or, without one, in the variables of Slurm's `srun`. LESSON_LANGUAGE gives the language
of its messages.

A supervisor that wants to hear from it passes a pipe in LESSON_EVENT_FD and holds the other
end of its standard input: when that end closes, however the supervisor died, the process is
killed. Without a supervisor it prints what happens, and ends itself when it stands still.

Exit codes: 0, the work is done; 1, it would fail again; 138, started again together with its
peers it may well go on (`helpers.worker.unsupervised.AGAIN` has the source of this number).
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

from helpers.i18n import ENGLISH, LANGUAGE, set_language
from helpers.messages import payload
from helpers.messages.events import EVENT_FD, EventWriter, Kind
from helpers.messages.failures import TOLD_IN_A_SENTENCE, describe, is_preempted
from helpers.system import keras_choice, orphans
from helpers.system.isolation import enter_from_env
from helpers.system.lifeline import die_with_parent
from helpers.system.machine import pin
from helpers.system.one_dnn import select_one_dnn
from helpers.tf_config import TFConfig, write_env
from helpers.tf_config.slurm import config_from_slurm
from helpers.worker.context import Report, WorkerContext
from helpers.worker.unsupervised import AGAIN, EventPrinter, StepWatch

HEARTBEAT_SECONDS = 1.0
PATIENCE_SECONDS = 10.0  # for the peers, when the own work is done
LOOK_SECONDS = 0.02
# For the chief to finish its checkpoint, as Slurm kills all with the first that ends.
PREEMPTED_SECONDS = 5.0
STEP_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Worker:
    """One task's process, whoever started it: our supervisor, a person, Slurm, Kubernetes, Ray.

    Attributes:
      payload: the file with the job.
      report: sends its events.
      cores: those it is bound to; none for all.
      isolated: whether its network is its cluster's own.
      host: by which its machine is known to the others.
      supervised: whether somebody watches it, and starts it again with its peers.
      attempt: a folder that all tasks of an attempt share, and no others; None without one.
    """

    payload: Path
    report: Report
    cores: list[int]
    isolated: bool
    host: str
    supervised: bool
    attempt: Path | None = None

    def run(self) -> dict[str, Any] | None:
        """Does this process's part, and reports what it gives.

        Returns: None, or the fields of the "error" event that was reported.
        """
        report = self.report
        report(
            Kind.STARTED,
            pid=os.getpid(),
            cores=self.cores,
            isolated=self.isolated,
            host=self.host,
        )
        logging.getLogger("tensorflow").addFilter(quiet_deprecations)
        try:
            context = WorkerContext(_config(), report)
            print(context.config.explain(), flush=True)
            report(Kind.RESULT, value=self._work_unless_preempted(context))
            self._wait_for_peers(context.config)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # the reader's too
            described = describe(error)
            report(Kind.ERROR, **described)
            if isinstance(error, TOLD_IN_A_SENTENCE):
                print(error, file=sys.stderr)
            else:
                traceback.print_exc()
            return described
        return None

    def _work_unless_preempted(self, context: WorkerContext) -> Any:
        """Does the job; who is told to stop leaves when the chief has written its checkpoint."""
        try:
            return self._work(context)
        except SystemExit as error:
            if is_preempted(error):
                self._wait_for_peers(context.config)
                if self.attempt is None and context.config.task != context.config.chief:
                    time.sleep(PREEMPTED_SECONDS)
            raise

    def _work(self, context: WorkerContext) -> Any:
        """Prepares TensorFlow, before any of its operations runs, and does the job."""
        packed = payload.read(self.payload)
        keras_choice.select(packed.keras)
        select_one_dnn(os.environ)
        pin(self.cores)  # before NumPy is imported, which counts the cores
        from helpers.worker import devices, tensorflow_patches, work

        devices.use_cores(self.cores)
        job = packed.unpack()
        tensorflow_patches.tell_of_waiting(self.report)
        if self.supervised:
            tensorflow_patches.leave_watching_to_us()
            tensorflow_patches.keep_all_frames()
            tensorflow_patches.drop_iterators_at_once()
        return work.do(job, context)

    def _wait_for_peers(self, config: TFConfig) -> None:
        """Stays until all are done: one may still fetch the last all-reduce's sum from here."""
        if self.attempt is None or config.is_asynchronous or config.task not in config.tasks:
            return  # nobody waits for a step of this task
        deadline = time.monotonic() + PATIENCE_SECONDS
        with suppress(OSError):  # a full disk must not undo a result
            (self.attempt / f"done-{config.task}").touch()
            while len(list(self.attempt.glob("done-*"))) < len(config.tasks):
                if time.monotonic() > deadline:
                    return
                time.sleep(LOOK_SECONDS)


def main(argv: list[str] | None = None) -> int:
    """Runs the job of a payload; returns the exit code of the process."""
    args = _parse(argv)
    orphans.adopt()
    isolated = enter_from_env()
    set_language(os.environ.get(LANGUAGE, ENGLISH))
    supervised = EVENT_FD in os.environ
    report = _supervised() if supervised else _unsupervised(args.step_timeout)
    threading.Thread(target=beat, args=(report,), daemon=True).start()
    attempt = Path(tempfile.gettempdir()) if supervised else None
    host = socket.gethostname()
    error = Worker(args.payload, report, args.cores, isolated, host, supervised, attempt).run()
    orphans.end_children()
    if error is None:
        return 0
    return AGAIN if error["restartable"] else 1


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
        default=STEP_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="without a supervisor: end with 138 when no step comes for so long (120)",
    )
    return parser.parse_args(argv)


def _supervised() -> Report:
    report = EventWriter.from_env()
    die_with_parent()
    return report


def _unsupervised(step_timeout: float) -> Report:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C ends it even inside a collective that waits for ever; a KeyboardInterrupt would
        # wait for the collective, and may be lost in a callback of TensorFlow.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    watch = StepWatch(EventPrinter(), step_timeout)
    threading.Thread(target=watch.watch, daemon=True).start()
    return watch


def _config() -> TFConfig:
    """Who this process is. TensorFlow looks into `TF_CONFIG` too, so Slurm's answer goes there."""
    if "TF_CONFIG" not in os.environ and (config := config_from_slurm(os.environ)):
        write_env(config)
    return TFConfig.from_env()


def quiet_deprecations(record: logging.LogRecord) -> bool:
    """Estimator's own calls of deprecated functions would fill the log; nobody can act on them."""
    return "is deprecated and will be removed" not in record.getMessage()


def beat(report: Report) -> None:
    """Says for ever, each second, that this process is alive."""
    while True:
        time.sleep(HEARTBEAT_SECONDS)
        report(Kind.ALIVE)
