"""Hooks that report the events of an Estimator training run to the notebook."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from helpers.estimator import tf
from helpers.i18n import _
from helpers.protocol.events import EventType
from helpers.protocol.failures import split_graph_error
from helpers.protocol.serialization import plain_metric
from helpers.worker.checkpoints import CheckpointMonitor, step_of
from helpers.worker.context import PeerLostError, WorkerContext
from helpers.worker.data_position import EndOfTraining
from helpers.worker.devices import bytes_by_task
from helpers.worker.evaluation_input import EvaluationLimit
from helpers.worker.global_step import MAX_BATCHES, check_moves, count_updates
from helpers.worker.preemption import PreemptionWatch
from helpers.worker.progress import TrainingProgress
from helpers.worker.step_profiler import StepProfiler
from helpers.worker.step_reporter import SlowStepReporter, StalenessReporter, StepReporter

DUPLICATE_REQUEST_MESSAGE = "The same RunGraph (Worker) request was received twice"


class ProgressHook(tf.estimator.SessionRunHook):
    """Reports an Estimator's training, and ends it after the last batch or the loss of a peer.

    Reports steps, loss and speed, the placement of the variables, and the staleness of asynchronous
    steps.

    When a peer dies, Estimator hides TensorFlow's error, and creates a new session every 0.6 s,
    forever, without a step. So this hook changes the error to another type, which Estimator does
    not catch.

    Args:
      progress: the current position of training, and its end.
      preemption: ends training in all workers after a SIGTERM to one of them.
    """

    def __init__(
        self,
        context: WorkerContext,
        checkpoints: CheckpointMonitor,
        progress: TrainingProgress,
        global_batch: int,
        preemption: PreemptionWatch,
    ) -> None:
        self._report = context.report
        self._preemption = preemption
        self._task = context.config.task
        self._reporter = StepReporter(context, global_batch)
        self._staleness = StalenessReporter(context.report)
        self._checkpoints = checkpoints
        self._progress = progress
        self._global_batch = global_batch
        self._planned = progress.total_steps
        self._slow_steps = SlowStepReporter(context.report)

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        # Estimator added the last loss, the sum of the shares of all replicas.
        loss = graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        self._step = tf.compat.v1.train.get_global_step()
        self._fetches = {"loss": loss, "step": self._step}

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run = functools.partial(run_with_retry, session.run)
        step = int(session.run(self._step))
        self._progress.begin(step)
        self._report(EventType.READY, step=step)
        lying = bytes_by_task(self._task, tf.compat.v1.global_variables())
        self._report(EventType.VARIABLE_PLACEMENT, bytes=lying)

    def before_run(self, run_context: Any) -> Any:
        progress = self._progress
        progress.next_batch()
        self._slow_steps.begin(progress.batches)
        wanted = []
        if progress.is_asynchronous:
            wanted.append("step")  # other tasks count too
        if self._reporter.should_report or progress.may_be_last:
            wanted.append("loss")
        return tf.estimator.SessionRunArgs({name: self._fetches[name] for name in wanted})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        found, progress = run_values.results, self._progress
        self._slow_steps.end()
        progress.end_batch()
        self._staleness.count()
        if "step" in found:
            progress.saw(int(found["step"]))
        reads = progress.must_look or ("loss" in found and not progress.is_regular)
        if progress.own_batches == 1 or reads or progress.is_complete:
            progress.saw(int(run_context.session.run(self._step)), exactly=True)
        if progress.own_batches in (1, MAX_BATCHES):
            self._check_steps(run_context.original_args.fetches[0])
        if self._preemption.must_stop() or progress.is_complete:
            run_context.request_stop()
        if "loss" not in found:
            return
        self._report_plan()
        self._reporter.report(progress.step, float(found["loss"]), progress.global_batches)
        if progress.is_asynchronous:
            self._staleness.report(progress.step)
        self._checkpoints.report()

    def _check_steps(self, train_op: Any) -> None:
        progress = self._progress
        if not progress.has_moved:
            check_moves(train_op, self._step, progress.own_batches)
        if progress.is_asynchronous and progress.counts_batches:
            progress.counts_with_a_batch(count_updates(train_op, self._step))

    def _report_plan(self) -> None:
        """Reports the number of steps again if batches count differently than expected."""
        if (total := self._progress.total_steps) != self._planned:
            self._planned = total
            self._report(EventType.RUN_INFO, total_steps=total, global_batch=self._global_batch)

    def end(self, session: Any) -> None:
        self._slow_steps.close()
        self._progress.close()
        step = int(session.run(self._step))
        self._progress.saw(step, exactly=True)
        self._report_plan()
        self._report(EventType.TRAINED, step=step, batches=self._progress.batches)


class TraceHook(tf.estimator.SessionRunHook):
    """Profiles some steps of an Estimator's training, and reports their operations.

    Args:
      steps: the numbers of the steps.
      global_steps: whether these are global steps. Otherwise, the task counts its own steps.
    """

    def __init__(self, context: WorkerContext, steps: range, *, global_steps: bool) -> None:
        self._report = context.report
        self._steps = steps
        self._global_steps = global_steps
        self._step = 0  # the current step, or the last one
        self._profiler: StepProfiler | None = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._global_steps:
            self._step = int(session.run(tf.compat.v1.train.get_global_step()))

    def before_run(self, run_context: Any) -> None:
        self._step += 1
        if self._step in self._steps and not self._profiler:
            self._profiler = StepProfiler(self._step).__enter__()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._profiler:
            self._profiler.step()
            if self._step == self._steps[-1]:
                self._stop()

    def end(self, session: Any) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._profiler:
            self._profiler.__exit__()
            self._report(EventType.TRACE, spans=self._profiler.spans)
            self._profiler = None


def run_with_retry(run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Calls a session's `run` with the other arguments, and retries rejected requests.

    A session on a server draws a random number out of 2**32 for each request, and rejects a number
    that was among the last 100,000 (RecentRequestIds, up to TensorFlow 2.21). So after that many
    steps one in 43,000 is rejected by chance, before anything was computed for it.

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
    """Reports the progress of an evaluation, and ends one that has no end."""

    def __init__(self, context: WorkerContext, limit: EvaluationLimit | None) -> None:
        self._report = context.report
        self._limit = limit

    def begin(self) -> None:
        if self._limit:
            self._limit.begin()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._report(EventType.EVALUATION_PROGRESS)
        if self._limit:
            self._limit.count()


class LastEvaluation(Exception):
    """The evaluator has evaluated the last checkpoint of training."""


class EvaluationReporter(tf.estimator.Exporter):
    """Reports the evaluator's results, which `train_and_evaluate` sends to no other process."""

    name = "report"

    def __init__(self, context: WorkerContext, end: EndOfTraining) -> None:
        self._context = context
        self._end = end

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> None:
        report_evaluation(self._context, eval_result, checkpoint_path)
        if self._end.is_at(int(eval_result["global_step"])):
            raise LastEvaluation


def report_evaluation(context: WorkerContext, metrics: Mapping[str, Any], checkpoint: str) -> None:
    """Reports the metrics of one evaluation, and the step of its checkpoint.

    The step is the one in the checkpoint's name, as in the list of checkpoints. The variable in it
    can be higher, because asynchronous workers continue while it is written.
    """
    found = {name: plain_metric(value) for name, value in metrics.items() if name != "global_step"}
    context.report(EventType.EVALUATION, step=step_of(checkpoint), metrics=found)
