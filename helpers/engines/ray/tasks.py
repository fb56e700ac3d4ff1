"""What runs inside Ray's processes: the mailbox, Ray's trainer, and each worker's part."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback

from helpers.cluster.deadlines import Deadlines
from helpers.errors import ClusterError
from helpers.i18n import set_language
from helpers.messages.events import Event, Kind, decode, encode
from helpers.system.keras_choice import KERAS_3, LEGACY_KERAS
from helpers.system.ports import without_proxies
from helpers.tf_config import TFConfig
from helpers.worker.program import Worker
from helpers.worker.unsupervised import StepWatch

Mail = tuple[bytes, Event]
"""A line, and who sent it."""


@dataclass(frozen=True)
class RayRun:
    """What every process of one run is told.

    Attributes:
      folder: with the payload, and a place for Ray's notes; all hosts reach it.
      workers: how many.
      gpus: whether each worker gets a GPU.
      max_restarts: how many faults are answered with a new group.
      deadlines: when a silence counts as a fault.
      language: of the messages.
      keras: which Keras the workers import.
    """

    folder: Path
    workers: int
    gpus: bool
    max_restarts: int
    deadlines: Deadlines
    language: str
    keras: int

    @property
    def payload(self) -> Path:
        """The file with the work."""
        return self.folder / "payload.pkl"


class Mailbox:
    """An actor on the notebook's host: workers put events in, the notebook takes them out.

    An event is a line, as over the pipe of a worker on this machine, and the notebook decodes it
    as it does those; beside it stands who sent it, which is not the worker's to say.
    """

    def __init__(self) -> None:
        self._mail: list[Mail] = []
        self._attempt = 0
        self._came = asyncio.Event()

    async def put(self, line: bytes, sender: Event) -> None:
        """Adds an event."""
        self._mail.append((line, sender))
        self._came.set()

    async def attempt(self) -> int:
        """How many attempts have failed."""
        return self._attempt

    async def fail(self, lost: list[int], raised: list[int]) -> None:
        """Ends an attempt in which workers of these ranks were lost, or raised."""
        about = {"attempt": self._attempt, "lost": lost, "raised": raised}
        self._attempt += 1
        failure = {"event": Kind.FAILURE.value, "time": time.time(), **about}
        await self.put(b"", failure)

    async def take(self, seconds: float) -> list[Mail]:
        """What has come, in order; waits for the first so long."""
        try:
            await asyncio.wait_for(self._came.wait(), seconds)
        except asyncio.TimeoutError:
            return []
        mail, self._mail = self._mail, []
        self._came.clear()
        return mail


def open_mail(mail: Mail) -> Event | None:
    """The event in a piece of mail; None where a worker sent what is none."""
    line, sender = mail
    if sender.get("event") == Kind.FAILURE:  # of Ray's controller, which sends no line
        return sender
    event = decode(line)
    return None if event is None else event | sender


class MailboxWriter:
    """Sends the events of one worker, as `EventWriter` does, without waiting for their arrival."""

    def __init__(self, mailbox: Any, task: str) -> None:
        self._mailbox = mailbox
        self._sender = {"task": task, "attempt": ray.get(mailbox.attempt.remote())}
        self._last: Any = None

    def __call__(self, event: str, **fields: Any) -> None:
        """Sends one event."""
        self._last = self._mailbox.put.remote(encode(event, **fields), self._sender)

    def flush(self) -> None:
        """Waits until all events have arrived."""
        if self._last is not None:
            ray.get(self._last)


class FailureReporter(UserCallback):
    """Tells the mailbox, from Ray's controller, that an attempt has failed."""

    def __init__(self, mailbox: Any) -> None:
        self._mailbox = mailbox

    def after_exception(self, run_context: Any, worker_exceptions: Mapping[int, Exception]) -> None:
        """Called by Ray before it ends the group, with what each worker raised."""
        raised = [r for r, error in worker_exceptions.items() if isinstance(error, ClusterError)]
        lost = sorted(set(worker_exceptions) - set(raised))
        ray.get(self._mailbox.fail.remote(lost, sorted(raised)))


def fit(run: RayRun, mailbox: Any) -> None:
    """Runs Ray's trainer to its end.

    In a process of its own: so it can be ended, and only here, not in the notebook, does Ray's
    module import TensorFlow.
    """
    from ray.train.tensorflow import TensorflowTrainer

    trainer = TensorflowTrainer(
        work,
        train_loop_config={"run": run, "mailbox": mailbox},
        scaling_config=ScalingConfig(
            num_workers=run.workers, use_gpu=run.gpus, placement_strategy="SPREAD"
        ),
        run_config=RunConfig(
            name="ray",
            storage_path=str(run.folder),
            failure_config=FailureConfig(max_failures=run.max_restarts),
            callbacks=[FailureReporter(mailbox)],
        ),
    )
    with suppress(SystemExit):  # what Ray's trainer raises when it is cancelled
        trainer.fit()


FIT_ENVIRONMENT = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # a relative path of the reader's means what it always means
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
}


def fit_environment(keras: int) -> dict[str, str]:
    """The variables of Ray's trainer and of its workers, in which Ray imports TensorFlow first."""
    return FIT_ENVIRONMENT | ({LEGACY_KERAS: KERAS_3} if keras == 3 else {})


def work(config: Mapping[str, Any]) -> None:
    """Does one worker's part: what `python -m helpers.worker` does elsewhere.

    Raises:
      ClusterError: a fault, after which Ray starts the group again.
    """
    run: RayRun = config["run"]
    for name in set(os.environ) - set(without_proxies(os.environ)):
        del os.environ[name]
    set_language(run.language)
    report = MailboxWriter(config["mailbox"], str(TFConfig.from_env().task))
    watch = StepWatch(report, run.deadlines.progress)
    threading.Thread(target=watch.watch, daemon=True).start()
    host = ray.util.get_node_ip_address()
    worker = Worker(run.payload, watch, [], isolated=False, host=host, supervised=True)
    try:
        error = worker.run()
    finally:
        report.flush()
        watch.stop()
    # The notebook ends the run when it hears of another one. An error would begin it again.
    if error and error["restartable"]:
        raise ClusterError(error["message"])  # not the error itself: TensorFlow's do not travel
