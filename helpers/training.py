"""The work of one task of an Estimator training: `tf.estimator.train_and_evaluate`."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Mapping
from typing import Any

from helpers.checkpoints import CheckpointWatch, drop_damaged, saved_step
from helpers.data import find_damaged_file
from helpers.errors import ConfigError, DataError
from helpers.estimator import tf
from helpers.i18n import _
from helpers.job import EstimatorJob
from helpers.strategy import make_strategy
from helpers.tf_config import EVALUATOR, TFConfig
from helpers.worker import PeerLost, WorkerContext

REPORT_SECONDS = 0.1


def train(job: EstimatorJob, context: WorkerContext) -> None:
    """Trains, or evaluates, as the task of `context` demands.

    Raises:
      ConfigError: the input function and the choice of epochs or steps do not fit.
      DataError: a file of the data set is damaged.
    """
    try:
        _Task(job, context).run()
    except tf.errors.DataLossError as error:
        found = find_damaged_file(job.params)
        message = _("A data file is damaged: {reason}").format(reason=error.message)
        raise DataError(found or message) from None
    except (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError) as error:
        # A graph's error is a page; the line with the file says "…; No space left on device".
        reason = next((line for line in error.message.splitlines() if job.model_dir in line), None)
        if reason is None:
            raise  # out of memory, for instance
        message = _(
            "A checkpoint could not be written: {reason}. Make room there, and training goes on "
            "from step {step}; or name another model_dir."
        )
        step = saved_step(job.model_dir)
        raise ConfigError(message.format(reason=reason, step=step)) from None


class _Task:
    """One task's part in a job."""

    def __init__(self, job: EstimatorJob, context: WorkerContext) -> None:
        self.job = job
        self.context = context
        self.config = context.config
        self.checkpoints = CheckpointWatch(job.model_dir, context)

    def run(self) -> None:
        """Runs the task to its end."""
        job, context = self.job, self.context
        if (seed := job.params.get("seed")) is not None:
            tf.keras.utils.set_random_seed(seed)  # Keras's initializers heed no other
        if self.config.task.type == EVALUATOR:
            # It works alone: under the strategy, TensorFlow would wait for it as for a worker.
            strategy, replicas = None, len(self.config.tasks)
            os.environ["TF_CONFIG"] = _with_chief(self.config).to_json()
        else:
            if self.config.task == self.config.chief:  # before its peers can come and read
                drop_damaged(job.model_dir, context)
            strategy = make_strategy(job.strategy, job.collective)
            replicas = strategy.num_replicas_in_sync
        total_steps = job.steps or self._count_steps(replicas)
        global_batch = job.params["batch_size"] * replicas
        context.report("plan", total_steps=total_steps, global_batch=global_batch)

        train_spec = tf.estimator.TrainSpec(
            self._endless_input_fn,
            max_steps=total_steps,
            hooks=[ProgressHook(context, self.checkpoints, global_batch, total_steps)],
        )
        eval_spec = tf.estimator.EvalSpec(
            job.input_fn,
            steps=None,
            hooks=[EvaluationHook(context)],
            exporters=[EvaluationReporter(context)],
            start_delay_secs=0,
            throttle_secs=0,
        )
        estimator = self._estimator(train_distribute=strategy)
        tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
        self.checkpoints.report()

        if job.evaluate == "after" and self.config.task == self.config.chief:
            # With a cluster in TF_CONFIG and no evaluator, train_and_evaluate only trains.
            os.environ.pop("TF_CONFIG", None)
            metrics = self._estimator().evaluate(job.input_fn, hooks=[EvaluationHook(context)])
            report_evaluation(context, metrics)

    def _estimator(self, **distribution: Any) -> tf.estimator.Estimator:
        job = self.job
        config = tf.estimator.RunConfig(
            model_dir=job.model_dir,
            tf_random_seed=job.params.get("seed"),
            save_checkpoints_steps=job.save_checkpoints_steps,
            **distribution,
        )
        return tf.estimator.Estimator(job.model_fn, params=dict(job.params), config=config)

    def _endless_input_fn(self, mode: str, input_context: tf.distribute.InputContext) -> Any:
        """The reader's epoch, over and over: no worker runs out before the others.

        A checkpoint holds the weights but not the place in the data. So the batches of the
        steps before it are skipped: with a seed, training goes on with those that were due.
        """
        replicas = input_context.num_replicas_in_sync // input_context.num_input_pipelines
        done = saved_step(self.job.model_dir) * replicas
        dataset = self._call_input_fn(mode, input_context).repeat().skip(done)
        # The thread that tunes a pipeline sleeps up to 60 s between two looks, and a session
        # that ends waits until it wakes.
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = dataset.with_options(options)
        # A dataset would be wrapped in a second one, with a tuning thread that no option
        # reaches; a function that gives the next batch is called as it is.
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        tf.compat.v1.add_to_collection(
            tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer
        )
        return iterator.get_next

    def _call_input_fn(self, mode: str, input_context: tf.distribute.InputContext) -> Any:
        known = {"mode": mode, "params": dict(self.job.params), "input_context": input_context}
        wanted = inspect.signature(self.job.input_fn).parameters
        dataset = self.job.input_fn(**{name: known[name] for name in wanted if name in known})
        if not isinstance(dataset, tf.data.Dataset):
            message = _(
                "input_fn returned {type}; return a tf.data.Dataset of (features, labels) batches."
            )
            raise ConfigError(message.format(type=type(dataset).__name__))
        return dataset

    def _count_steps(self, replicas: int) -> int:
        """Steps in all epochs, by the worker with the fewest batches."""
        pipelines = len(self.config.tasks)
        last = tf.distribute.InputContext(pipelines, pipelines - 1, replicas)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            batches = session.run(self._call_input_fn("train", last).cardinality())
        if batches < 0:
            raise _unknown_length(endless=batches == tf.data.INFINITE_CARDINALITY)
        if batches == 0:
            raise _no_batch(pipelines, self.job.params["batch_size"])
        return int(batches) * (self.job.epochs or 1)


