"""The work of one task of an Estimator training run: `tf.estimator.train_and_evaluate`."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

from helpers.errors import ConfigError, DataError
from helpers.estimator import tf
from helpers.i18n import _
from helpers.params import param
from helpers.protocol.events import EventType
from helpers.protocol.failures import split_graph_error
from helpers.protocol.job import EstimatorJob
from helpers.strategies import ONE_PROCESS
from helpers.tf_config import EVALUATOR, PS, TFConfig, set_tf_config_env
from helpers.worker.checkpoints import (
    CheckpointMonitor,
    resume_step,
    skip_corrupt_checkpoints,
    was_deleted,
)
from helpers.worker.context import WorkerContext
from helpers.worker.data_position import DataPosition, EndOfTraining
from helpers.worker.devices import make_strategy
from helpers.worker.evaluation_input import EvaluationLimit
from helpers.worker.gradients import (
    refuse_sync_replicas_optimizer,
    sum_sparse_gradients_of_any_length,
)
from helpers.worker.hooks import (
    EvaluationHook,
    EvaluationReporter,
    LastEvaluation,
    ProgressHook,
    TraceHook,
    report_evaluation,
)
from helpers.worker.input import InputPipeline, fn_arg_names
from helpers.worker.large_arrays import ConstantsCheck, ConstantsHook
from helpers.worker.preemption import PreemptionWatch
from helpers.worker.progress import TrainingProgress
from helpers.worker.run_config import make_run_config, place
from helpers.worker.share_weights import has_mean_loss, params_of_share, weigh_worker
from helpers.worker.shares import weight_of
from helpers.worker.tensorflow_patches import autograph_convert, before_checkpoints

WRITE_ERRORS = (
    tf.errors.ResourceExhaustedError,
    tf.errors.PermissionDeniedError,
    tf.errors.OutOfRangeError,  # TensorFlow's error for EFBIG, "File too large"
    IndexError,  # the summary writer's error for it
)


def train(job: EstimatorJob, context: WorkerContext) -> None:
    """Trains or evaluates, depending on the task of `context`.

    Raises:
      ConfigError: the input function does not fit the choice of epochs or steps, or `TF_CONFIG`
        does not list all workers.
      DataError: a file of the dataset is damaged.
    """
    if context.config.is_dynamic:
        raise _dynamic(context.config)
    sum_sparse_gradients_of_any_length()
    refuse_sync_replicas_optimizer()
    try:
        _Task(job, context).run()
    except tf.errors.DataLossError as error:
        # If the input function used the course's `data`, that module can name the file.
        course_data = sys.modules.get("helpers.course.data")
        found = course_data and course_data.find_damaged_file(job.params)
        said, _frames = split_graph_error(error.message)
        message = _("A data file is damaged: {reason}").format(reason=said)
        raise DataError(found or message) from None
    except WRITE_ERRORS as error:
        # A graph's error is a page. The line with the file has "…; No space left on device".
        reason = next((line for line in str(error).splitlines() if job.model_dir in line), None)
        if reason is None:
            raise  # out of memory, for instance
        message = _(
            "A checkpoint could not be written: {reason}. Free some space on that disk, or use "
            "another model_dir. If you keep the model_dir, training resumes at step {step}."
        )
        step = resume_step(job.model_dir)
        raise ConfigError(message.format(reason=reason, step=step)) from None


class _Task:
    """One task's part in a job."""

    def __init__(self, job: EstimatorJob, context: WorkerContext) -> None:
        self.job = job
        self.context = context
        self.config = context.config
        self.end = EndOfTraining(job.model_dir, (job.epochs, job.steps))
        self.constants = ConstantsCheck(self.config, (job.model_fn, job.input_fn))

    def run(self) -> None:
        """Runs the task to its end."""
        if self.config.task.type == EVALUATOR:
            self._evaluate_beside()
            return
        strategy, replicas = self._begin()
        if self.job.is_server(self.config):
            self._serve(strategy)
        else:
            self._train(strategy, replicas)
        if self.job.evaluate == "after" and self.config.task == self.config.chief:
            # With a cluster in TF_CONFIG and no evaluator, train_and_evaluate only trains.
            estimator = self._estimator()
            estimator._config = place(estimator._config, self.config)
            estimator._config._evaluation_master = ""  # in this process
            metrics = estimator.evaluate(
                self.input.evaluation, self.job.eval_steps, hooks=[self._evaluation_hook()]
            )
            report_evaluation(self.context, metrics, estimator.latest_checkpoint())

    def _begin(self) -> tuple[Any, int]:
        """Creates the strategy, and counts the replicas that train."""
        job, context = self.job, self.context
        _set_seed(job)
        if self.config.task == self.config.chief:  # before its peers connect and read
            skip_corrupt_checkpoints(job.model_dir, context)
            self.end.clear()
        if job.strategy in ONE_PROCESS:
            set_tf_config_env(None)  # TensorFlow would look for its devices there
        strategy = make_strategy(job.strategy, job.collective, job.replicas)
        return strategy, strategy.num_replicas_in_sync

    def _serve(self, strategy: Any) -> None:
        """Holds variables. The reader's functions are not called."""
        self.context.report(EventType.READY, step=0)
        train_spec = tf.estimator.TrainSpec(self.job.input_fn)
        eval_spec = tf.estimator.EvalSpec(self.job.input_fn)
        tf.estimator.train_and_evaluate(self._estimator(strategy), train_spec, eval_spec)

    def _train(self, strategy: Any, replicas: int) -> None:
        job, context = self.job, self.context
        self.preemption = PreemptionWatch(context)
        estimator = self._estimator(strategy)
        config = place(estimator.config, self.config)
        # An elastic group has the batches and steps of the largest group.
        workers, replicas = replicas, job.shards or replicas
        self.input = InputPipeline(job, self.shards, config, context.report, self.constants.run)
        self.progress = self._make_progress(workers, replicas)
        batch_size = self.input.batch_size(replicas)
        global_batch = batch_size * (workers if job.whole_batches else replicas)
        if job.shards and not job.whole_batches:
            weigh_worker(self._weight(batch_size))
        context.report(
            EventType.RUN_INFO, total_steps=self.progress.total_steps, global_batch=global_batch
        )
        checkpoints = CheckpointMonitor(
            job.model_dir, context, self.progress.record if self.config.is_asynchronous else None
        )
        before_checkpoints(self.progress.record, self._write_end)
        max_steps = job.steps
        if self.progress.is_complete:
            self._write_end(max_steps := resume_step(job.model_dir))  # no step is left
        hooks = self._hooks(checkpoints, global_batch)
        train_spec = tf.estimator.TrainSpec(self._endless_input_fn, max_steps, hooks)
        if job.strategy in ONE_PROCESS:  # otherwise it would evaluate every checkpoint
            estimator.train(train_spec.input_fn, train_spec.hooks, max_steps=max_steps)
        else:
            tf.estimator.train_and_evaluate(
                estimator, train_spec, tf.estimator.EvalSpec(self.input.evaluation)
            )
        checkpoints.report()
        if self.preemption.has_stopped and steps_are_left(self.progress):
            raise self.preemption.error()

    def _make_progress(self, workers: int, replicas: int) -> TrainingProgress:
        """The progress from the last checkpoint.

        Args:
          workers: the replicas that train.
          replicas: those of the largest group.
        """
        job, counts_each = self.job, self.job.whole_batches
        steps = job.steps or self._count_steps(replicas)
        progress = TrainingProgress(
            DataPosition(job.model_dir, self.config, self._tasks_that_count),
            is_asynchronous=self.config.is_asynchronous,
            total_steps=steps,
            total_batches=None if job.steps else steps * (replicas if counts_each else 1),
            batches_per_step=workers if counts_each else 1,
        )
        progress.begin(resume_step(job.model_dir))
        return progress

    def _hooks(self, checkpoints: CheckpointMonitor, global_batch: int) -> list[Any]:
        context, steps = self.context, self.job.trace_steps
        hooks = [
            ConstantsHook(self.constants),
            ProgressHook(context, checkpoints, self.progress, global_batch, self.preemption),
        ]
        if steps:
            are_global = not self.config.is_asynchronous
            hooks.append(TraceHook(context, steps, global_steps=are_global))
        return hooks

    def _evaluate_beside(self) -> None:
        """Evaluates checkpoints until the last one.

        Works without the strategy, under which TensorFlow would wait for it as for a worker. An
        evaluator that is too late for a checkpoint evaluates the next one.
        """
        job = self.job
        if not self.config.cluster and job.steps is None:
            raise _no_end_error()
        _set_seed(job)
        estimator = self._estimator()
        self.input = InputPipeline(
            job, self.pipelines, estimator.config, self.context.report, self.constants.run
        )
        train_spec = tf.estimator.TrainSpec(self._endless_input_fn, max_steps=job.steps)
        eval_spec = tf.estimator.EvalSpec(
            self.input.evaluation,
            steps=job.eval_steps,
            hooks=[self._evaluation_hook()],
            exporters=[EvaluationReporter(self.context, self.end)],
            start_delay_secs=0,
            throttle_secs=0,
        )
        while True:
            try:
                tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
                return
            except LastEvaluation:
                return
            except (ValueError, tf.errors.OpError) as error:
                if not was_deleted(error, job.model_dir):
                    raise

    def _evaluation_hook(self) -> EvaluationHook:
        if self.job.eval_steps:
            return EvaluationHook(self.context, None)
        trained = self.job.steps or resume_step(self.job.model_dir)
        data = self.input.endless_evaluation
        return EvaluationHook(self.context, EvaluationLimit(data, self.context.report, trained))

    def _estimator(self, strategy: Any = None) -> tf.estimator.Estimator:
        job = self.job
        model_fn = autograph_convert(job.model_fn) if strategy else job.model_fn
        asks = "params" in fn_arg_names(job.model_fn)  # otherwise, Estimator rejects them
        workers = self.pipelines if strategy else self.shards
        return tf.estimator.Estimator(
            model_fn,
            params=params_of_share(job, workers) if asks else None,
            config=make_run_config(job, self.config, strategy),
        )

    def _endless_input_fn(
        self, mode: str, config: Any, input_context: tf.distribute.InputContext
    ) -> Any:
        """The batches of training, without the batches before the checkpoint.

        A checkpoint contains the weights, but not the position in the data.
        """
        self.progress.begin(resume_step(self.job.model_dir))
        done = self.progress.batches
        if not self.config.is_asynchronous:  # then all replicas use a batch
            done = done * input_context.num_replicas_in_sync // self.pipelines
        return self.input.training_batches(mode, config, input_context, done)

    def _weight(self, batch_size: int) -> float:
        """The weight of this worker's gradients, if the workers have unequal shares."""
        workers, shards = self.pipelines, self.shards
        if shards * batch_size % workers == 0:
            return 1.0
        estimator = self._estimator()
        if not has_mean_loss(estimator, lambda: self.input.any_batch(shards), estimator.config):
            return 1.0
        return float(weight_of(self.config.task.index, workers, shards, batch_size))

    def _write_end(self, step: int) -> None:
        self.progress.close()
        if self.preemption.has_stopped and steps_are_left(self.progress):
            return
        if self.job.has_evaluator and self.config.task == self.config.chief:
            self.end.write(step)

    def _count_steps(self, replicas: int) -> int:
        """The steps in all epochs, if a batch of each replica is one step.

        In synchronous training, each replica uses one batch in a step. In asynchronous training, a
        step is one batch of one task.
        """
        replicas_per_task = Fraction(1 if self.config.is_asynchronous else replicas, self.shards)
        steps = self.input.count_steps(replicas, 1 / replicas_per_task)
        return steps * (self.job.epochs or 1)

    @property
    def pipelines(self) -> int:
        """The number of tasks that read data."""
        return sum(task.type != PS for task in self.config.tasks) or 1

    @property
    def shards(self) -> int:
        """The number of parts into which the data is divided."""
        return self.job.shards or self.pipelines

    @property
    def _tasks_that_count(self) -> int:
        """The number of tasks that increment the global step, each with its own batches."""
        return self.pipelines if self.config.is_asynchronous else 1


def steps_are_left(progress: TrainingProgress) -> bool:
    """Whether training has not reached its end."""
    return not progress.is_complete and progress.step < (progress.total_steps or 0)


def _set_seed(job: EstimatorJob) -> None:
    """Sets the only seed that Keras's initializers use."""
    tf.keras.utils.set_random_seed(param(job.params, "seed"))


def _dynamic(config: TFConfig) -> ConfigError:
    message = _(
        "TF_CONFIG of {task} has the addresses of the parameter servers but not of all workers "
        "(enableDynamicWorker of a TFJob). Without the number of workers an Estimator cannot "
        "divide the data: list all workers."
    )
    return ConfigError(message.format(task=config.task.label))


def _no_end_error() -> ConfigError:
    return ConfigError(
        _(
            "TF_CONFIG contains only this evaluator, so it cannot count the steps of an epoch, "
            "and would not recognize the last checkpoint. Train with steps=, or add the "
            "cluster of the workers."
        )
    )
