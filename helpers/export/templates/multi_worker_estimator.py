"""Trains an Estimator in one task of a cluster, from checkpoint to checkpoint."""

from __future__ import annotations

import inspect
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

LAST_STEP_SECONDS = 3  # in which a slower peer may still read the last all-reduce


def run(
    model_fn: Callable[..., Any],
    input_fn: Callable[..., Any],
    make_strategy: Callable[[], tf.distribute.Strategy],
    *,
    model_dir: str,
    params: Mapping[str, Any],
    epochs: int | None,
    steps: int | None,
    save_checkpoints_steps: int,
    evaluate: str | None,
    eval_steps: int | None,
) -> None:
    """Runs the task of TF_CONFIG: it trains with the other tasks, or evaluates checkpoints.

    Args:
      model_fn, input_fn: as for `tf.estimator.Estimator`. `input_fn` returns one epoch, which is
        repeated. Its `input_context` specifies the part of this worker.
      make_strategy: creates the strategy. It is called once, before any other operation.
      model_dir: the folder of the checkpoints, which all tasks can access.
      params: hyper-parameters for both functions.
      epochs, steps: passes over the data, or the global step to train to.
      evaluate: "after" (the chief evaluates after training), "sidecar" (the evaluator evaluates
        each checkpoint), or None.
      eval_steps: batches of an evaluation, or None for all.
    """
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    readers = len(cluster.get("chief", [])) + len(cluster["worker"])
    asynchronous = "ps" in cluster
    is_chief = task == {"type": "chief" if asynchronous else "worker", "index": 0}
    seed = {"tf_random_seed": params["seed"]} if params.get("seed") is not None else {}
    model_params = dict(params) if "params" in _names(model_fn) else None

    def read(mode: str, run_config: Any, input_context: Any) -> Any:
        known = {"mode": mode, "params": dict(params), "config": run_config}
        known["input_context"] = input_context
        return input_fn(**{name: known[name] for name in _names(input_fn) & set(known)})

    def training_batches(mode: str, config: Any, input_context: Any) -> Any:
        """The epoch, repeated, without the batches before the checkpoint.

        A checkpoint contains the weights, but not the position in the data.
        """
        data = read(mode, config, input_context)
        if not isinstance(data, tf.data.Dataset):
            return lambda: data
        step = _step(tf.train.latest_checkpoint(model_dir))
        options = tf.data.Options()
        options.autotune.enabled = False  # its thread delays the end of a session by a minute
        done = step // readers if asynchronous else step * replicas // readers
        dataset = data.repeat().skip(done).with_options(options)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        initializers = tf.compat.v1.GraphKeys.TABLE_INITIALIZERS
        tf.compat.v1.add_to_collection(initializers, iterator.initializer)
        return iterator.get_next

    def evaluation_batches(mode: str, config: Any) -> Any:
        return read(mode, config, None)

    def last_step() -> int:
        """The global step at the end: the batches of the task with the fewest, in all epochs."""
        if steps is not None:
            return steps
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            context = tf.distribute.InputContext(readers, readers - 1, replicas)
            batches = int(session.run(read("train", None, context).cardinality()))
        if batches < 1:
            raise SystemExit("The length of the data is unknown: pass steps instead of epochs.")
        return batches * readers // (1 if asynchronous else replicas) * (epochs or 1)

    def evaluator() -> tf.estimator.Estimator:
        os.environ.pop("TF_CONFIG", None)  # an evaluation belongs to no cluster
        run_config = tf.estimator.RunConfig(model_dir, **seed)
        return tf.estimator.Estimator(model_fn, params=model_params, config=run_config)

    tf.keras.utils.set_random_seed(params.get("seed", 1))
    strategy = None if task["type"] == "evaluator" else make_strategy()
    replicas = strategy.num_replicas_in_sync if strategy else readers
    end = last_step()
    if strategy is None:
        _evaluate_checkpoints(evaluator(), evaluation_batches, eval_steps, model_dir, end)
        return
    run_config = tf.estimator.RunConfig(
        model_dir,
        save_checkpoints_steps=save_checkpoints_steps,
        checkpoint_save_graph_def=False,
        experimental_max_worker_delay_secs=0,
        train_distribute=strategy,
        **seed,
    )
    estimator = tf.estimator.Estimator(model_fn, params=model_params, config=run_config)
    hooks = [StopAfterLostPeer()]
    train_spec = tf.estimator.TrainSpec(training_batches, max_steps=end, hooks=hooks)
    eval_spec = tf.estimator.EvalSpec(evaluation_batches)
    # With a cluster in TF_CONFIG and no evaluator, it only trains.
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    print(f"{task['type']} {task['index']}: trained to step {end}", flush=True)
    if evaluate == "after" and is_chief:
        metrics = evaluator().evaluate(evaluation_batches, eval_steps)
        print(f"evaluation: {_plain(metrics)}", flush=True)
    time.sleep(LAST_STEP_SECONDS)


def _evaluate_checkpoints(
    estimator: Any, input_fn: Any, eval_steps: int | None, model_dir: str, end: int
) -> None:
    """Evaluates each new checkpoint, up to the one at the end of training."""
    for path in tf.train.checkpoints_iterator(model_dir):
        metrics = estimator.evaluate(input_fn, eval_steps, checkpoint_path=path)
        print(f"evaluation: {_plain(metrics)}", flush=True)
        if _step(path) >= end:
            return


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


def _names(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _step(checkpoint: str | None) -> int:
    return int(checkpoint.rpartition("-")[2]) if checkpoint else 0


def _plain(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}
