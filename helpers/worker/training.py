"""The work of one task of an Estimator training: `tf.estimator.train_and_evaluate`."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

from helpers.errors import ConfigError, DataError
from helpers.estimator import tf
from helpers.i18n import _
from helpers.protocol.events import EventType
from helpers.protocol.failures import split_graph_error
from helpers.protocol.job import EstimatorJob
from helpers.strategies import ONE_PROCESS
from helpers.tf_config import CHIEF, EVALUATOR, PS, TFConfig, set_tf_config_env
from helpers.worker.checkpoints import (
    CheckpointMonitor,
    resume_step,
    skip_corrupt_checkpoints,
    was_deleted,
)
from helpers.worker.context import WorkerContext
from helpers.worker.devices import make_strategy
from helpers.worker.hooks import EvaluationHook, EvaluationReporter, ProgressHook, report_evaluation
from helpers.worker.input import InputPipeline, fn_arg_names
from helpers.worker.tensorflow_patches import (
    autograph_convert,
    raise_efbig_as_resource_exhausted,
    restrict_autograph_to_user_code,
    set_session_recovery_wait,
    skip_save_after_restore,
)

WRITE_ERRORS = (
    tf.errors.ResourceExhaustedError,
    tf.errors.PermissionDeniedError,
    tf.errors.OutOfRangeError,  # what TensorFlow makes of EFBIG, "File too large"
    IndexError,  # and the thread that writes summaries of that
)


def train(job: EstimatorJob, context: WorkerContext) -> None:
    """Trains, or evaluates, as the task of `context` demands.

    Raises:
      ConfigError: the input function and the choice of epochs or steps do not fit.
      DataError: a file of the data set is damaged.
    """
    restrict_autograph_to_user_code()
    skip_save_after_restore(job.model_dir)
    raise_efbig_as_resource_exhausted()
    try:
        _Task(job, context).run()
    except tf.errors.DataLossError as error:
        # Its input function read with the course's `data`, which can tell the file, if it is here.
        course_data = sys.modules.get("helpers.course.data")
        found = course_data and course_data.find_damaged_file(job.params)
        said, _frames = split_graph_error(error.message)
        message = _("A data file is damaged: {reason}").format(reason=said)
        raise DataError(found or message) from None
    except WRITE_ERRORS as error:
        # A graph's error is a page; the line with the file says "…; No space left on device".
        reason = next((line for line in str(error).splitlines() if job.model_dir in line), None)
        if reason is None:
            raise  # out of memory, for instance
        message = _(
            "A checkpoint could not be written: {reason}. Make room there, and training goes on "
            "from step {step}; or name another model_dir."
        )
        step = resume_step(job.model_dir)
        raise ConfigError(message.format(reason=reason, step=step)) from None


class _Task:
    """One task's part in a job."""

    def __init__(self, job: EstimatorJob, context: WorkerContext) -> None:
        self.job = job
        self.context = context
        self.config = context.config
        self.checkpoints = CheckpointMonitor(job.model_dir, context)

    def run(self) -> None:
        """Runs the task to its end."""
        job, context = self.job, self.context
        strategy, replicas = self._begin()
        estimator = self._estimator(strategy)
        self.input = InputPipeline(job, self.pipelines, estimator.config)
        total_steps = job.steps or self._count_steps(replicas)
        global_batch = self.input.batch_size(replicas) * replicas
        context.report(EventType.RUN_INFO, total_steps=total_steps, global_batch=global_batch)
        train_spec, eval_spec = self._specs(total_steps, global_batch)
        if strategy and job.strategy in ONE_PROCESS:  # else it would evaluate every checkpoint
            estimator.train(train_spec.input_fn, train_spec.hooks, max_steps=total_steps)
        else:
            self._train_and_evaluate(estimator, train_spec, eval_spec)
        self.checkpoints.report()
        if job.evaluate == "after" and self.config.task == self.config.chief:
            # With a cluster in TF_CONFIG and no evaluator, train_and_evaluate only trains.
            set_tf_config_env(None)
            metrics = self._estimator().evaluate(
                self.input.evaluation, hooks=[EvaluationHook(context)]
            )
            report_evaluation(context, metrics)

    def _begin(self) -> tuple[Any, int]:
        """Makes the strategy, None for an evaluator; and counts the replicas that train."""
        job, context = self.job, self.context
        if (seed := job.params.get("seed")) is not None:
            tf.keras.utils.set_random_seed(seed)  # Keras's initializers heed no other
        if self.config.task.type == EVALUATOR:
            if not self.config.cluster and job.steps is None:
                raise _no_end_error()
            # It works alone: under the strategy, TensorFlow would wait for it as for a worker.
            strategy, replicas = None, 1 if self.config.is_asynchronous else self.pipelines
            set_tf_config_env(_config_with_chief(self.config))
        else:
            if self.config.task == self.config.chief:  # before its peers can come and read
                skip_corrupt_checkpoints(job.model_dir, context)
            if job.strategy in ONE_PROCESS:
                set_tf_config_env(None)  # TensorFlow would look for its devices there
            strategy = make_strategy(job.strategy, job.collective, job.replicas)
            replicas = strategy.num_replicas_in_sync
        if self.config.is_asynchronous:
            set_session_recovery_wait(seconds=1)
        if job.is_server(self.config):
            context.report(EventType.READY, step=0)
        return strategy, replicas

    def _specs(self, total_steps: int, global_batch: int) -> tuple[Any, Any]:
        """What `tf.estimator.train_and_evaluate` is told."""
        context = self.context
        train_spec = tf.estimator.TrainSpec(
            self._endless_input_fn,
            max_steps=total_steps,
            hooks=[ProgressHook(context, self.checkpoints, global_batch, total_steps)],
        )
        eval_spec = tf.estimator.EvalSpec(
            self.input.evaluation,
            steps=None,
            hooks=[EvaluationHook(context)],
            exporters=[EvaluationReporter(context)],
            start_delay_secs=0,
            throttle_secs=0,
        )
        return train_spec, eval_spec

    def _train_and_evaluate(self, *specs: Any) -> None:
        """As TensorFlow's, but an evaluator that comes too late for a checkpoint takes the next."""
        while True:
            try:
                return tf.estimator.train_and_evaluate(*specs)
            except (ValueError, tf.errors.OpError) as error:
                evaluates = self.config.task.type == EVALUATOR
                if not (evaluates and was_deleted(error, self.job.model_dir)):
                    raise

    def _estimator(self, strategy: Any = None) -> tf.estimator.Estimator:
        job = self.job
        config = tf.estimator.RunConfig(
            model_dir=job.model_dir,
            tf_random_seed=job.params.get("seed"),
            save_checkpoints_steps=job.save_checkpoints_steps,
            checkpoint_save_graph_def=False,  # as text, a tenth of the time to the first step
            # A session does not see the logical devices of the process unless it is told.
            session_config=tf.compat.v1.ConfigProto(device_count={"CPU": job.replicas})
            if job.replicas > 1
            else None,
            experimental_max_worker_delay_secs=0,  # 5 s for each worker beside a ps
            train_distribute=strategy,
        )
        model_fn = autograph_convert(job.model_fn) if strategy else job.model_fn
        asks = "params" in fn_arg_names(job.model_fn)  # Estimator refuses them else
        return tf.estimator.Estimator(
            model_fn, params=dict(job.params) if asks else None, config=config
        )

    def _endless_input_fn(self, mode: str, input_context: tf.distribute.InputContext) -> Any:
        """Training goes on with the batches that were due: a checkpoint has the weights, but not
        the place in the data, so the batches of the steps before it are left out.
        """
        replicas = input_context.num_replicas_in_sync
        done = resume_step(self.job.model_dir) / self._steps_per_batch(replicas)
        return self.input.training_batches(mode, input_context, int(done))

    def _count_steps(self, replicas: int) -> int:
        """Steps in all epochs."""
        steps = self.input.count_steps(replicas, self._steps_per_batch(replicas))
        return steps * (self.job.epochs or 1)

    @property
    def pipelines(self) -> int:
        """How many tasks read data."""
        return sum(task.type != PS for task in self.config.tasks) or 1

    def _steps_per_batch(self, replicas: int) -> Fraction:
        """Global steps for one batch of each task that reads.

        Synchronous, all replicas take a batch for a step. Asynchronous, a step is one batch of
        one task.
        """
        if self.config.is_asynchronous:
            return Fraction(self.pipelines)
        return Fraction(self.pipelines, replicas)


def _no_end_error() -> ConfigError:
    return ConfigError(
        _(
            "TF_CONFIG names only this evaluator, so it cannot count the steps of an epoch, and "
            "would not know the last checkpoint. Train with steps=, or give it the cluster of the "
            "workers."
        )
    )


def _config_with_chief(config: TFConfig) -> TFConfig:
    """The same cluster with worker 0 called chief, as RunConfig without a strategy demands.

    An evaluator that knows no cluster is told of a chief, whom nobody will ask.
    """
    if CHIEF in config.cluster:
        return config
    if not config.cluster:
        return TFConfig({CHIEF: ("localhost:1",)}, config.task)
    first, *rest = (config.address_of(task) for task in config.tasks)
    cluster = {"chief": (first,), "worker": tuple(rest)} if rest else {"chief": (first,)}
    return TFConfig(cluster, config.task)
