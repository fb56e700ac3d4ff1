"""What the reader's `input_fn` gives to one task: batches without end, one evaluation, a length."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.i18n import _
from helpers.protocol.job import EstimatorJob

# Operations that give another value each time, and end when there is none left.
_READERS = ("IteratorGetNext", "QueueDequeue", "ReaderRead")


class InputPipeline:
    """An `input_fn`, called as Estimator calls it: by the names of its arguments.

    Args:
      pipelines: how many tasks read data.
      config: the estimator's, for a function that asks for one.
    """

    def __init__(self, job: EstimatorJob, pipelines: int, config: Any) -> None:
        self._job, self._pipelines, self._config = job, pipelines, config

    def training_batches(
        self, mode: str, input_context: Any, batches_done: int = 0
    ) -> Callable[[], Any]:
        """What gives the next batch: the reader's epoch over and over, so that no worker runs out
        before the others.

        Args:
          batches_done: left out at the beginning. Tensors are not a place in a file: of those,
            none are.
        """
        data = self._call(mode, input_context)
        if not isinstance(data, tf.data.Dataset):
            return lambda: data
        # The thread that tunes a pipeline sleeps up to 60 s between two looks, and a session
        # that ends waits until it wakes.
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = data.repeat().skip(batches_done).with_options(options)
        # A dataset would be wrapped in a second one, with a tuning thread that no option
        # reaches; a function that gives the next batch is called as it is.
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        tf.compat.v1.add_to_collection(
            tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer
        )
        next_batch: Callable[[], Any] = iterator.get_next
        return next_batch

    def evaluation(self, mode: str) -> Any:
        """What Estimator evaluates: to its end. Tensors that nothing reads are one batch."""
        data = self._call(mode, None)
        if isinstance(data, tf.data.Dataset) or _is_read(tf.compat.v1.get_default_graph()):
            return data
        return tf.data.Dataset.from_tensors(data)

    def count_steps(self, replicas: int, steps_per_batch: Fraction) -> int:
        """The steps of one epoch, by the task with the fewest batches.

        Raises:
          ConfigError: TensorFlow cannot tell, or there is none.
        """
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            data = self._call("train", self._last_context(replicas))
            if not isinstance(data, tf.data.Dataset):
                raise _unknown_length(endless=False)
            batches = int(session.run(data.cardinality()))
        if batches < 0:
            raise _unknown_length(endless=batches == tf.data.INFINITE_CARDINALITY)
        steps = int(batches * steps_per_batch)
        if steps == 0:
            raise _no_batch(self._pipelines, self._job.params["batch_size"])
        return steps

    def batch_size(self, replicas: int) -> int:
        """The examples of a batch: as `params` says to a function that asks for them, else those
        of the first batch.
        """
        if "params" in fn_arg_names(self._job.input_fn):
            return int(self._job.params["batch_size"])
        with tf.Graph().as_default():
            batch = tf.nest.flatten(self.training_batches("train", self._last_context(replicas))())
            arrays = [part for part in batch if part.shape.rank != 0]
            examples = tf.shape(arrays[0])[0] if arrays else tf.constant(1)
            with tf.compat.v1.train.SingularMonitoredSession() as session:
                return int(session.run(examples))

    def _last_context(self, replicas: int) -> Any:
        return tf.distribute.InputContext(self._pipelines, self._pipelines - 1, replicas)

    def _call(self, mode: str, input_context: Any) -> Any:
        """What the function returns: a dataset, or tensors.

        Raises:
          ConfigError: it is something else; or tensors, which several replicas cannot share.
        """
        job = self._job
        known = {
            "mode": mode,
            "params": dict(job.params),
            "config": self._config,
            "input_context": input_context,
        }
        data = job.input_fn(
            **{name: known[name] for name in fn_arg_names(job.input_fn) & set(known)}
        )
        parts = tf.nest.flatten(data) if job.replicas == 1 else [data]
        if isinstance(data, tf.data.Dataset) or all(isinstance(one, tf.Tensor) for one in parts):
            return data
        message = _(
            "input_fn returned {type}; return a tf.data.Dataset of (features, labels) batches."
        )
        raise ConfigError(message.format(type=type(data).__name__))


def fn_arg_names(function: Callable[..., Any]) -> set[str]:
    """The names of the arguments that Estimator finds a function to have."""
    util: Any = importlib.import_module("tensorflow_estimator.python.estimator.util")
    return set(util.fn_args(function))


def _is_read(graph: Any) -> bool:
    """Whether a graph has something that gives another value each time, and can end."""
    return any(operation.type.startswith(_READERS) for operation in graph.get_operations())


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
