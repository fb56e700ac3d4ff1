"""Preemption: after SIGTERM to one worker, all workers save at the same step and exit.

A cloud or Slurm sends SIGTERM some seconds before it reclaims a machine. The worker that receives
it announces the last step to its peers and waits, before that step, until every peer has
acknowledged. No peer can complete a step without it, so all stop after the same one. Without a
signal, a step costs one comparison.

The workers use the protocol of `tf.distribute.experimental.PreemptionCheckpointHandler`
(failure_handling.py), which works only for custom training loops in eager mode.
"""

from __future__ import annotations

import importlib
import logging
import signal
import threading
from contextlib import suppress
from typing import Any

from helpers.i18n import _
from helpers.protocol.events import EventType
from helpers.tf_config import EVALUATOR
from helpers.worker.context import PreemptedError, WorkerContext

logger = logging.getLogger(__name__)

REQUEST, ACKNOWLEDGEMENT = "helpers/preemption/last_step", "helpers/preemption/acknowledged"
ACKNOWLEDGEMENT_TIMEOUT = 10.0  # seconds, of the grace period of 30 s or more


class PreemptionWatch:
    """Decides after which step this worker and its peers stop.

    Create it in all workers after the strategy, because TensorFlow's own handler, which the
    strategy installs, ignores the signal. Python can install a handler only in the main thread.

    Attributes:
      has_stopped: whether the last step has ended.
    """

    has_stopped = False

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        config = context.config
        self._index = config.tasks.index(config.task) if config.task in config.tasks else 0
        self._peers = [peer for peer in range(len(config.tasks)) if peer != self._index]
        self._steps = 0  # completed since the start of this watch, the same in all workers
        self._last_step: int | None = None
        self._received = False
        self._announced = False
        no_peer_waits = config.is_asynchronous or config.task.type == EVALUATOR
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL if no_peer_waits else self._on_signal)
        if self._peers and not no_peer_waits:
            threading.Thread(target=self._listen, daemon=True, name="preemption").start()

    def must_stop(self) -> bool:
        """Whether the step that has just ended is the last one. Call it after each step."""
        self._steps += 1
        if self._received and not self._announced:
            self._announced = True
            self._context.report(EventType.PREEMPTED)
            self._announce(self._steps + 1)
        self.has_stopped = self._last_step is not None and self._steps >= self._last_step
        return self.has_stopped

    def error(self) -> PreemptedError:
        """The exception with which this worker ends, after it has saved."""
        if self._received:
            message = _("this worker was preempted (SIGTERM), and has saved its state")
            return PreemptedError(message, is_own=True)
        message = _(
            "another worker was preempted (SIGTERM), and all workers have saved their state"
        )
        return PreemptedError(message, is_own=False)

    def _on_signal(self, number: int, frame: Any) -> None:
        # Nothing else, because the main thread, which runs it, may hold any lock.
        self._received = True

    def _announce(self, step: int) -> None:
        if not self._peers:
            self._last_step = self._steps
            return
        with suppress(Exception):  # another preempted worker was the first
            _service().set_config_key_value(REQUEST, str(step))
        acknowledged = threading.Thread(target=self._await_peers, daemon=True)
        acknowledged.start()
        acknowledged.join(ACKNOWLEDGEMENT_TIMEOUT)
        if acknowledged.is_alive():
            logger.warning("Not all workers have acknowledged the preemption")

    def _await_peers(self) -> None:
        for peer in [*self._peers, self._index]:
            _service().get_config_key_value(f"{ACKNOWLEDGEMENT}/{peer}")

    def _listen(self) -> None:
        """Runs in a thread, waits for the number of the last step, and acknowledges it."""
        with suppress(Exception):  # the service ends with the group
            self._last_step = int(_service().get_config_key_value(REQUEST))
            logger.info("A worker was preempted: the last step is %d", self._last_step)
            _service().set_config_key_value(f"{ACKNOWLEDGEMENT}/{self._index}", "")


def _service() -> Any:
    """TensorFlow's coordination service, which each MultiWorkerMirroredStrategy starts."""
    return importlib.import_module("tensorflow.python.eager.context").context()
