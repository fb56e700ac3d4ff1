"""Replayed training: a real cluster and supervisor whose workers only send the events of a run.

`replay` replaces the processes that a `LocalCluster` starts with `ReplayedProcess`, so that all
other parts are real: restarts, stops, the result, the panel.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import helpers.cluster.launcher
import helpers.cluster.local
import helpers.course.panel.view
from helpers.protocol import payload
from helpers.protocol.events import EventType
from helpers.protocol.job import EstimatorJob
from helpers.tf_config import PS, TFConfig
from tests.support.fake_worker import ScriptedProcess

EPOCH_STEPS = 100
STEP_SECONDS = 0.01
STARTED: dict[str, Any] = {"pid": 1, "cores": [], "isolated": True, "host": "here"}
VARIABLE_BYTES = 2_777_168  # of the lesson's model, including momentum


class ReplayedProcess(ScriptedProcess):
    """Sends the events of an Estimator's task, one step every hundredth of a second."""

    checkpoint = 0  # of the group: the first step of the next attempt

    def __init__(
        self, config: TFConfig, path: Path, log: Path, cores: Sequence[int], **_options: Any
    ) -> None:
        super().__init__(config, log)
        log.write_text(f"This process is {config.task}\n", "utf-8")
        job = pickle.loads(payload.read(path).job)
        assert isinstance(job, EstimatorJob)
        self._job = job
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """There is none. Code that sends signals without `signal` must handle this."""
        raise ProcessLookupError("a replayed process")

    def log_tail(self, lines: int = 12) -> str:
        """Its output."""
        return self.log.read_text("utf-8")

    def end(self, code: int = 0) -> None:
        """Ends it with an exit code, or minus the number of a signal."""
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        super().end(code)

    def _live(self) -> None:
        if self.task.type == PS:
            self._serve()
        else:
            self._train()
        if not self._ended.is_set():
            self.end(0)

    def _begin(self) -> int:
        """Reports the events before the first step, and the total steps."""
        steps = self._job.steps or (self._job.epochs or 1) * EPOCH_STEPS
        workers = len([task for task in self.config.tasks if task.type != PS])
        batch = int(self._job.params["batch_size"]) * workers
        self.send(EventType.STARTED, **STARTED)
        self.send(EventType.RUN_INFO, total_steps=steps, global_batch=batch)
        self.send(EventType.READY, step=ReplayedProcess.checkpoint)
        self.send(EventType.VARIABLE_PLACEMENT, bytes={str(self.task): VARIABLE_BYTES})
        return steps

    def _serve(self) -> None:
        self.send(EventType.STARTED, **STARTED)
        while not self._ended.wait(STEP_SECONDS):
            self.send(EventType.HEARTBEAT)

    def _train(self) -> None:
        steps, first = self._begin(), ReplayedProcess.checkpoint + 1
        for number in range(first, steps + 1):
            if self._ended.wait(STEP_SECONDS):
                return
            speed = 1000.0 if number > first else None
            self.send(EventType.STEP, step=number, loss=2 / number, examples_per_second=speed)
            if self.task == self.config.chief and number % 50 == 0:
                ReplayedProcess.checkpoint = number
                self.send(EventType.CHECKPOINT, step=number)
        if self.task == self.config.chief and self._job.evaluate == "after":
            self.send(EventType.EVALUATION_PROGRESS)
            self.send(EventType.EVALUATION, step=steps, metrics={"accuracy": 0.97, "loss": 0.1})


def replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, clusters of this process have replayed workers."""
    monkeypatch.setattr(ReplayedProcess, "checkpoint", 0)
    monkeypatch.setattr(helpers.cluster.launcher, "TaskProcess", ReplayedProcess)
    for module in (helpers.cluster.local, helpers.course.panel.view):
        monkeypatch.setattr(module, "prewarm", lambda *_args, **_options: None)
