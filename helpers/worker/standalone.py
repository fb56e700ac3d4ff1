"""A worker without a supervisor, started by hand, in a pod, or by Slurm."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from helpers import labels
from helpers.i18n import LocalNumber, _, join_phrases, number
from helpers.protocol.events import EventType
from helpers.protocol.results import is_plain
from helpers.worker.context import Report

STEP_LOG_INTERVAL = 1.0
TICK_INTERVAL = 1.0

EXIT_RETRYABLE = 138
"""Exit code for a fault that the same program, started again, may well survive.

Kubeflow's `restartPolicy: ExitCode` starts a pod again for 128 to 255 and gives up for 1 to 127
(`IsRetryableExitCode` in kubeflow/training-operator, pkg/util/train/train_util.go). 128 + n also is
what a shell gives for signal n; 138, 128 + SIGUSR1, is the one left to programs.
"""


class EventLogger:
    """Prints events for a log, with the interface of `EventWriter`.

    Prints about one step a second, and the last one. Thread-safe.
    """

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._show = show or (lambda line: print(line, file=sys.stdout, flush=True))
        self._lock = threading.Lock()
        self._total: int | None = None
        self._next = 0.0

    def __call__(self, event: str, **fields: Any) -> None:
        """Prints one event, or nothing."""
        with self._lock:
            line = self._line(event, fields)
            if line is not None:
                self._show(f"{time.strftime('%H:%M:%S')} {line}")

    def _line(self, event: str, fields: dict[str, Any]) -> str | None:
        match event:
            case EventType.RUN_INFO:
                self._total = fields["total_steps"]
                message = _("training to step {total_steps}, global batch {global_batch}")
            case EventType.CONNECTING:
                message = _(
                    "waiting for the other workers in TF_CONFIG; if nothing follows, one of them "
                    "was not started or cannot be reached"
                )
            case EventType.READY:
                message = _("ready at step {step}: all required tasks are connected")
            case EventType.STEP if self._is_due(fields["step"]):
                return self._step_line(**fields)
            case EventType.CHECKPOINT:
                message = _("checkpoint of step {step}")
            case EventType.EVALUATION:
                metrics = (
                    f"{name} {number(value, '.4g')}"
                    for name, value in sorted(fields["metrics"].items())
                    if isinstance(value, float)
                )
                message = _("evaluation of step {step}: {metrics}")
                return message.format(step=fields["step"], metrics=join_phrases(metrics))
            case EventType.WARNING:
                message = "{message}"
            case EventType.RESULT if fields["value"] is not None:
                return _("result: {value}").format(value=_result_text(fields["value"]))
            case _:
                return None
        return message.format(**fields)

    def _is_due(self, step: int) -> bool:
        now = time.monotonic()
        if now < self._next and step != self._total:
            return False
        self._next = now + STEP_LOG_INTERVAL
        return True

    def _step_line(self, step: int, loss: float, examples_per_second: float | None) -> str:
        of = f"/{self._total}" if self._total else ""
        line = _("step {step}, loss {loss}").format(step=f"{step}{of}", loss=number(loss, ".4g"))
        if examples_per_second is None:
            return line
        return join_phrases([line, labels.throughput_label(examples_per_second)])


def _result_text(value: Any) -> str:
    """The result of a function as JSON if that preserves it, otherwise its repr."""
    return json.dumps(value) if is_plain(value) else repr(value)


class StepWatchdog:
    """Ends this process with `EXIT_RETRYABLE` if there is no progress for too long.

    TensorFlow may wait forever for a peer that has died or is frozen. The watchdog starts with the
    first step, because before it a worker waits until all others have started, and an evaluator
    waits for a checkpoint. Time spent in suspend does not count.

    Args:
      report: receives the events.
      seconds: the longest time between two events.
    """

    def __init__(self, report: Report, seconds: float) -> None:
        self._report = report
        self._seconds = seconds
        self._watching = False
        self._quiet = 0.0

    def __call__(self, event: str, **fields: Any) -> None:
        """Records an event, and passes it on."""
        if event not in (EventType.HEARTBEAT, EventType.WAITING):
            self._quiet = 0.0
            self._watching = self._watching or event == EventType.STEP
        self._report(event, **fields)

    def stop(self) -> None:
        """Stops the watchdog when the job is done."""
        self._watching = False

    def watch(self) -> None:
        """Checks the time of the last event, forever, in its thread."""
        while self._quiet <= self._seconds:
            time.sleep(TICK_INTERVAL)
            self._quiet += TICK_INTERVAL * self._watching
        message = _(
            "No step for {seconds:g} s: another task has died, is stopped, or cannot be "
            "reached. This one exits with code {code}; restart all of them, and training "
            "resumes from the last checkpoint. --step-timeout sets how long to wait."
        )
        print(
            message.format(seconds=LocalNumber(self._seconds), code=EXIT_RETRYABLE),
            file=sys.stderr,
            flush=True,
        )
        os._exit(EXIT_RETRYABLE)  # the main thread hangs in TensorFlow and would never react
