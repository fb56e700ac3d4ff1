"""What an Estimator training tells the notebook, and the hooks that tell it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from helpers.estimator import tf
from helpers.i18n import _
from helpers.protocol.events import EventType
from helpers.protocol.failures import split_graph_error
from helpers.worker.checkpoints import CheckpointMonitor
from helpers.worker.context import PeerLostError, WorkerContext
from helpers.worker.step_reporter import StalenessReporter, StepReporter
from helpers.worker.variable_placement import bytes_by_task

DUPLICATE_REQUEST_MESSAGE = "The same RunGraph (Worker) request was received twice"


class ProgressHook(tf.estimator.SessionRunHook):
    """Reports steps, loss and speed, where the variables are, and how stale asynchronous steps are;
    and ends a worker whose peers have gone.

    When a peer dies, Estimator hides TensorFlow's error, and makes a new session every 0.6 s, for
    ever, without a step. So this hook gives the error another type, which Estimator lets through.
    """

    def __init__(
        self, context: WorkerContext, checkpoints: CheckpointMonitor, global_batch: int, steps: int
    ) -> None:
        self._report = context.report
        self._task = context.config.task
        self._reporter = StepReporter(context, global_batch)
        self._staleness = StalenessReporter(context.report)
        self._checkpoints = checkpoints
        self._total_steps = steps
        self._asynchronous = context.config.is_asynchronous
        self._step = 0

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        # The last loss is the one Estimator added: the sum over replicas of their shares.
        loss = graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        self._fetches = {"loss": loss, "step": tf.compat.v1.train.get_global_step()}

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run = functools.partial(run_with_retry, session.run)
        self._step = int(session.run(tf.compat.v1.train.get_global_step()))
        self._report(EventType.READY, step=self._step)
        lying = bytes_by_task(self._task, tf.compat.v1.global_variables())
        self._report(EventType.VARIABLE_PLACEMENT, bytes=lying)

    def before_run(self, run_context: Any) -> Any:
        wanted = []
        if self._asynchronous:
            wanted.append("step")  # others count too
        else:
            self._step += 1  # a fetched global step may be that before or after the update
        if self._reporter.should_report or self._step == self._total_steps:
            wanted.append("loss")
        return tf.estimator.SessionRunArgs({name: self._fetches[name] for name in wanted})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        found = run_values.results
        self._step = int(found.get("step", self._step))
        self._staleness.count()
        if "loss" not in found:
            return
        self._reporter.report(self._step, float(found["loss"]))
        if self._asynchronous:
            self._staleness.report(self._step)
        self._checkpoints.report()


def run_with_retry(run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Calls `run`, a session's, with the other arguments; again if TensorFlow took it for another.

    A session on a server gives each request a number, out of 2**32 and drawn anew, and refuses one
    that was among the last 100,000 (RecentRequestIds; to TensorFlow 2.21). So after that many steps
    one in 43,000 is refused, by chance, before anything was done for it.

    Raises:
      PeerLostError: with TensorFlow's reason.
    """
    while True:
        try:
            return run(*args, **options)
        except (tf.errors.AbortedError, tf.errors.UnavailableError) as error:
            reason, _frames = split_graph_error(error.message)
            if DUPLICATE_REQUEST_MESSAGE not in reason:
                message = _("TensorFlow lost its connection to a peer: {reason}")
                raise PeerLostError(message.format(reason=reason)) from error


class EvaluationHook(tf.estimator.SessionRunHook):
    """Reports that an evaluation goes on."""

    def __init__(self, context: WorkerContext) -> None:
        self._report = context.report

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._report(EventType.EVALUATION_PROGRESS)


class EvaluationReporter(tf.estimator.Exporter):
    """Reports what the evaluator task found; `train_and_evaluate` tells nobody else."""

    name = "report"

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> None:
        report_evaluation(self._context, eval_result)


def report_evaluation(context: WorkerContext, metrics: Mapping[str, Any]) -> None:
    """Reports the metrics of one evaluation, and the step whose checkpoint was evaluated."""
    numbers = {name: float(value) for name, value in metrics.items() if name != "global_step"}
    context.report(EventType.EVALUATION, step=int(metrics["global_step"]), metrics=numbers)
