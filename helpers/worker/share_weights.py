"""Makes unequal shares of a batch give an Estimator the same results as a single worker.

A strategy sums the workers' gradients. If a global batch cannot be divided evenly, the shares
differ by an example or two. Then a loss that is a sum is exact, but if the loss is a mean, each
worker's gradient must be weighted by the size of its share.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from helpers.estimator import tf
from helpers.params import DEFAULT_PARAMS, uses_defaults
from helpers.protocol.job import EstimatorJob
from helpers.worker.run_config import without_rewriting


def params_of_share(job: EstimatorJob, workers: int) -> dict[str, Any]:
    """The params of `model_fn`, whose `batch_size` is the mean share of a worker.

    So `batch_size` times the number of replicas is the same global batch, and the learning rate
    that `model_fn` computes from it is the same too. The mean is a float if it is not whole.
    """
    params = dict(job.params)
    shards = job.shards or workers
    default = DEFAULT_PARAMS["batch_size"] if uses_defaults(job.model_fn) else None
    batch_size = params.get("batch_size", default)
    if shards != workers and not job.whole_batches and isinstance(batch_size, int):
        mean = Fraction(batch_size * shards, workers)
        params["batch_size"] = int(mean) if mean.denominator == 1 else float(mean)
    return params


def weigh_worker(weight: float) -> None:
    """Multiplies this worker's gradients by `weight` before they are summed over the workers.

    Call it once in a process, before the graph is built.
    """
    if weight == 1:
        return
    module: Any = importlib.import_module("tensorflow.python.distribute.cross_device_ops")
    operations = module.CollectiveAllReduce
    strategy: Any = importlib.import_module(
        "tensorflow.python.distribute.collective_all_reduce_strategy"
    )
    active: list[bool] = []

    def weighing(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def reduce(*args: Any, **options: Any) -> Any:
            active.append(True)
            try:
                return method(*args, **options)
            finally:
                active.pop()

        return reduce

    all_reduce = operations._all_reduce

    @functools.wraps(all_reduce)
    def weighted(self: Any, reduce_op: Any, value: Any, *args: Any) -> Any:
        if active:
            value = tf.nest.map_structure(lambda part: _times(part, weight), value)
        return all_reduce(self, reduce_op, value, *args)

    # Not for single values, such as a variable that is read for a checkpoint.
    extended = strategy.CollectiveAllReduceExtended
    operations.batch_reduce_implementation = weighing(operations.batch_reduce_implementation)
    extended._replica_ctx_all_reduce = weighing(extended._replica_ctx_all_reduce)
    operations._all_reduce = weighted


def _times(part: Any, weight: float) -> Any:
    if isinstance(part, tf.IndexedSlices):
        return tf.IndexedSlices(_times(part.values, weight), part.indices, part.dense_shape)
    return part * tf.cast(weight, part.dtype) if part.dtype.is_floating else part


def has_mean_loss(estimator: Any, read: Callable[[], Any], config: Any) -> bool:
    """Whether the loss of `model_fn` stays the same if each example of a batch occurs twice.

    The loss is a mean then, and otherwise a sum. If a batch contains other tensors than dense
    ones, the loss is assumed to be a mean.

    Args:
      read: returns the next batch, in a graph.
      config: the RunConfig for `model_fn`.
    """
    with tf.Graph().as_default():
        batch = read()
        flat = tf.nest.flatten(batch)
        if not all(isinstance(part, tf.Tensor) for part in flat):
            return True
        with _session() as session:
            values = session.run(flat)
    with tf.Graph().as_default() as graph:
        tf.compat.v1.set_random_seed(estimator.config.tf_random_seed)
        estimator._create_and_assert_global_step(graph)
        inputs = [_placeholder(part) for part in flat]
        features, labels = _split(tf.nest.pack_sequence_as(batch, inputs))
        spec = estimator._call_model_fn(features, labels, tf.estimator.ModeKeys.TRAIN, config)
        with _session(spec.scaffold) as session:
            once = session.run(spec.loss, dict(zip(inputs, values, strict=True)))
            twice = session.run(spec.loss, dict(zip(inputs, map(_twice, values), strict=True)))
    return bool(abs(twice - once) <= abs(twice - 2 * once))


def _session(scaffold: Any = None) -> Any:
    return tf.compat.v1.train.SingularMonitoredSession(
        scaffold=scaffold, config=without_rewriting()
    )


def _placeholder(part: Any) -> Any:
    shape = part.shape
    rows = shape if not shape.rank else tf.TensorShape([None]).concatenate(shape[1:])
    return tf.compat.v1.placeholder(part.dtype, rows)


def _split(batch: Any) -> tuple[Any, Any]:
    """Features and labels, as Estimator reads them."""
    is_pair = isinstance(batch, (list, tuple)) and len(batch) == 2
    return (batch[0], batch[1]) if is_pair else (batch, None)


def _twice(value: Any) -> Any:
    import numpy as np

    return np.concatenate([value, value]) if np.ndim(value) else value
