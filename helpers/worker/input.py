"""The input of one task from the reader's `input_fn`: endless batches, one evaluation, a length."""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.i18n import _
from helpers.params import DEFAULT_PARAMS, uses_defaults
from helpers.protocol.job import EstimatorJob
from helpers.worker.context import Report
from helpers.worker.evaluation_input import EvaluationInput
from helpers.worker.large_arrays import arrays_by_function
from helpers.worker.run_config import as_shard, without_rewriting
from helpers.worker.shares import share, take_turns

# Types that an input_fn may return instead of a dataset, in any structure.
PARTS = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor, np.ndarray, np.generic, type(None))
# Operations that return a new value each time, and end after the last value.
_READERS = ("IteratorGetNext", "QueueDequeue", "ReaderRead")


class InputPipeline:
    """An `input_fn`, called as Estimator calls it, by the names of its arguments.

    Args:
      pipelines: the number of tasks that read data or, if the group is elastic, of shards.
      config: the config of this task, for a call before Estimator's own.
      report: sends warnings.
      check_graph: called after `input_fn`, before a session runs its operations.
    """

    def __init__(
        self,
        job: EstimatorJob,
        pipelines: int,
        config: Any,
        report: Report,
        check_graph: Callable[[], None],
    ) -> None:
        self._job, self._pipelines, self._config = job, pipelines, config
        self._check_graph = check_graph
        self.endless_evaluation = EvaluationInput(report)

    def training_batches(
        self, mode: str, config: Any, input_context: Any, batches_done: int = 0
    ) -> Callable[[], Any]:
        """Returns the source of the next batch, the reader's epoch repeated endlessly.

        So no worker runs out of data before the others.

        Args:
          batches_done: the number of batches to skip at the beginning. It has no effect for
            tensors, which have no position.
        """

        def read(context: Any) -> Any:
            placed = config if context is input_context else as_shard(config, context)
            data = self._call(mode, placed, context)
            if not isinstance(data, tf.data.Dataset):
                return data
            return data.repeat() if self._job.whole_batches else data.repeat().skip(batches_done)

        shards = self._job.shards or input_context.num_input_pipelines
        if self._job.whole_batches:
            data = take_turns(read, input_context, shards, batches_done)
        else:
            data = share(read, input_context, shards)
        if not isinstance(data, tf.data.Dataset):
            return lambda: data
        # The autotuning thread sleeps for up to 60 s between two checks, and a session that ends
        # waits until it wakes.
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = data.with_options(options)
        # A dataset would be wrapped in a second one, with a tuning thread that no option controls.
        # A function that returns the next batch is called directly.
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        tf.compat.v1.add_to_collection(
            tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer
        )
        next_batch: Callable[[], Any] = iterator.get_next
        return next_batch

    def evaluation(self, mode: str, config: Any) -> Any:
        """Returns the evaluation data, all of it or `eval_steps` batches.

        Tensors that do not change are one batch.
        """
        call = functools.partial(self._call, mode, config, None)
        data = call() if self._job.eval_steps else self.endless_evaluation.read(call)
        if isinstance(data, tf.data.Dataset) or _is_read(tf.compat.v1.get_default_graph()):
            return data
        return tf.data.Dataset.from_tensors(data)

    def count_steps(self, replicas: int, steps_per_batch: Fraction) -> int:
        """The steps of one epoch, by the task with the fewest batches.

        Raises:
          ConfigError: TensorFlow cannot determine it, or there is none.
        """
        with tf.Graph().as_default(), _session() as session:
            data = self._call("train", self._config, self._last_context(replicas))
            if not isinstance(data, tf.data.Dataset):
                raise _unknown_length(endless=False)
            batches = int(session.run(data.cardinality()))
        if batches < 0:
            raise _unknown_length(endless=batches == tf.data.INFINITE_CARDINALITY)
        steps = int(batches * steps_per_batch)
        if steps == 0:
            raise self._no_batch()
        return steps

    def batch_size(self, replicas: int) -> int:
        """The examples of a batch: from `params` if the function uses them, else from a batch."""
        job = self._job
        if "params" in fn_arg_names(job.input_fn):
            if "batch_size" in job.params:
                return int(job.params["batch_size"])
            if uses_defaults(job.input_fn):
                return int(DEFAULT_PARAMS["batch_size"])
        with tf.Graph().as_default():
            batch = tf.nest.flatten(self.any_batch(replicas), expand_composites=True)
            arrays = [part for part in batch if part is not None and part.shape.rank != 0]
            examples = tf.shape(arrays[0])[0] if arrays else tf.constant(1)
            config = without_rewriting()
            with tf.compat.v1.train.SingularMonitoredSession(config=config) as session:
                return int(session.run(examples))

    def any_batch(self, replicas: int) -> Any:
        """A batch of the last task, in the current graph."""
        return self.training_batches("train", self._config, self._last_context(replicas))()

    def _last_context(self, replicas: int) -> Any:
        return tf.distribute.InputContext(self._pipelines, self._pipelines - 1, replicas)

    def _call(self, mode: str, config: Any, input_context: Any) -> Any:
        """Returns the function's result, a dataset or tensors. Arrays are converted to tensors.

        Raises:
          ConfigError: the result has another type, or consists of tensors, which several replicas
            cannot share.
        """
        job = self._job
        known = {
            "mode": mode,
            "params": copy.deepcopy(dict(job.params)),
            "config": config,
            "input_context": input_context,
        }
        with arrays_by_function():
            data = job.input_fn(
                **{name: known[name] for name in fn_arg_names(job.input_fn) & set(known)}
            )
        self._check_graph()
        if isinstance(data, tf.data.Dataset):
            return data
        parts = tf.nest.flatten(data) if job.replicas == 1 else [data]
        if parts and all(isinstance(part, PARTS) for part in parts):
            return tf.nest.map_structure(_as_tensor, data)
        message = _(
            "input_fn returned {type}. Return a tf.data.Dataset of (features, labels) batches."
        )
        raise ConfigError(message.format(type=type(data).__name__))

    def _no_batch(self) -> ConfigError:
        if "input_context" not in fn_arg_names(self._job.input_fn):
            return ConfigError(
                _(
                    "input_fn returns no batch for this worker. If it shards by TF_CONFIG or "
                    "by config, there are fewer files or examples than workers: use fewer "
                    "workers, a smaller batch or more data."
                )
            )
        message = _(
            "input_fn returns no batch for worker {index} of {workers}: its shard is smaller "
            "than {batch}. Use fewer workers, a smaller batch or more data."
        )
        size = self._job.params.get("batch_size")
        batch = _("one batch") if size is None else f"batch_size={size}"
        workers = self._pipelines
        return ConfigError(message.format(index=workers - 1, workers=workers, batch=batch))


def _session() -> Any:
    return tf.compat.v1.Session(config=without_rewriting())


def _as_tensor(part: Any) -> Any:
    return tf.constant(part) if isinstance(part, (np.ndarray, np.generic)) else part


def fn_arg_names(function: Callable[..., Any]) -> set[str]:
    """The names of a function's arguments, as Estimator finds them."""
    util: Any = importlib.import_module("tensorflow_estimator.python.estimator.util")
    return set(util.fn_args(function))


def _is_read(graph: Any) -> bool:
    """Whether a graph has an operation that returns a new value each time, and can end."""
    return any(operation.type.startswith(_READERS) for operation in graph.get_operations())


def _unknown_length(*, endless: bool) -> ConfigError:
    if endless:
        return ConfigError(
            _(
                "epochs needs an input_fn whose length TensorFlow can determine, "
                "but this one repeats forever. Return one epoch, without repeat(), or pass "
                "steps= instead "
                "of epochs=."
            )
        )
    return ConfigError(
        _(
            "epochs needs an input_fn whose length TensorFlow can determine, but the "
            "length of this one is unknown. Return one epoch, without repeat(), or pass steps= "
            "instead "
            "of epochs=."
        )
    )