def _unknown_length(*, endless: bool) -> ConfigError:
    if endless:
        return ConfigError(
            _(
                "epochs needs an input_fn whose length TensorFlow can tell, and this one repeats "
                "for ever. Return one epoch, without repeat(), or pass steps= instead of epochs=."
            )
        )
    return ConfigError(
        _(
            "epochs needs an input_fn whose length TensorFlow can tell, and this one hides it. "
            "Return one epoch, without repeat(), or pass steps= instead of epochs=."
        )
    )


def _no_batch(workers: int, batch_size: int) -> ConfigError:
    message = _(
        "input_fn gives worker {index} of {workers} no batch at all: its shard is smaller than "
        "batch_size={batch_size}. Use fewer workers, a smaller batch or more data."
    )
    return ConfigError(message.format(index=workers - 1, workers=workers, batch_size=batch_size))


def _with_chief(config: TFConfig) -> TFConfig:
    """The same cluster with worker 0 called chief, as RunConfig without a strategy demands."""
    first, *rest = (config.address_of(task) for task in config.tasks)
    cluster = {"chief": (first,), "worker": tuple(rest)} if rest else {"chief": (first,)}
    return TFConfig(cluster, config.task)


class ProgressHook(tf.estimator.SessionRunHook):
    """Reports steps, loss and speed, and ends a worker whose peers have gone.

    When a peer dies, Estimator makes a new session every 0.6 s, for ever, without a step. The
    second session is therefore an error.
    """

    def __init__(
        self, context: WorkerContext, checkpoints: CheckpointWatch, global_batch: int, steps: int
    ) -> None:
        self._report = context.report
        self._checkpoints = checkpoints
        self._global_batch = global_batch
        self._total_steps = steps
        self._sessions = 0
        self._step = 0
        self._last = 0.0, 0  # when the last report was sent, and at which step

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        # The last loss is the one Estimator added: the sum over replicas of their shares.
        loss = graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        self._loss = tf.estimator.SessionRunArgs(loss)

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._sessions += 1
        if self._sessions > 1:
            raise PeerLost(_("TensorFlow lost its connection to a peer and began a new session."))
        self._step = int(session.run(tf.compat.v1.train.get_global_step()))
        self._report("ready", step=self._step)

    def before_run(self, run_context: Any) -> Any:
        # Counted here: a fetched global step may be that before or after the update.
        self._step += 1
        due = time.perf_counter() - self._last[0] >= REPORT_SECONDS
        return self._loss if due or self._step == self._total_steps else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is None:
            return
        now, (then, since) = time.perf_counter(), self._last
        speed = (self._step - since) * self._global_batch / (now - then) if then else None
        loss = float(run_values.results)
        self._report("step", step=self._step, loss=loss, examples_per_second=speed)
        self._last = now, self._step
        self._checkpoints.report()


class EvaluationHook(tf.estimator.SessionRunHook):
    """Reports that an evaluation goes on."""

    def __init__(self, context: WorkerContext) -> None:
        self._report = context.report

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._report("evaluating")


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
    context.report("evaluation", step=int(metrics["global_step"]), metrics=numbers)
