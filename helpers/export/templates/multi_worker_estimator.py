"""Trains an Estimator in one task of a cluster, and resumes from the last checkpoint."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

logger = logging.getLogger("tensorflow")
logger.setLevel("INFO")  # Estimator logs the loss
logger.propagate = False  # or each line would appear twice
logger.addFilter(lambda record: "is deprecated" not in record.getMessage())

LAST_STEP_SECONDS = 3  # while a slower peer may still read the last all-reduce


@dataclass
class Training:
    """The training of an Estimator, as seen by the task in TF_CONFIG.

    Attributes:
      model_fn, input_fn: as for `tf.estimator.Estimator`. `input_fn` returns one epoch, which is
        repeated. Its `input_context` specifies the part of this worker.
      make_strategy: creates the strategy. It is called once, before any other operation.
      model_dir: the folder of the checkpoints, which all tasks can access.
      params: hyper-parameters for both functions.
      epochs, steps: passes over the data, or the global step to train to.
      evaluate: "after" (the chief evaluates after training), "sidecar" (the evaluator evaluates
        each checkpoint), or None.
      eval_steps: batches of an evaluation, or None for all.
      readers: the number of tasks that read data. With parameter servers, each of them trains
        asynchronously, on its own batches.
      replicas: the number of replicas that share a step, one for each device of a worker.
    """

    model_fn: Callable[..., Any]
    input_fn: Callable[..., Any]
    make_strategy: Callable[[], tf.distribute.Strategy]
    model_dir: str
    params: Mapping[str, Any]
    epochs: int | None
    steps: int | None
    save_checkpoints_steps: int
    evaluate: str | None
    eval_steps: int | None
    task: Mapping[str, Any] = field(init=False)
    is_asynchronous: bool = field(init=False)
    readers: int = field(init=False)
    replicas: int = field(init=False)

    def __post_init__(self) -> None:
        config = json.loads(os.environ["TF_CONFIG"])
        self.task, cluster = config["task"], config["cluster"]
        self.is_asynchronous = "ps" in cluster
        self.readers = len(cluster.get("chief", [])) + len(cluster["worker"])
        self.replicas = 1 if self.is_asynchronous else self.readers

    def run(self) -> None:
        """Trains with the other tasks, or evaluates checkpoints."""
        tf.keras.utils.set_random_seed(self.params.get("seed", 1))
        if self.task["type"] == "evaluator":
            self._evaluate_checkpoints()
            return
        strategy = self.make_strategy()
        if self.is_asynchronous:
            _check_again_each_second()
        else:
            self.replicas = strategy.num_replicas_in_sync
        end = self._last_step()
        estimator = self._estimator(
            save_checkpoints_steps=self.save_checkpoints_steps,
            checkpoint_save_graph_def=False,
            experimental_max_worker_delay_secs=0,
            train_distribute=strategy,
        )
        hooks = [StopAfterLostPeer()]
        train_spec = tf.estimator.TrainSpec(self._training_batches, max_steps=end, hooks=hooks)
        eval_spec = tf.estimator.EvalSpec(self._evaluation_batches)
        # With a cluster in TF_CONFIG and no evaluator, it only trains.
        tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
        print(f"{self.task['type']} {self.task['index']}: trained to step {end}", flush=True)
        chief = "chief" if self.is_asynchronous else "worker"
        if self.evaluate == "after" and self.task == {"type": chief, "index": 0}:
            self._evaluate(None)
        time.sleep(LAST_STEP_SECONDS)

    def _estimator(self, **options: Any) -> tf.estimator.Estimator:
        if self.params.get("seed") is not None:
            options["tf_random_seed"] = self.params["seed"]
        return tf.estimator.Estimator(
            self.model_fn,
            params=dict(self.params) if "params" in _names(self.model_fn) else None,
            config=tf.estimator.RunConfig(self.model_dir, **options),
        )

    def _read(self, mode: str, config: Any, input_context: Any) -> Any:
        """Calls the input function as Estimator does, by the names of its arguments."""
        known = {"mode": mode, "params": dict(self.params), "config": config}
        known["input_context"] = input_context
        return self.input_fn(**{name: known[name] for name in _names(self.input_fn) & set(known)})

    def _training_batches(self, mode: str, config: Any, input_context: Any) -> Any:
        """The epoch, repeated, without the batches before the checkpoint.

        A checkpoint contains the weights, but not the position in the data.
        """
        data = self._read(mode, config, input_context)
        if not isinstance(data, tf.data.Dataset):
            return lambda: data
        done = _step(tf.train.latest_checkpoint(self.model_dir))
        done = (
            done // self.readers if self.is_asynchronous else done * self.replicas // self.readers
        )
        options = tf.data.Options()
        options.autotune.enabled = False  # its thread delays the end of a session by a minute
        dataset = data.repeat().skip(done).with_options(options)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        initializers = tf.compat.v1.GraphKeys.TABLE_INITIALIZERS
        tf.compat.v1.add_to_collection(initializers, iterator.initializer)
        return iterator.get_next

    def _evaluation_batches(self, mode: str, config: Any) -> Any:
        return self._read(mode, config, None)

    def _last_step(self) -> int:
        """The global step at the end: the batches of the task with the fewest, in all epochs."""
        if self.steps is not None:
            return self.steps
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            context = tf.distribute.InputContext(self.readers, self.readers - 1, self.replicas)
            batches = int(session.run(self._read("train", None, context).cardinality()))
        if batches < 1:
            raise SystemExit("The length of the data is unknown: pass steps instead of epochs.")
        return batches * self.readers // self.replicas * (self.epochs or 1)

    def _evaluate_checkpoints(self) -> None:
        """Evaluates each new checkpoint, up to the one at the end of training."""
        end = self._last_step()
        for path in tf.train.checkpoints_iterator(self.model_dir):
            self._evaluate(path)
            if _step(path) >= end:
                return

    def _evaluate(self, checkpoint: str | None) -> None:
        """Evaluates a checkpoint, by default the last one, and prints the metrics."""
        os.environ.pop("TF_CONFIG", None)  # an evaluation runs outside the cluster
        metrics = self._estimator().evaluate(
            self._evaluation_batches, self.eval_steps, checkpoint_path=checkpoint
        )
        print("evaluation:", {name: float(value) for name, value in metrics.items()}, flush=True)


class StopAfterLostPeer(tf.estimator.SessionRunHook):
    """Ends the process when it has lost a peer, so that all tasks can be restarted.

    Estimator hides TensorFlow's error. It creates a session again and again, without a step.
    """

    def __init__(self) -> None:
        self._has_session = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Raises RuntimeError for the second session."""
        if self._has_session:
            raise RuntimeError("The connection to another task was lost. Restart all tasks.")
        self._has_session = True


def _check_again_each_second() -> None:
    """Makes a worker check every second, not every 30 s, whether the variables are created."""
    manager = tf.compat.v1.train.SessionManager
    manager.__init__ = functools.partialmethod(manager.__init__, recovery_wait_secs=1)


def _names(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _step(checkpoint: str | None) -> int:
    return int(checkpoint.rpartition("-")[2]) if checkpoint else 0
