"""What a Keras training inside `LocalCluster.run` needs to be watched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from helpers.estimator import tf
from helpers.worker import WorkerContext

REPORT_SECONDS = 0.1


class ReportSteps(tf.keras.callbacks.Callback):
    """Reports the steps of `fit`, so that the cluster can tell work from a standstill.

    Args:
      context: what the function that `run` calls was given.
      global_batch: examples in one step of all replicas together.
    """

    _supports_tf_logs = True  # else Keras would fetch the loss after every step

    def __init__(self, context: WorkerContext, global_batch: int) -> None:
        super().__init__()
        self._report = context.report
        self._global_batch = global_batch
        self._last = 0.0, 0  # when the last report was sent, and at which step
        self._loss: Any = float("nan")

    def set_model(self, model: Any) -> None:
        """Has Keras log the mean over the workers: under MultiWorkerMirroredStrategy it adds up,
        for this callback, what is a mean already."""
        super().set_model(model)
        model.distribute_reduction_method = "first"

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Reports, at most ten times a second."""
        self._loss = (logs or {}).get("loss", self._loss)
        if time.perf_counter() - self._last[0] >= REPORT_SECONDS:
            self._send()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Reports the last step, if it was not."""
        if self._last[0] and int(self.model.optimizer.iterations.numpy()) > self._last[1]:
            self._send()

    def _send(self) -> None:
        step, now = int(self.model.optimizer.iterations.numpy()), time.perf_counter()
        then, since = self._last
        speed = (step - since) * self._global_batch / (now - then) if then else None
        self._report("step", step=step, loss=float(self._loss), examples_per_second=speed)
        self._last = now, step
